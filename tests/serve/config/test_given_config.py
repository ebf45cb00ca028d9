"""`host: {kind: given}`: what it says of requests, and which scores go with that."""

import pytest
from pydantic import ValidationError

from tests.serve.given_models import BY_LOGPROBS, LABELS, configured


def host(**more):
    return {"kind": "given", "gives": ["probabilities"], **more}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"host": host(gives=["embedding"], embedding_size=3)}, "nothing is predicted by embedding"),
        ({"host": host(gives=["probabilities", "probabilities"])}, "probabilities is listed twice"),
        ({"host": host(gives=["probabilities", "logits"])}, "probabilities are made of logits"),
        ({"host": host(gives=["probabilities", "prediction"])}, "the prediction follows from the probabilities"),
        ({"host": host(gives=["probabilities", "logprobs"])}, "logprobs go with a `reply`"),
        ({"host": host(gives=["probabilities", "embedding"])}, "embedding_size: write how many there are"),
        ({"host": host(embedding_size=3)}, "embedding_size: write how many there are"),
        ({"host": host(passes=3)}, "passes: write how many there are"),
        ({"host": host(scores={"risk": "less_sure"})}, "scores: name the numbers"),
        ({"host": host(gives=["probabilities", "scores"])}, "scores: name the numbers"),
        (
            {"host": host(gives=["probabilities", "scores"], scores={"entropy": "less_sure"})},
            "host.scores.entropy: demur has a score of this name",
        ),
        ({"scores": ["entropy", "mahalanobis"]}, "mahalanobis reads embedding, and `host.gives` has probabilities"),
        ({"scores": ["entropy", "bald"]}, "bald reads mc probabilities"),
        ({"scores": ["entropy", "g_nll"]}, "g_nll reads the replies of a language model"),
        ({"scores": ["entropy", "risk"]}, "'risk' is not one of"),
        ({"task": {"kind": "generate"}}, "generate needs replies; list `reply`"),
        ({"prompt": {"probabilities": "samples"}}, "prompt: this section is for models that are asked here"),
        (
            {"host": host(gives=["prediction", "scores"], scores={"risk": "less_sure"})},
            "softmax_response looks at probabilities, which no request brings",
        ),
        ({"policy": {"kind": "observe", "limit": 3}}, "policy.limit: observe takes a `rule`"),
        ({"policy": {"kind": "observe", "rule": {"kind": "observe"}}}, "policy.rule: write the policy that would"),
        ({"policy": {"kind": "observe", "rule": {"kind": "confomal"}}}, "policy.rule.kind: 'confomal' is not one of"),
        (
            {"policy": {"kind": "observe"}, "monitor": {"on_alarm": "hold_all"}},
            "monitor.on_alarm: `policy: {kind: observe}` answers everything",
        ),
        ({"policy": {"kind": "observe"}, "escalate_to": "vendor"}, "escalate_to: `policy: {kind: observe}` answers"),
    ],
)
def test_what_does_not_go_together_is_refused(more, why):
    with pytest.raises(ValidationError) as refused:
        configured(**more)
    assert why in str(refused.value)


def test_numbers_of_requests_are_scores_by_their_names():
    model = configured(
        host=host(gives=["prediction", "scores"], scores={"risk": "less_sure", "certainty": "surer"}),
        scores=["risk", {"certainty": {"as": "own"}}],
        confidence={"score": "own"},
    ).models["vendor"]
    assert model.recorded_scores == ("risk", "own")
    assert model.recipe.scores["own"].surer
    assert model.recipe.sets is None  # probabilities of 1 and 0 rule nothing out


def test_replies_bring_the_scores_of_language_models():
    gives = ["reply", "logprobs", "samples"]
    model = configured(
        task={"kind": "generate"}, host=host(gives=gives), scores=["g_nll", "semantic_entropy"],
        confidence={"score": "g_nll"},
    ).models["vendor"]  # fmt: skip
    assert model.recipe.needs == {"probabilities", "logprobs", "samples"}
    with pytest.raises(ValidationError) as refused:
        configured(**{**BY_LOGPROBS, "host": host(gives=["reply"])})
    assert "g_nll reads logprobs, and `host.gives` has reply" in str(refused.value)


def test_a_rule_that_would_decide_is_read_like_any_other():
    told = {"kind": "observe", "rule": {"kind": "selective_risk", "max_risk": 0.05}}
    recipe = configured(policy=told).models["vendor"].recipe
    assert recipe.observes
    assert recipe.policy.max_risk == 0.05
    assert configured(policy={"kind": "observe"}).models["vendor"].recipe.when_unknown == "abstain"
    gated = {"kind": "all_of", "gates": ["set_size"], "rule": {"kind": "threshold", "limit": 0.9}}
    assert configured(policy={"kind": "observe", "rule": gated}).models["vendor"].recipe.observes


def test_labels_stay_as_they_are_configured():
    assert configured().models["vendor"].task.labels == tuple(LABELS)
