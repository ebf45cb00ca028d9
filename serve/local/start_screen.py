"""What the terminal shows once the service runs: a request to paste for each model, and where the pages are."""

import json
from collections.abc import Mapping
from typing import Any

from demur.serve.config.file import Config, ModelConfig
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.local.service import Say
from demur.traffic.dataset import read_labelled_file
from demur.traffic.table_file import BadDataFile

EXAMPLES: dict[str, Any] = {
    "generate": "a question to answer",
    "choice": {"question": "a question", "options": ["an option", "another option"]},
}
"""Inputs to try, by kind of task, where no labelled file has a better one."""


LONGEST_EXAMPLE = 2000
"""Characters."""


def show_start(config: Config, url: str, health: Mapping[str, Any], seconds: float, say: Say) -> None:
    """Say what can be asked and where people go. `health` is what `/healthz` says."""
    key = ""
    if config.access is not None and config.access.mode == "keys":
        key = '-H "Authorization: Bearer $DEMUR_KEY" '
        say("a key for predictions: export DEMUR_KEY=$(demur keys make mine --scope predict)")
    models = health["models"]
    for name in health["not_serving"]:
        say(f"model {name!r} does not serve, and its requests get a 503: {models[name]['detail']}")
    for name, model in models.items():
        if model["differs"]:
            say(f"model {name!r} is decided by {model['artifact']}, fitted with other settings than are configured")
    say(f"\nready after {seconds:.0f} s. Ask for a prediction:\n")
    for name, model in config.models.items():
        if models[name]["status"] == "ok":
            body = json.dumps({"model": name, "input": example_of(model)}, separators=(",", ":"))
            say(f"  curl -s {url}/v1/predict {key}-H 'content-type: application/json' -d '{body}'\n")
    say(f"held cases to review   {url}/review/")
    say(f"was the promise kept?  {url}/audit/")
    say(f"API documentation      {url}/docs")
    say("stop with Ctrl-C")


def example_of(model: ModelConfig) -> Any:
    """Return an input to try: the first of the calibration data, if that can be read and is short enough to paste."""
    otherwise = EXAMPLES.get(model.task.kind, "your input")
    data = model.calibration.data
    if data is None or not data.is_file():
        return otherwise
    try:
        value = read_labelled_file(data, model.file_form).inputs[0]
    except (BadDataFile, OSError):  # an artifact may be older than what the file has become
        return otherwise
    value = picture_url(value) or value
    return value if len(str(value)) <= LONGEST_EXAMPLE else otherwise
