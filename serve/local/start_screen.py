"""What the terminal shows once the service runs: a request to paste for each model, and where the pages are."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from demur.serve.config.file import Config, ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.input import InputConfig
from demur.serve.contract.inputs import InputLimits, InvalidRequest, spec_of
from demur.serve.contract.reading.given import GivenReader
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.contract.reading.spread_rows import NUMBER, gathered
from demur.serve.local.service import Say
from demur.traffic.dataset import GivenRow, SpreadRow, read_labelled_file
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
            body = json.dumps({"model": name, **brought(example_of(model))}, separators=(",", ":"))
            say(f"  curl -s {url}/v1/predict {key}-H 'content-type: application/json' -d {shlex.quote(body)}\n")
    say(f"held cases to review   {url}/review/")
    say(f"was the promise kept?  {url}/audit/")
    say(f"API documentation      {url}/docs")
    say("stop with Ctrl-C")


def brought(example: Any) -> dict[str, Any]:
    """What a request brings of an example, by key."""
    if not isinstance(example, GivenRow):
        return {"input": example}
    return {**({} if example.input is None else {"input": example.input}), "output": example.output}


def example_of(model: ModelConfig) -> Any:
    """Return an input to try: the first of the calibration data, if that can be read and is short enough to paste. Of a
    model that runs elsewhere it has what that said."""
    otherwise = EXAMPLES.get(model.task.kind, "your input")
    data = model.calibration.data
    if data is None or not data.is_file():
        return otherwise
    try:
        value = _put_together(read_labelled_file(data, model.file_form).inputs[0], model)
    except (BadDataFile, InvalidRequest, OSError):  # an artifact may be older than what the file has become
        return otherwise
    if isinstance(value, GivenRow):
        return value if len(str(value)) <= LONGEST_EXAMPLE else otherwise
    value = picture_url(value) or value
    return value if len(str(value)) <= LONGEST_EXAMPLE else otherwise


def _put_together(value: Any, model: ModelConfig) -> Any:
    """An input of a file as a request brings it. Raises `InvalidRequest`."""
    if not isinstance(value, SpreadRow):
        return value
    if isinstance(model.host, GivenHost):
        limits = InputLimits(text_characters=LONGEST_EXAMPLE)
        return GivenReader(model.host, model.task, limits).gathered(value)
    told = getattr(model.host, "input", None)
    if isinstance(told, InputConfig) and (told.kind != "table" or told.columns):
        return gathered(value, spec_of(told))
    return {name: _number_or_text(cell) for name, cell in value.items()}


def _number_or_text(cell: Any) -> Any:
    """A cell as it looks, where only the model's file says what its column holds."""
    return float(cell) if isinstance(cell, str) and NUMBER.fullmatch(cell) else cell
