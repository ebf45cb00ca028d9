"""What the terminal shows once the service runs: a request to paste for each model, and where the pages are."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from demur.client.address import DEFAULT
from demur.serve.config.file import Config
from demur.serve.contract.examples import brought, first_example
from demur.serve.local.service import Say


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
            body = json.dumps({"model": name, **brought(first_example(model))}, separators=(",", ":"))
            say(f"  curl -s {url}/v1/predict {key}-H 'content-type: application/json' -d {shlex.quote(body)}\n")
    if url != DEFAULT:
        say(f"demur predict and demur outcomes ask {DEFAULT}; to have them ask here: export DEMUR_URL={url}\n")
    say(f"how it stands          {url}/")
    say(f"try it by hand         {url}/try/")
    say(f"held cases to review   {url}/review/")
    say(f"was the promise kept?  {url}/audit/")
    say(f"API documentation      {url}/docs")
    say("stop with Ctrl-C")
