"""What requests bring of models that run elsewhere."""

import numpy as np
import pytest

from demur.serve.contract.inputs import InputLimits, InvalidRequest, TooLarge
from demur.serve.contract.reading.given import GivenReader
from demur.traffic.dataset import GivenRow, SpreadRow
from tests.serve.given_models import BY_RISK, LABELS, configured

ALL_PARTS = {
    "kind": "given",
    "gives": ["probabilities", "embedding", "passes", "scores", "reply", "logprobs", "samples"],
    "scores": {"risk": "less_sure", "certainty": "surer"},
    "embedding_size": 2,
    "passes": 2,
}
SURE = [0.7, 0.2, 0.1]


def reader(host=None, **more):
    model = configured(**({"host": host} if host else {}) | more).models["vendor"]
    return GivenReader(model.host, model.task, InputLimits(text_characters=20))


def read(output, *, of=None, value=None):
    return (of or reader()).read(GivenRow(input=value, output=output))


def test_probabilities_come_as_a_list_or_by_label():
    assert read({"probabilities": SURE}).probabilities.tolist() == SURE
    assert read({"probabilities": dict(zip(LABELS, SURE, strict=True))}).probabilities.tolist() == SURE
    assert read({"probabilities": {"outage": 1.0}}).probabilities.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (None, 'output: this model\'s predictions are made elsewhere; send {"probabilities": ...}, not null'),
        ([0.7, 0.2, 0.1], "not a list"),
        ({}, "output.probabilities: it is missing; `host.gives` says that each request brings it"),
        ({"probabilities": SURE, "embeding": [1]}, "output.embeding: 'embeding' is not one of: probabilities"),
        ({"probabilities": [0.5, 0.5]}, "output.probabilities: 2 numbers came, and there are 3 labels: billing"),
        ({"probabilities": [0.5, 0.5, 0.5]}, "output.probabilities: they come to 1.5"),
        ({"probabilities": [-0.5, 1.0, 0.5]}, "a probability is not between 0 and 1"),
        ({"probabilities": ["0.5", 0.3, 0.2]}, "output.probabilities: a list of numbers is wanted here"),
        ({"probabilities": [True, 0, 0]}, "output.probabilities: a list of numbers is wanted here"),
        ({"probabilities": [0.5, None, 0.5]}, "a list of numbers is wanted here, and number 2 of it is null"),
        ({"probabilities": 0.5}, "a list of numbers is wanted here, not a number"),
        ({"probabilities": [float("nan"), 0.5, 0.5]}, "a number in it is not finite"),
        ({"probabilities": [10**400, 0, 0]}, "a number in it is not finite"),
        ({"probabilities": {"biling": 1.0}}, "output.probabilities.biling: 'biling' is not one of"),
        ({"probabilities": {"billing": 0.5}}, "they come to 0.5"),
    ],
)
def test_what_is_no_output_is_refused_with_its_place(output, why):
    with pytest.raises(InvalidRequest) as refused:
        read(output)
    assert why in str(refused.value)


def test_a_batch_of_plain_lists_is_read_in_one_go_and_alike():
    rows = [GivenRow(input=None, output={"probabilities": p}) for p in ([0.5, 0.25, 0.25], SURE)]
    together = reader().read_all(rows)
    assert [one.probabilities.tolist() for one in together] == [[0.5, 0.25, 0.25], SURE]
    mixed = reader().read_all([*rows, GivenRow(input=None, output={"probabilities": [2, 0, 0]})])
    assert [type(one).__name__ for one in mixed] == ["GivenOutput", "GivenOutput", "InvalidRequest"]


def test_of_a_binary_task_one_number_will_do():
    task = {"kind": "binary", "labels": ["no", "yes"]}
    of = reader(task=task)
    assert read({"probabilities": 0.9}, of=of).probabilities.tolist() == pytest.approx([0.1, 0.9])
    of = reader({"kind": "given", "gives": ["logits"]}, task=task)
    assert read({"logits": -3}, of=of).logits.tolist() == [0, -3]


def test_every_part_at_once():
    output = {
        "probabilities": SURE,
        "embedding": [1, 2.5],
        "passes": [SURE, [0.1, 0.8, 0.1]],
        "scores": {"risk": 3},
        "reply": {
            "message": {"content": "billing"},
            "logprobs": {"content": [{"token": "bill", "logprob": -0.1, "top_logprobs": [{"logprob": -0.1}]}]},
        },
        "samples": ["billing", {"text": "outage", "finish_reason": "length"}],
    }
    found = read(output, of=reader(ALL_PARTS))
    assert found.embedding.tolist() == [1, 2.5]
    assert found.passes.shape == (2, 3)
    assert found.scores[0] == 3
    assert np.isnan(found.scores[1])
    assert (found.reply.text, found.reply.tokens, found.reply.logprobs.tolist()) == ("billing", ("bill",), [-0.1])
    assert [one.finish_reason for one in found.samples] == ["stop", "length"]


