"""What the terminal shows once the service runs."""

import json
import shlex

import pytest

from demur.serve.config.file import Config
from demur.serve.contract.examples import LONGEST as LONGEST_EXAMPLE
from demur.serve.contract.examples import first_example as example_of
from demur.serve.local.start_screen import show_start


def without_data(model):
    return model.model_copy(update={"calibration": model.calibration.model_copy(update={"data": None})})


def with_data(model, path):
    return model.model_copy(update={"calibration": model.calibration.model_copy(update={"data": path})})


def test_the_example_is_one_that_the_model_takes(quickstart):
    assert example_of(quickstart.models["digits"]).startswith("data:image/png;base64,")


def test_without_data_it_says_what_kind_of_input_is_meant(quickstart):
    model = without_data(quickstart.models["digits"])
    assert example_of(model) == "your input"
    writes = model.model_copy(update={"task": model.task.model_copy(update={"kind": "generate"})})
    assert example_of(writes) == "a question to answer"


def test_data_that_cannot_be_read_any_more_or_is_too_long_to_paste_does_no_harm(quickstart, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("no JSON\n")
    assert example_of(with_data(quickstart.models["digits"], path)) == "your input"
    path.write_text(json.dumps({"input": "x" * (LONGEST_EXAMPLE + 1), "label": "0"}))
    assert example_of(with_data(quickstart.models["digits"], path)) == "your input"
    path.unlink()
    assert example_of(with_data(quickstart.models["digits"], path)) == "your input"


def health(**models):
    missing = [name for name, model in models.items() if model["status"] != "ok"]
    return {"models": models, "not_serving": missing}


def told(status="ok", *, detail="", differs=()):
    return {"status": status, "detail": detail, "differs": list(differs), "artifact": "digits-1"}


@pytest.mark.parametrize("port", [8000, 18771])
def test_at_another_port_it_says_how_commands_find_the_service(quickstart, port):
    said = []
    url = f"http://127.0.0.1:{port}"
    show_start(quickstart, url, health(digits=told(), sums=told()), 3.0, said.append)
    assert any(line.strip().endswith(f"export DEMUR_URL={url}") for line in said) is (port != 8000)


def test_only_models_that_serve_are_offered_and_the_others_named_with_their_reason(quickstart):
    models = {"digits": quickstart.models["digits"], "broken": quickstart.models["digits"]}
    said = []
    config = quickstart.model_copy(update={"models": models})
    show_start(config, "http://here", health(digits=told(), broken=told("failed", detail="no GPU")), 3.0, said.append)
    text = "\n".join(said)
    assert text.count("curl") == 1
    assert '"model":"digits"' in text
    assert "model 'broken' does not serve, and its requests get a 503: no GPU" in text


def test_an_older_artifact_is_said(quickstart):
    said = []
    differs = told(differs=["policy.max_risk is 0.02, and 0.08 in the artifact"])
    show_start(quickstart, "http://here", health(digits=differs), 3.0, said.append)
    assert "model 'digits' is decided by digits-1, fitted with other settings than are configured" in "\n".join(said)


@pytest.mark.parametrize(
    ("host", "header", "row", "body"),
    [
        (
            {
                "kind": "sklearn",
                "file": "m.skops",
                "input": {"kind": "table", "columns": {"age": "number", "code": "text"}},
            },
            "age,code",
            "31,007",
            {"input": {"age": 31.0, "code": "007"}},
        ),
        ({"kind": "sklearn", "file": "m.skops"}, "age,job", "31,it's", {"input": {"age": 31.0, "job": "it's"}}),
        (
            {"kind": "given", "gives": ["probabilities"]},
            "p_no,p_yes",
            "0.25,0.75",
            {"output": {"probabilities": [0.25, 0.75]}},
        ),
        (
            {"kind": "given", "gives": ["probabilities"]},
            "input,probabilities",
            'a,"[0.25, 0.75]"',
            {"input": "a", "output": {"probabilities": [0.25, 0.75]}},
        ),
    ],
)
def test_a_request_to_paste_brings_a_row_of_a_table_as_the_model_takes_it(tmp_path, host, header, row, body):
    (tmp_path / "rows.csv").write_text(f"{header},label\n{row},no\n")
    section = {
        "task": {"kind": "binary", "labels": ["no", "yes"]},
        "host": host,
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
        "calibration": {"data": str(tmp_path / "rows.csv")},
    }
    said = []
    config = Config.model_validate({"models": {"mine": section}})
    show_start(config, "http://here", health(mine=told()), 3.0, said.append)
    (line,) = [one for one in said if "curl" in one]
    assert json.loads(shlex.split(line)[-1]) == {"model": "mine", **body}
