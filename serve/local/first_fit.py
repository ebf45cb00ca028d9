"""The first artifact of a model, fitted from its calibration data when the service starts."""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.local.service import Say

LONGEST_REASON = 1000


def first_fit(config: Config, config_path: Path, name: str, say: Say, stopping: Callable[[], bool]) -> str:
    """See that an artifact is in force for a model: fit one if it has calibration data.

    Returns why there is none; empty where there is one, or where `stopping` came true meanwhile. A model without an
    artifact is served all the same, and tells callers so.
    """
    if ArtifactStore(config.artifacts).name_in_force(name):
        return ""
    data = config.models[name].calibration.data
    if data is None:
        say(
            f"no artifact is in force for model {name!r}, and its requests will get a 503;"
            f" run `demur fit {name} --data FILE --promote` at any time"
        )
        return ""
    say(f"no artifact is in force for model {name!r} yet: fitting one on {data}")
    with tempfile.TemporaryFile("w+") as errors:
        done = _run(config, config_path, name, data, errors, stopping)
        errors.seek(0)
        told = errors.read()
    if stopping() or done == 0:
        return ""
    print(told, end="", file=sys.stderr)
    lines = told.strip().splitlines() or ["it ended without a word"]
    why = lines[-1].removeprefix("demur: ")[:LONGEST_REASON]
    say(f"model {name!r} is served without an artifact, and its requests get a 503, until one is fitted and promoted")
    return f"its first fit, on {data.name}, failed: {why}"


def _run(
    config: Config, config_path: Path, name: str, data: Path, errors: IO[str], stopping: Callable[[], bool]
) -> int:
    """Run `demur fit` and return its exit status. It draws its bars in the terminal itself."""
    command = [sys.executable, "-P", "-m", "demur", "fit", name, "--config", str(config_path), "--data", str(data)]
    why = f"first start, fitted on {data.name}"
    shown: dict[str, Any] = {"stderr": errors}
    if config.telemetry.logs == "json":
        shown["stdout"] = subprocess.PIPE
    # in a session of its own, so that Ctrl-C reaches us alone and we end it quietly
    fitting = subprocess.Popen([*command, "--promote", "--why", why], start_new_session=True, text=True, **shown)
    if fitting.stdout:
        threading.Thread(target=_pass_on, args=(fitting.stdout,), name="fit", daemon=True).start()
    while True:
        try:
            return fitting.wait(0.1)
        except subprocess.TimeoutExpired:
            if stopping():
                fitting.kill()
                return fitting.wait()


def _pass_on(lines: IO[str]) -> None:
    with lines:
        sys.stdout.writelines(lines)