@pytest.mark.parametrize("endless", [float("inf"), float("-inf"), 10**400], ids=["inf", "-inf", "too large"])
def test_a_score_without_end_is_unknown(endless):
    some = reader({"kind": "given", "gives": ["probabilities", "scores"], "scores": ALL_PARTS["scores"]})
    found = read({"probabilities": SURE, "scores": {"risk": endless, "certainty": endless}}, of=some)
    assert np.isnan(found.scores).all()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"embedding": [1]}, "output.embedding: 1 numbers came; `host.embedding_size` is 2"),
        ({"passes": [SURE]}, "output.passes: a list of 2 passes is wanted here"),
        ({"passes": [SURE, [1, 1, 1]]}, "output.passes.1: they come to 3"),
        ({"scores": {"rsk": 1}}, "output.scores.rsk: 'rsk' is not one of: risk, certainty"),
        ({"scores": [1]}, "output.scores: an object of names and numbers"),
        ({"scores": {"risk": "high"}}, "output.scores.risk: a number or null is wanted here"),
        ({"reply": 3}, "output.reply: a text, or an object with a `text`, is wanted here, not a number"),
        ({"reply": {"text": "a", "logprobs": [-1], "tokens": ["a", "b"]}}, "an entry for each of the 2 tokens"),
        ({"reply": {"text": "a", "topp": []}}, "output.reply.topp: 'topp' is not one of"),
        ({"reply": {"message": {"content": "a"}, "logprobs": {"content": [1]}}}, "objects with `token` and `logprob`"),
        ({"samples": "a"}, "output.samples: a list of up to 200 replies"),
        ({"samples": ["a", 3]}, "output.samples.1: a text"),
    ],
)
def test_each_part_is_checked(changes, why):
    good = {"probabilities": SURE, "embedding": [1, 2], "passes": [SURE, SURE], "reply": "billing", "samples": []}
    with pytest.raises(InvalidRequest) as refused:
        read({**good, **changes}, of=reader(ALL_PARTS))
    assert why in str(refused.value)


def test_a_long_reply_is_refused():
    with pytest.raises(TooLarge, match=r"output\.reply: the text has 21 characters"):
        read({"probabilities": SURE, "reply": "x" * 21}, of=reader({**ALL_PARTS, "gives": ["probabilities", "reply"],
             "scores": {}, "embedding_size": None, "passes": None}))  # fmt: skip


def test_a_prediction_alone():
    of = reader(**BY_RISK)
    assert read({"prediction": "outage"}, of=of).predicted == (1,)
    for wrong in ("outtage", ["outage"], 3, None):
        with pytest.raises(InvalidRequest, match=r"output\.prediction: "):
            read({"prediction": wrong}, of=of)


def test_of_several_labels_a_list():
    of = reader(**BY_RISK, task={"kind": "multilabel", "labels": LABELS})
    assert read({"prediction": ["other", "billing", "other"]}, of=of).predicted == (0, 2)
    assert read({"prediction": []}, of=of).predicted == ()
    with pytest.raises(InvalidRequest, match="a list of labels"):
        read({"prediction": "other"}, of=of)


def test_rows_of_files_bring_their_output_in_columns():
    of = reader()
    for columns in (
        {"output": {"probabilities": SURE}},
        {"probabilities": SURE},
        {"probabilities": dict(zip(LABELS, SURE, strict=True))},
        dict(zip(LABELS, ("0.7", "0.2", "0.1"), strict=True)),
        {f"p_{label}": p for label, p in zip(LABELS, SURE, strict=True)},
    ):
        row = of.gathered(SpreadRow({"id": 7, "input": "a text", **columns}))
        assert row.input == "a text"
        assert of.read(row).probabilities.tolist() == SURE


def test_a_file_without_the_output_names_its_columns():
    why = (
        "no column 'probabilities', nor one for each label: p_billing, p_outage, p_other; there are: 'id', 'p_billing'"
    )
    with pytest.raises(InvalidRequest, match=why):
        reader().gathered(SpreadRow({"id": 7, "p_billing": 1}))


def binary(gives=("probabilities",)):
    return reader({"kind": "given", "gives": list(gives)}, task={"kind": "binary", "labels": ["ham", "spam"]})


def test_of_a_binary_task_the_probability_of_one_label_says_the_other():
    for output in ({"spam": 0.75}, {"ham": 0.25}, {"ham": 0.25, "spam": 0.75}):
        assert read({"probabilities": output}, of=binary()).probabilities.tolist() == [0.25, 0.75]
    for wrong, why in (
        ({"spam": 1.5}, "output.probabilities.spam: a probability between 0 and 1 is wanted here"),
        ({"spam": "0.5"}, "output.probabilities.spam: a probability between 0 and 1 is wanted here"),
        ({"spma": 0.5}, "output.probabilities.spma: 'spma' is not one of: ham, spam"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            read({"probabilities": wrong}, of=binary())


@pytest.mark.parametrize("column", ["p_spam", "spam", "probability_spam"])
def test_the_column_of_one_of_two_labels_will_do(column):
    row = SpreadRow({column: "0.75", "age": "3"})
    found = binary().gathered(row)
    assert read(found.output, of=binary()).probabilities.tolist() == [0.25, 0.75]
    with pytest.raises(InvalidRequest, match="there is no column 'probabilities', nor one for each label"):
        reader().gathered(SpreadRow({"p_billing": 0.5}))


def test_one_number_in_a_file_of_texts_is_that_of_the_second_label():
    found = binary().gathered(SpreadRow({"probabilities": "0.75"}))
    assert read(found.output, of=binary()).probabilities.tolist() == [0.25, 0.75]


def test_a_part_that_is_called_as_a_column_is_told_how_to_be_sent():
    for name in ("spam", "p_spam"):
        with pytest.raises(InvalidRequest, match=rf'^output.{name}: send it as {{"probabilities": {{"spam": ...}}}}$'):
            read({name: 0.5}, of=binary())
    with pytest.raises(InvalidRequest, match="with a number for each label"):
        read({"p_billing": 0.5})
