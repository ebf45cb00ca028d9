"""A service that a program starts beside itself: for notebooks, tests and trials."""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import yaml

from demur.client.sync_client import Client
from demur.serve.local import tether

READY = "stop with Ctrl-C"
"""The last line that `demur up` says when it serves."""

LOOPBACK, PORT = "127.0.0.1", 8000
"""Where a service listens that is not told otherwise."""

LOOK_SECONDS = 0.1
STOP_SECONDS = tether.STOP_SECONDS + 30
SHOWN_LINES = 15
"""Of what the service said, in an error."""


class ServiceNotStarted(RuntimeError):
    """The service ended, or was not ready in time. The message has the last lines that it said."""


class CommandFailed(RuntimeError):
    """A command ended with an error. The message is what the command said."""


def start_service(
    config: Mapping[str, Any] | str | Path, *, folder: str | Path | None = None, timeout: float = 600
) -> "ChildService":
    """Start `demur up` in a process of its own, and come back when it serves.

    `config` is the path of a configuration file, whose paths are relative to the folder of this process, as on the
    command line. Or it is what would stand in such a file: then it is written to `folder`, its paths are relative to
    that, and where it names no port, a free one is taken. The log lies in `folder` in any case. Without `folder` that
    is a temporary one, which is removed when the service stops.

    The service ends with `stop()`, at the end of a `with` block, and with the process that started it, whatever ends
    that. Raises `ServiceNotStarted` where it cannot start, or is not ready after `timeout` seconds.
    """
    own = folder is None
    home = Path(tempfile.mkdtemp(prefix="demur-") if folder is None else folder).resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if isinstance(config, Mapping):
            file, content = home / "demur.yaml", _with_port(config)
            file.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        else:
            file = Path(config).resolve()
            content = _settings_in(file)
        service = ChildService(
            file=file,
            url=_url(content),
            where=home if isinstance(config, Mapping) else Path.cwd(),
            log=home / "demur.log",
            remove=home if own else None,
        )
    except BaseException:
        if own:
            shutil.rmtree(home, ignore_errors=True)
        raise
    service.wait_until_ready(timeout)
    return service


class ChildService:
    """A running service: where it is, a client of it, and other commands beside it."""

    def __init__(self, *, file: Path, url: str, where: Path, log: Path, remove: Path | None) -> None:
        """Start it in the folder `where`. `remove` is a folder that goes when the service has stopped."""
        self.file = file
        """The configuration file."""
        self.url = url
        self.log = log
        """What `demur up` says, as it says it."""
        self._where = where
        self._remove = remove
        self._stopped = threading.Lock()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", tether.__file__, *_demur("up", str(file))],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=where,
                env={**_without_colours(), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C in a terminal, or in a notebook, is not for the service
            )
        self.client = Client(url)
        """Asks this service, without a key."""
        atexit.register(self.stop)

    def __repr__(self) -> str:
        return f"<ChildService at {self.url}{'' if self._process.poll() is None else ', stopped'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until_ready(self, timeout: float) -> None:
        """Come back when the service answers; else stop it, and raise `ServiceNotStarted`."""
        deadline = time.monotonic() + timeout
        try:
            while READY not in self.said():
                if self._process.poll() is not None:
                    raise ServiceNotStarted(f"the service could not start; it said:\n{self._end_of_log()}")
                if time.monotonic() > deadline:
                    raise ServiceNotStarted(f"not ready after {timeout:g} s; it said so far:\n{self._end_of_log()}")
                time.sleep(LOOK_SECONDS)
        except BaseException:
            self.stop()
            raise

    def said(self) -> str:
        """What `demur up` has said so far."""
        return self.log.read_text(errors="replace")

    def run(self, *words: str) -> str:
        """Run another command of demur with the same configuration, such as `run("audit", "--model", "digits")`.

        Returns what it says. Raises `CommandFailed` where it ends with another status than 0.
        """
        done = subprocess.run(
            _demur(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self._where,
            env={**_without_colours(), "DEMUR_CONFIG": str(self.file), "DEMUR_URL": self.url},
        )
        if done.returncode != 0:
            raise CommandFailed(f"demur {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def stop(self) -> None:
        """Stop the service in order, and wait until it has ended. It may be called again."""
        with self._stopped:
            atexit.unregister(self.stop)
            if self._process.stdin and not self._process.stdin.closed:
                self._process.stdin.close()
            if self._process.poll() is None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(STOP_SECONDS)
            self.client.close()
            if self._remove:
                shutil.rmtree(self._remove, ignore_errors=True)

    def _end_of_log(self) -> str:
        return "\n".join(self.said().strip().splitlines()[-SHOWN_LINES:])


def _without_colours() -> dict[str, str]:
    """The environment, so that a command writes plain text. Jupyter asks for colours, which are no part of the text."""
    return {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}


def _demur(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "demur", *words]


def _settings_in(file: Path) -> Any:
    """What a file says, or None where it is no YAML: the service then says what is wrong with it."""
    try:
        return yaml.safe_load(file.read_bytes())
    except yaml.YAMLError:
        return None


def _section(config: Any, name: str) -> Mapping[str, Any]:
    found = config.get(name) if isinstance(config, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _with_port(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that says at which port it listens."""
    http = config.get("http", {})
    if not isinstance(http, Mapping) or "port" in http:
        return dict(config)
    return {**config, "http": {**http, "port": _free_port()}}


def _url(config: Any) -> str:
    """Where a program on this machine asks a service with this configuration, which is checked by the service alone."""
    http = _section(config, "http")
    host, port = str(http.get("host", LOOPBACK)), http.get("port", PORT)
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104 - it is read, not listened at
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
