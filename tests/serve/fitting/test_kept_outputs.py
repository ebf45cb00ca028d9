"""What a model said about labelled rows is kept, by all that it hangs on, and nothing in a file is trusted."""

import os
import stat
from datetime import date

import numpy as np
import pytest

from demur.serve.fitting.kept_outputs import KeptOutputs, NotWritten, bytes_of, output_from
from demur.uncertainty.generation import Generation, Replies, Usage, as_column
from demur.uncertainty.output import Output

HANGS_ON = {"identity": {"fingerprint": "f" * 64}, "needs": ["probabilities"], "prompt": "Q: {input}"}


class Model:
    """Counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return Output.from_logits(np.array([[0.1, 2.0], [1.0, np.nan]]), embedding=np.ones((2, 3)))


def kept(folder, *, most_bytes=10_000_000, fresh=False, **changes):
    return KeptOutputs(folder / "outputs", hangs_on={**HANGS_ON, **changes}, most_bytes=most_bytes, fresh=fresh)


def test_a_second_fit_does_not_ask_again(tmp_path):
    model = Model()
    first = kept(tmp_path)
    made = first.of(["a", {"b": 1}], model)
    assert first.close() == []
    second = kept(tmp_path)
    found = second.of(["a", {"b": 1}], model)
    assert model.asked == 1
    for name, part in made.parts().items():
        np.testing.assert_array_equal(part, found.parts()[name])
    (said,) = second.close()
    assert said.startswith("The model was not run again on 2 rows")
    assert "--fresh" in said


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        ({"prompt": "another"}, ["a", "b"]),
        ({"identity": {"fingerprint": "0" * 64}}, ["a", "b"]),
        ({"needs": ["probabilities", "embedding"]}, ["a", "b"]),
        ({}, ["b", "a"]),
        ({}, ["a", "c"]),
        ({}, ["a", b"b"]),
        ({}, ["a", date(2026, 11, 25)]),
    ],
)
def test_anything_else_is_asked(tmp_path, changes, inputs):
    model = Model()
    kept(tmp_path).of(["a", "b"], model)
    kept(tmp_path, **changes).of(inputs, model)
    assert model.asked == 2


def test_fresh_asks_again_and_keeps_what_comes(tmp_path):
    model = Model()
    for fresh in (False, True, False):
        kept(tmp_path, fresh=fresh).of(["a", "b"], model)
    assert model.asked == 2


def test_the_folder_and_its_files_are_private(tmp_path):
    kept(tmp_path).of(["a", "b"], Model())
    folder = tmp_path / "outputs"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["empty", "noise", "cut", "pickle", "other rows", "strange"])
def test_a_file_that_cannot_be_read_is_passed_over_and_told(tmp_path, damage):
    model = Model()
    kept(tmp_path).of(["a", "b"], model)
    (file,) = (tmp_path / "outputs").iterdir()
    whole = file.read_bytes()
    if damage == "pickle":
        with file.open("wb") as out:
            np.savez(out, logits=np.array([object(), object()]), allow_pickle=True)
    else:
        one = Output.from_logits(np.zeros((1, 2)))
        strange = whole.replace(b"made_at", b"made_by")
        told = {"empty": b"", "noise": b"\0" * 400, "cut": whole[: len(whole) // 2], "strange": strange}
        file.write_bytes(told.get(damage) if damage in told else bytes_of(one, made_at=0.0))
    again = kept(tmp_path)
    again.of(["a", "b"], model)
    assert model.asked == 2
    assert again.close() == [f"1 files in {tmp_path / 'outputs'} could not be read, and were made again"]
    kept(tmp_path).of(["a", "b"], model)
    assert model.asked == 2


def test_what_was_used_longest_ago_goes_first(tmp_path):
    model = Model()
    one = kept(tmp_path)
    for inputs in (["a", "b"], ["c", "d"], ["e", "f"]):
        one.of(inputs, model)
    size = next((tmp_path / "outputs").iterdir()).stat().st_size

    for path in (tmp_path / "outputs").iterdir():
        os.utime(path, (1, 1))
    small = kept(tmp_path, most_bytes=2 * size + 10)
    small.of(["a", "b"], model)
    small.close()
    assert len(list((tmp_path / "outputs").iterdir())) == 2
    assert model.asked == 3
    kept(tmp_path).of(["a", "b"], model)
    assert model.asked == 3


def test_where_nothing_can_be_written_the_fit_goes_on(tmp_path):
    (tmp_path / "outputs").write_text("a file")
    model = Model()
    one = kept(tmp_path)
    assert len(one.of(["a", "b"], model)) == 2
    assert len(one.of(["c", "d"], model)) == 2
    (said,) = one.close()
    assert said.startswith("What the model said could not be kept in")


def test_inputs_that_nothing_tells_apart_are_asked_each_time(tmp_path):
    model = Model()
    for _ in range(2):
        kept(tmp_path).of([object(), object()], model)
    assert model.asked == 2
    assert not (tmp_path / "outputs").exists()


def test_replies_of_a_language_model_come_back_as_they_were():
    reply = Generation(
        text="a ☃",
        tokens=("a", " ☃"),
        logprobs=np.array([-0.5, -np.inf]),
        top_logprobs=(np.array([-0.5, -1.0]), np.array([])),
        left_out=frozenset({"seed", "logprobs"}),
    )
    replies = Replies(
        first=reply,
        said=(0, 2),
        spans={0: (0, 1), 2: (1, 2)},
        options=("x", (1,), None),
        samples=(0, None, (1, 2), "text"),
        stated={0: 0.5},
        usage=Usage(calls=2, seconds=0.25),
        elsewhere={"http://b": 1},
    )
    output = Output(
        logits=np.zeros((2, 3)),
        probabilities=np.full((2, 3), np.nan),
        replies=as_column([replies, None]),
        unreadable=as_column([None, "nothing was said"]),
    )
    made_at, found = output_from(bytes_of(output, made_at=7.0))
    assert made_at == 7.0
    assert found.unreadable.tolist() == [None, "nothing was said"]
    again, nothing = found.replies.tolist()
    assert nothing is None
    for name in ("said", "spans", "options", "samples", "stated", "usage", "elsewhere", "rating", "outage"):
        assert getattr(again, name) == getattr(replies, name), name
    assert (again.first.text, again.first.tokens, again.first.left_out) == (reply.text, reply.tokens, reply.left_out)
    np.testing.assert_array_equal(again.first.logprobs, reply.logprobs)
    for one, other in zip(again.first.top_logprobs, reply.top_logprobs, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(NotWritten, match="holds object"):
        bytes_of(
            Output(logits=output.logits, probabilities=output.logits, replies=as_column([object()] * 2)), made_at=0
        )
