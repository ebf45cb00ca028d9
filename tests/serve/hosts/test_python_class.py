"""A class of the user's own, hosted: what it may give, and what is said where it gives something else."""

import asyncio
import pickle
import subprocess
import sys

import numpy as np
import pytest

from demur.serve.config.file import Config
from demur.serve.contract.inputs import JsonInput, TableRow, TextPair, example_of
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.identity import identity_if_here, identity_of
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.kinds import check_here, kind_of

TEXTS = '''
import sys
import threading
from decimal import Decimal

import numpy as np

class ByLength:
    """Short texts are `ok`."""

    def __init__(self, limit=10, sharpness=1.0):
        self.limit, self.sharpness = limit, sharpness

    def predict_proba(self, texts):
        bad = 1 / (1 + np.exp(-self.sharpness * (np.array([len(text) for text in texts]) - self.limit)))
        return np.stack([1 - bad, bad], axis=1)

    def embed(self, texts):
        return np.array([[len(text), text.count(" ")] for text in texts], dtype=float)

class Logits(ByLength):
    predict_proba = None

    def predict_logits(self, texts):
        return np.array([[0.0, len(text) - 10.0] for text in texts])

class OfImages:
    image_shape = (1, 4, 4)

    def predict_proba(self, images):
        light = np.array([image.mean() for image in images])
        return np.stack([light, 1 - light], axis=1)

class Answers:
    def __init__(self, answer): self.answer = answer
    def predict_proba(self, texts): return self.answer

class Fails:
    def predict_proba(self, texts): raise RuntimeError("boom")

class OfRows:
    input = {"kind": "table", "columns": {"age": "number", "job": ["clerk", "nurse"]}}

    def predict_proba(self, rows):
        old = np.array([age > 60 for age, _ in rows], dtype=float)
        return np.stack([1 - old, old], axis=1)

class OfAnything:
    def predict_proba(self, values):
        return [[1.0, 0.0] if value.get("fine") else [0.0, 1.0] for value in values]

class OfPairs:
    def predict_proba(self, pairs):
        return [[1.0, 0.0] if text == pair else [0.0, 1.0] for text, pair in pairs]

class OfBytes:
    def predict_proba(self, values):
        return [[1.0, 0.0] if type(value) is bytes else [0.0, 1.0] for value in values]

class NoInput:
    input = {"kind": "tabel"}
    def predict_proba(self, values): return None

class Unmade:
    def __init__(self, how):
        if how == "raises": raise RuntimeError("no weights\\nhere")
        if how == "type": len(5)
        if how == "exits": sys.exit("bye")
        if how == "hangs": threading.Event().wait()

    def predict_proba(self, texts): return [[1.0, 0.0]] * len(texts)

class Reuses:
    """Writes each batch into one array, and gives a view of it."""
    def __init__(self): self.buffer = np.zeros((10, 2))

    def predict_proba(self, texts):
        self.buffer[:] = [[len(texts[0]) / 10, 1 - len(texts[0]) / 10]]
        return self.buffer[: len(texts)]

class Ends:
    def predict_proba(self, texts):
        if texts[0] == "exit": sys.exit(3)
        if texts[0] == "next": return next(iter([]))
        if texts[0] == "stop": raise KeyboardInterrupt
        return [[1.0, 0.0]] * len(texts)

class Gives:
    def __init__(self, what): self.what = what
    def predict_proba(self, texts):
        return {
            "generator": ([0.5, 0.5] for _ in texts),
            "objects": np.array([[object(), object()]]),
            "texts": np.array([["0.5", "0.5"]]),
            "texts as objects": np.array([["0.5", 0.5]], dtype=object),
            "complex": np.array([[0.5 + 1j, 0.5]]),
            "times": np.array([[0, 1]], dtype="datetime64[s]"),
            "masked": np.ma.masked_array([[0.5, 0.5]], mask=[[False, True]]),
            "halves": np.array([[0.5, 0.5]], dtype=np.float16),
            "decimals": np.array([[Decimal("0.5"), Decimal("0.5")]], dtype=object),
            "odd": Odd(),
        }[self.what]

class Odd:
    def __array__(self, *_, **__): raise KeyError("odd")

class NoModel: pass
not_a_class = 1
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the code of a user, in which demur was started."""
    (tmp_path / "own_models.py").write_text(TEXTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_models", None)


def model_section(name="ByLength", *, task=None, **host):
    multilabel = task is not None and task["kind"] == "multilabel"
    score = "binary_entropy" if multilabel else "softmax_response"
    return {
        "task": task or {"kind": "binary", "labels": ["ok", "bad"]},
        "host": {"kind": "python", "class": f"own_models:{name}", **host},
        "scores": [score],
        "confidence": {"score": score},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }


NEVER = model_section("Unmade", settings={"how": "hangs"}, load_seconds=0.2)


def configured(name="ByLength", **more):
    return Config.model_validate({"models": {"mine": model_section(name, **more)}}).models["mine"]


def run(model, inputs, *needs):
    async def main():
        loaded = await kind_of(model).load(model, None)
        try:
            return loaded.spec, await loaded.run(ModelRequest(inputs=inputs, needs=frozenset(needs)))
        finally:
            await loaded.close()

    return asyncio.run(main())


def test_probabilities_are_taken_as_they_are(project):
    spec, output = run(configured(settings={"limit": 4}), ["four", "much longer"])
    assert spec.kind == "text"
    assert output.probabilities[0].tolist() == [0.5, 0.5]
    assert output.probabilities[1, 1] > 0.99
    assert np.allclose(np.exp(output.logits), output.probabilities)
    assert output.usable().all()


def test_logits_become_probabilities(project):
    _, output = run(configured("Logits"), ["0123456789"])
    assert output.probabilities.tolist() == [[0.5, 0.5]]


def test_an_embedding_is_asked_for_where_a_score_needs_it(project):
    assert run(configured(), ["a b"])[1].embedding is None
    assert run(configured(), ["a b"], "embedding")[1].embedding.tolist() == [[3.0, 1.0]]


def test_images_come_in_the_shape_that_the_class_names(project):
    spec, output = run(configured("OfImages"), [np.ones((1, 4, 4), dtype=np.float32)])
    assert (spec.kind, spec.channels, spec.height, spec.width) == ("image", 1, 4, 4)
    assert output.probabilities.tolist() == [[1.0, 0.0]]
    assert output.usable().all()  # a probability of 0 is a number like any other


@pytest.mark.parametrize(
    ("name", "settings", "value", "right"),
    [
        ("OfRows", {}, TableRow((70.0, "nurse")), [0.0, 1.0]),
        ("OfAnything", {"input": "json"}, JsonInput({"fine": True}), [1.0, 0.0]),
        ("OfPairs", {"input": "text_pair"}, TextPair(text="a", text_pair="a"), [1.0, 0.0]),
        ("OfBytes", {"input": "bytes"}, b"\0\1", [1.0, 0.0]),
    ],
)
def test_every_kind_of_input_reaches_the_class_as_plain_values(project, name, settings, value, right):
    spec, output = run(configured(name, **settings), [value])
    assert output.probabilities.tolist() == [right]
    assert run(configured(name, **settings), [example_of(spec)])[1].probabilities.shape == (1, 2)


def test_a_class_with_an_input_that_there_is_not_is_refused(project):
    with pytest.raises(BadModel, match="own_models:NoInput: its `input` is not one that can be configured: kind: "):
        run(configured("NoInput"), ["a"])


def test_a_row_that_is_not_a_number_spoils_no_other(project):
    model = configured("Answers", settings={"answer": [[0.2, 0.8], [float("nan"), 0.5]]})
    assert run(model, ["a", "b"])[1].usable().tolist() == [True, False]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([0.2, 0.8, 0.1], r"gave \[3\]; it should give \[2, 2\], a column for each label"),
        ([[0.2, 0.8]], r"gave \[1, 2\]; it should give \[2, 2\]"),
        ([[0.2, 0.3, 0.5]] * 2, r"gave \[2, 3\]; it should give \[2, 2\]"),
        ([[0.2, 0.3]] * 2, r"come to 0\.5, and labels that exclude each other come to 1"),
        ([[-0.2, 1.2]] * 2, "a probability is not between 0 and 1"),
        ([["a", "b"]] * 2, "gave no array of numbers"),
        (None, r"gave \[\]"),
    ],
)
def test_what_is_no_batch_of_probabilities_is_refused(project, answer, why):
    with pytest.raises(BadModelOutput, match=why):
        run(configured("Answers", settings={"answer": answer}), ["a", "b"])


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("generator", "gave no array of numbers: TypeError"),
        ("objects", "gave no array of numbers: TypeError"),
        ("texts", "gave no array of numbers: TypeError: there are texts in it"),
        ("texts as objects", "gave no array of numbers: TypeError: there are texts in it"),
        ("complex", "gave no array of numbers: TypeError: its elements are complex128"),
        ("times", "gave no array of numbers: TypeError: its elements are datetime64"),
        ("odd", "gave no array of numbers: KeyError"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(project, what, why):
    with pytest.raises(BadModelOutput, match=why):
        run(configured("Gives", settings={"what": what}), ["a"])


@pytest.mark.parametrize("what", ["halves", "decimals"])
def test_numbers_may_be_of_any_type(project, what):
    assert run(configured("Gives", settings={"what": what}), ["a"])[1].probabilities.tolist() == [[0.5, 0.5]]


def test_a_number_that_is_masked_is_unknown(project):
    assert run(configured("Gives", settings={"what": "masked"}), ["a"])[1].usable().tolist() == [False]


def test_an_array_that_the_class_uses_again_changes_no_earlier_output(project):
    async def main():
        loaded = await kind_of(configured("Reuses")).load(configured("Reuses"), None)
        return [await loaded.run(ModelRequest(inputs=[text], needs=frozenset())) for text in ("a", "bbbb")]

    first, second = asyncio.run(main())
    assert first.probabilities.tolist() == [[0.1, 0.9]]
    assert second.probabilities.tolist() == [[0.4, 0.6]]


@pytest.mark.parametrize(("text", "why"), [("exit", "SystemExit: 3"), ("next", "StopIteration"), ("stop", "Keyboard")])
def test_what_would_end_a_program_is_an_error_like_any_other(project, text, why):
    async def main():
        loaded = await kind_of(configured("Ends")).load(configured("Ends"), None)
        with pytest.raises(RuntimeError, match=why):
            await asyncio.wait_for(loaded.run(ModelRequest(inputs=[text], needs=frozenset())), 60)
        return await loaded.run(ModelRequest(inputs=["fine"], needs=frozenset()))

    assert asyncio.run(main()).usable().all()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("raises", "host.class: own_models:Unmade failed while it was made: RuntimeError: no weights$"),
        ("type", "host.class: own_models:Unmade failed while it was made: TypeError: object of type 'int' has no len"),
        ("exits", "host.class: own_models:Unmade failed while it was made: SystemExit: bye"),
    ],
)
def test_a_class_that_cannot_be_made_says_why(project, how, why):
    with pytest.raises(BadModel, match=why):
        run(configured("Unmade", settings={"how": how}), ["a"])


@pytest.mark.slow
def test_a_class_that_is_never_made_is_given_up_and_keeps_nobody(project):
    """In a process of its own, which must come to its end although a thread of it never does."""
    (project / "asks.py").write_text(
        "import asyncio, sys\n"
        "from demur.serve.config.file import Config\n"
        "from demur.serve.hosts.kinds import kind_of\n"
        f"model = Config.model_validate({ {'models': {'mine': NEVER}}!r}).models['mine']\n"
        "try:\n    asyncio.run(kind_of(model).load(model, None))\n"
        "except ValueError as error:\n    sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "asks.py"], cwd=project, capture_output=True, text=True, timeout=120)
    assert "host.load_seconds: the model was not loaded within 0.2 s; set it higher" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("class Model(:", "SyntaxError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("import nowhere_at_all", "there is no 'broken_models:Model': No module named 'nowhere_at_all'"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(project, code, why):
    (project / "broken_models.py").write_text(code)
    section = model_section()
    section["host"]["class"] = "broken_models:Model"
    with pytest.raises(BadModel, match=why):
        check_here(Config.model_validate({"models": {"mine": section}}).models["mine"])
    sys.modules.pop("broken_models", None)


def test_labels_that_each_hold_or_not_need_not_come_to_one(project):
    task = {"kind": "multilabel", "labels": ["x", "y"]}
    model = configured("Answers", settings={"answer": [[0.9, 0.9]]}, task=task)
    _, output = run(model, ["a"])
    assert output.probabilities.tolist() == [[0.9, 0.9]]
    assert np.allclose(1 / (1 + np.exp(-output.logits)), 0.9)


def test_a_score_that_needs_what_the_class_does_not_give(project):
    with pytest.raises(BadModelOutput, match=r"needs the embedding.*give it a method `embed`"):
        run(configured("OfImages"), [np.ones((1, 4, 4), dtype=np.float32)], "embedding")
    with pytest.raises(BadModelOutput, match="needs the mc probabilities"):
        run(configured(), ["a"], "mc_probabilities")


def test_an_error_of_the_class_reaches_whoever_asked(project):
    with pytest.raises(RuntimeError, match="boom"):
        run(configured("Fails"), ["a"])


def test_an_error_of_the_class_names_its_line_after_the_way_to_the_gateway(project):
    with pytest.raises(RuntimeError) as raised:
        run(configured("Fails"), ["a"])
    arrived = pickle.loads(pickle.dumps(raised.value))  # as Ray sends it
    assert arrived.__traceback__ is None
    (note,) = arrived.__notes__
    assert note.startswith("predict_proba of own_models:Fails failed at\n")
    assert 'own_models.py", line ' in note


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Missing", "host.class: there is no 'own_models:Missing'"),
        ("not_a_class", "host.class: own_models:not_a_class is not a class"),
        ("NoModel", "has no method `predict_proba`"),
    ],
)
def test_what_is_no_model_is_refused(project, name, why):
    with pytest.raises(BadModel, match=why):
        check_here(configured(name))
    assert identity_if_here(configured(name)) is None


def test_settings_that_the_class_does_not_take(project):
    with pytest.raises(BadModel, match=r"host\.settings: own_models:ByLength cannot be made with them"):
        run(configured(settings={"unknown": 1}), ["a"])


def test_a_file_that_is_missing(project):
    with pytest.raises(BadModel, match=r"host\.files: there is no file .*weights\.bin"):
        check_here(configured(files=["weights.bin"]))


def test_another_setting_or_file_or_line_of_code_is_another_model(project):
    (project / "weights.bin").write_bytes(b"one")
    first = identity_of(configured(files=["weights.bin"]))
    assert identity_of(configured(files=["weights.bin"])) == first
    prints = {first.fingerprint, identity_of(configured(files=["weights.bin"], settings={"limit": 3})).fingerprint}
    (project / "weights.bin").write_bytes(b"two")
    prints.add(identity_of(configured(files=["weights.bin"])).fingerprint)
    (project / "own_models.py").write_text(TEXTS + "\n# changed\n")
    prints.add(identity_of(configured(files=["weights.bin"])).fingerprint)
    assert len(prints) == 4


def test_a_name_that_is_no_path_of_a_class_is_refused():
    section = model_section()
    section["host"]["class"] = "own_models.ByLength"
    with pytest.raises(ValueError, match="pattern"):
        Config.model_validate({"models": {"mine": section}})
