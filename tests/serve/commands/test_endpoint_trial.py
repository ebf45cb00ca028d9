"""What `demur check` finds out of endpoints: against a real server on this machine."""

import pytest
import yaml

from demur.serve.commands import http_answer
from demur.serve.commands.check import check_file
from demur.serve.config.file import BadConfig
from tests.serve.endpoint import choice, choices, refusal, reply, running, token
from tests.serve.hosts.language.test_refused_parameters import reasoning
from tests.serve.scripted import settings

EVERYTHING = choices(choice("yes", [token("yes", -0.1, [("yes", -0.1), ("no", -3.0)])]))


@pytest.fixture
def endpoint():
    with running() as server:
        server.replies = [EVERYTHING]
        yield server


@pytest.fixture
def check(tmp_path, capfd, endpoint):
    """Check a model behind the endpoint; return what was printed, and what was wrong."""

    def run(task="generate", host=None, offline=False, **sections):
        told = {"kind": "openai", "base_url": endpoint.url, "model": "m", **(host or {})}
        places = {"data": str(tmp_path), "artifacts": str(tmp_path / "artifacts")}
        content = {**places, "models": {"sums": settings(task, host=told, **sections)}}
        (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
        wrong = ""
        try:
            check_file(tmp_path / "demur.yaml", offline=offline)
        except BadConfig as error:
            wrong = str(error)
        printed = capfd.readouterr()
        assert "from now on" not in printed.err
        return " ".join(printed.out.split()), wrong

    return run


def test_one_that_gives_everything_is_valid(check, endpoint):
    printed, wrong = check()
    assert wrong == ""
    assert "note:" not in printed
    assert printed.endswith("is valid")
    assert len(endpoint.asked) == 1


def test_what_it_refuses_is_noted_with_what_that_means(check, endpoint):
    endpoint.replies = [reasoning]
    printed, wrong = check(
        scores=["avg_neg_logprob", "sample_disagreement"],
        confidence={"score": "sample_disagreement"},
        samples={"max": 3, "temperature": 0.7},
    )
    assert wrong == ""
    assert f"note: sums: {endpoint.url} refuses temperature=0 (Unsupported value" in printed
    assert "not the one at temperature 0" in printed
    assert "these are unknown: avg_neg_logprob" in printed
    assert printed.endswith("is valid")


def test_where_the_score_behind_the_confidence_needs_it_the_file_is_wrong(check, endpoint):
    endpoint.replies = [reasoning]
    printed, wrong = check()
    assert "models.sums.confidence: avg_neg_logprob cannot be computed, since" in wrong
    assert "take a score that does without" in wrong
    assert "is valid" not in printed


def test_labels_that_get_no_probability_are_wrong(check, endpoint):
    endpoint.replies = [reply("yes")]
    _, wrong = check(
        "binary", prompt={"probabilities": "first_token"}, scores=["entropy"], confidence={"score": "entropy"}
    )
    assert "models.sums.prompt.probabilities: " in wrong
    assert "told no log-probabilities" in wrong


@pytest.mark.parametrize(
    ("said", "problem"), [(refusal(401, "who?"), "refused the key"), (refusal(503, "later"), "answered 503")]
)
def test_one_that_lists_the_model_and_does_not_answer_for_it(check, endpoint, said, problem):
    endpoint.replies = [said]
    _, wrong = check()
    assert "models.sums.host.base_url: " in wrong
    assert problem in wrong


def test_a_model_that_it_does_not_list_is_not_asked(check, endpoint):
    _, wrong = check(host={"model": "n"})
    assert wrong.endswith(f"models.sums.host.model: {endpoint.url} lists no such model: 'n' is not one of: m")
    assert endpoint.asked == []


def test_each_further_endpoint_is_tried_by_its_own_name_and_address(check, endpoint, monkeypatch):
    monkeypatch.delenv("OTHER_KEY", raising=False)
    with running() as second:
        second.replies = [refusal(500, "boom")]
        others = [
            {"base_url": second.url},
            {"base_url": "https://models.example.org/v1", "api_key_env": "OTHER_KEY"},
            {"base_url": "http://127.0.0.1:1/v1", "model": "n"},
        ]
        _, wrong = check(host={"endpoints": others}, on_failure="next")
        assert "4 things" not in wrong
        assert "models.sums.host.endpoints.0.base_url: " in wrong
        assert "answered 500: boom" in wrong
        assert "models.sums.host.endpoints.1.api_key_env: the environment variable OTHER_KEY is not set" in wrong
        assert "models.sums.host.endpoints.2.base_url: http://127.0.0.1:1/v1 cannot be reached" in wrong
    assert len(endpoint.asked) == 1


def test_one_that_hangs_is_given_up(check, endpoint, monkeypatch):
    monkeypatch.setattr("demur.serve.commands.endpoint_trial.SECONDS", 0.3)
    endpoint.delay = 30
    _, wrong = check()
    assert "gave no whole reply within 0.3 s" in wrong
    assert http_answer.SECONDS == 10


def test_offline_nobody_is_asked_and_that_is_said(check, endpoint):
    printed, wrong = check(offline=True)
    assert wrong == ""
    assert f"not tried: the endpoint of sums, {endpoint.url} (--offline)" in printed
    assert endpoint.asked == []


def test_more_labels_than_are_listed_is_noted_even_offline(check):
    task = {"kind": "multiclass", "labels": [f"label {n}" for n in range(30)]}
    prompt = {"probabilities": "first_token"}
    printed, _ = check(task, offline=True, prompt=prompt, scores=["entropy"], confidence={"score": "entropy"})
    assert "note: sums: prompt.probabilities: first_token: the task has 30 labels" in printed
