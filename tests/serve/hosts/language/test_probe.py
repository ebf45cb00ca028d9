"""What `demur check` can find out of an endpoint: against a real server."""

import pytest
from fastapi.responses import JSONResponse

from demur.serve.hosts.language.probe import probe, remarks
from tests.serve.endpoint import choice, choices, refusal, reply, running, token
from tests.serve.hosts.language.test_refused_parameters import reasoning
from tests.serve.scripted import configured


@pytest.fixture
def endpoint():
    with running() as server:
        yield server


def model(endpoint, task="generate", **more):
    return configured(task, host={"kind": "openai", "base_url": endpoint.url, "model": "m"}, **more)


def test_an_endpoint_that_gives_everything(endpoint):
    endpoint.replies = [choices(choice("yes", [token("yes", -0.1, [("yes", -0.1), ("no", -3.0)])]))]
    [found] = probe(model(endpoint, "binary", prompt={"probabilities": "first_token"}))
    assert (found.problem, found.refused, found.gives_logprobs, found.sentences) == (None, (), True, ())
    assert len(endpoint.asked) == 2
    assert all(body["max_tokens"] <= 16 for body in endpoint.asked)


def test_what_is_refused_is_told_with_what_it_means(endpoint):
    endpoint.replies = [reasoning]
    scores = ["avg_neg_logprob", "sample_disagreement", {"combined": {"info": "token_entropy"}}, "token_entropy"]
    scores.append("eigv_laplacian")
    told = model(endpoint, "multilabel", scores=scores, samples={"max": 3, "temperature": 0.7})
    [found] = probe(told)
    assert found.problem is None
    assert found.left_out == {"temperature=0", "temperature=0.7"}
    assert not found.gives_logprobs
    assert found.unknown_scores == ("avg_neg_logprob", "token_entropy", "combined")
    said = " ".join(found.sentences)
    assert "refuses temperature=0 (Unsupported value" in said
    assert "not the one at temperature 0" in said
    assert "not at samples.temperature" in said
    assert "host.gives_logprobs: false" in said
    assert "these are unknown: avg_neg_logprob, token_entropy, combined" in said


def test_labels_that_are_not_told(endpoint):
    endpoint.replies = [reply("yes")]
    told = model(
        endpoint, "binary", prompt={"probabilities": "first_token"}, scores=["entropy"], confidence={"score": "entropy"}
    )
    [found] = probe(told)
    assert found.problem is None
    assert "told no log-probabilities" in found.labels_untold


def test_an_endpoint_that_knows_other_words_than_the_probe_may_know_the_labels(endpoint):
    """One that was trained to say `spam` or `ham` says neither yes nor no."""
    endpoint.replies = [choices(choice("spam", [token("spam", -0.1, [("spam", -0.1), ("ham", -3.0)])]))]
    [found] = probe(model(endpoint, "binary", prompt={"probabilities": "first_token"}))
    assert (found.problem, found.labels_untold) == (None, "")
    assert "neither yes nor no" in " ".join(found.sentences)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (refusal(401, "who?"), "refused the key"),
        (JSONResponse({}, 404), "answered 404"),
        (refusal(400, "no"), "refused"),
    ],
)
def test_an_endpoint_that_cannot_be_used(endpoint, said, problem):
    endpoint.replies = [said]
    [found] = probe(model(endpoint))
    assert problem in found.problem
    assert found.sentences == (found.problem,)


def test_one_that_does_not_answer_is_given_up(endpoint):
    endpoint.delay = 30
    [found] = probe(model(endpoint), seconds=0.3)
    assert "gave no whole reply within 0.3 s" in found.problem


def test_every_endpoint_is_asked(endpoint, monkeypatch):
    monkeypatch.delenv("OTHER_KEY", raising=False)
    far = {"base_url": "https://models.example.org/v1", "api_key_env": "OTHER_KEY"}
    host = {"kind": "openai", "base_url": endpoint.url, "model": "m", "endpoints": [far]}
    first, second = probe(configured("generate", host=host, on_failure="next"))
    assert first.problem is None
    assert "the environment has no OTHER_KEY" in second.problem


def test_an_endpoint_that_is_left_out_is_not_asked(endpoint):
    with running() as other:
        host = {"kind": "openai", "base_url": endpoint.url, "model": "m", "endpoints": [{"base_url": other.url}]}
        [found] = probe(configured("generate", host=host, on_failure="next"), only={other.url})
        assert found.address == other.url
        assert (len(endpoint.asked), len(other.asked) > 0) == (0, True)


def test_no_endpoint_no_probe():
    local = configured("generate", host={"kind": "transformers", "checkpoint": "nowhere"})
    assert probe(local) == []
    assert remarks(local) == []


def test_more_labels_than_an_endpoint_lists():
    task = {"kind": "multiclass", "labels": [f"label {n}" for n in range(30)]}
    told = configured(
        task, prompt={"probabilities": "first_token"}, scores=["entropy"], confidence={"score": "entropy"}
    )
    [remark] = remarks(told)
    assert "the task has 30 labels, and an endpoint lists at most 20 tokens" in remark
    assert remarks(configured("binary", prompt={"probabilities": "first_token"})) == []
