"""What a model that runs elsewhere said, as the output of a model."""

import numpy as np
import pytest

from demur.serve.contract.inputs import GivenOutput, InputLimits
from demur.serve.contract.kept_reply import kept_reply
from demur.serve.contract.reading.given import GivenReader
from demur.serve.hosts.given import GivenModel
from demur.serve.hosts.identity import identity_of
from demur.traffic.dataset import GivenRow
from demur.uncertainty.scores import SCORES
from tests.serve.given_models import BY_LOGPROBS, LABELS, configured


def output_of(outputs, *, value=None, **more):
    model = configured(**more).models["vendor"]
    reader = GivenReader(model.host, model.task, InputLimits(text_characters=1000))
    rows = [reader.read(GivenRow(input=value, output=one)) for one in outputs]
    return GivenModel(model).run(rows, model.recipe.needs)


def given(*gives, **more):
    return {"kind": "given", "gives": list(gives), **more}


def test_probabilities_and_logits_mean_what_they_mean_elsewhere():
    p = [[0.7, 0.2, 0.1], [1, 0, 0]]
    output = output_of([{"probabilities": one} for one in p])
    assert np.allclose(output.probabilities, p)
    assert np.allclose(np.exp(output.logits), p)
    output = output_of([{"logits": [1, 2, 3]}], host=given("logits"))
    assert np.allclose(output.probabilities, np.exp([[1, 2, 3]]) / np.exp([1, 2, 3]).sum())


def test_a_prediction_with_numbers_is_certain_of_its_label_and_scored_by_the_numbers():
    host = given("prediction", "scores", scores={"risk": "less_sure", "certainty": "surer"})
    output = output_of(
        [{"prediction": "outage", "scores": {"risk": 2, "certainty": 3}}, {"prediction": "other"}],
        host=host, scores=["risk", "certainty"], confidence={"score": "risk"},
    )  # fmt: skip
    assert output.probabilities.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert output.usable().all()  # a number that did not come leaves one score undefined, and no more
    scores = (
        configured(host=host, scores=["risk", "certainty"], confidence={"score": "risk"}).models["vendor"].recipe.scores
    )
    assert scores["risk"].of(output).tolist()[0] == 2
    assert scores["certainty"].of(output).tolist()[0] == -3
    assert np.isnan(scores["risk"].of(output)[1])


@pytest.mark.parametrize(
    ("task", "reply", "value", "p"),
    [
        ({"kind": "multiclass", "labels": LABELS}, "The answer is: Outage.", None, [0, 1, 0]),
        ({"kind": "choice", "labels": ["A", "B"]}, "(B) because", None, [0, 1]),
        ({"kind": "choice", "labels": ["A", "B"]}, "red", {"question": "?", "options": ["red", "blue"]}, [1, 0]),
        ({"kind": "multilabel", "labels": LABELS}, "billing\nother", None, [1, 0, 1]),
        ({"kind": "generate"}, "any text", None, [1, 0]),
        ({"kind": "generate"}, "<think>so</think>any text", None, [1, 0]),
    ],
)
def test_a_reply_is_read_as_the_task_has_it(task, reply, value, p):
    host = given("reply", "scores", scores={"risk": "less_sure"})
    output = output_of(
        [{"reply": reply}], value=value, task=task, host=host, scores=["risk"], confidence={"score": "risk"}
    )
    assert output.probabilities.tolist() == [p]
    assert output.why_unusable() == [None]


def test_a_reply_that_cannot_be_read_is_held_alone():
    host = given("reply", "scores", scores={"risk": "less_sure"})
    output = output_of(
        [{"reply": "no idea"}, {"reply": "other"}], host=host, scores=["risk"], confidence={"score": "risk"}
    )
    assert output.usable().tolist() == [False, True]
    assert output.why_unusable()[0] == "the reply names none of them"


def test_samples_make_probabilities_where_that_is_configured():
    more = {"host": given("reply", "samples"), "scores": ["entropy"], "prompt": {"probabilities": "samples"}}
    output = output_of([{"reply": "billing", "samples": ["billing", "billing", "other", "billing"]}], **more)
    assert output.probabilities.tolist() == [[0.75, 0, 0.25]]


def test_log_probabilities_of_a_reply_are_scored():
    outputs = [{"reply": {"text": "ab", "tokens": ["a", "b"], "logprobs": [-1.0, -0.5]}}, {"reply": "ab"}]
    output = output_of(outputs, **BY_LOGPROBS)
    values = SCORES["g_nll"](per="answer").of(output)
    assert values[0] == pytest.approx(1.5)
    assert np.isnan(values[1])


def test_an_example_has_every_part_that_requests_bring():
    model = configured(
        host=given("probabilities", "embedding", "passes", embedding_size=4, passes=2),
        scores=["entropy", "bald", {"mahalanobis": {"shrinkage": 0.1}}],
    ).models["vendor"]  # fmt: skip
    given_model = GivenModel(model)
    example = given_model.example()
    assert isinstance(example, GivenOutput)
    output = given_model.run([example], model.recipe.needs)
    assert (output.embedding.shape, output.mc_probabilities.shape) == ((1, 4), (1, 2, 3))


def test_artifacts_hold_for_one_version():
    of = [identity_of(configured(host=given("probabilities", version=one)).models["vendor"]) for one in ("", "1", "1")]
    assert of[0].fingerprint != of[1].fingerprint == of[2].fingerprint


def test_a_record_keeps_the_trace_and_the_log_probabilities_of_a_reply():
    tokens = ["<think>", "hm", "</think>", "\n", "ab", " c"]
    whole = {"text": "".join(tokens), "tokens": tokens, "logprobs": [-0.1, -0.2, -0.3, -0.4, -1.0, -0.5]}
    apart = {"text": "ab c", "reasoning": "hm"}
    output = output_of([{"reply": whole}, {"reply": apart}], **BY_LOGPROBS)
    kept = [kept_reply(replies.first) for replies in output.replies]
    assert [(one["text"], one["reasoning"]) for one in kept] == [("ab c", "hm")] * 2
    assert kept[0]["tokens"] == {"lengths": [2, 2], "logprobs": [-1.0, -0.5]}
    assert "tokens" not in kept[1]
