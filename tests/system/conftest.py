"""The real thing: `demur up` as a process of its own, with Ray Serve, PostgreSQL and the digits."""

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout, suppress
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from demur.serve.cli import main
from tests.conftest import PAGE_MILLISECONDS, ROOT
from tests.serve.telemetry.collector import Collector
from tests.system.review_site import READY, Site

PATIENCE_SECONDS = 60
"""On a busy machine everything takes several times as long; docs/reliability.md has what a quiet one took."""

START_SECONDS = 400
"""Of patience: on a busy machine everything takes several times as long."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Fitted:
    """What services of this session have fitted, by what for: one like another before it need not fit again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demur-fitted-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)

    def take(self, what: str, into: Path) -> None:
        """Copy what was fitted, if anything was, into a folder of artifacts."""
        with suppress(FileNotFoundError):
            shutil.copytree(self.folder / what, into)

    def keep(self, what: str, artifacts: Path) -> None:
        """Keep a copy for later, unless there is one."""
        if not (self.folder / what).exists():
            copy = Path(tempfile.mkdtemp(dir=self.folder))
            shutil.copytree(artifacts, copy, dirs_exist_ok=True)
            with suppress(OSError):  # another process was first
                copy.rename(self.folder / what)


FITTED = Fitted()


@pytest.fixture(scope="session", autouse=True)
def processes_share_what_is_fitted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All processes of one `pytest --numprocesses` have one folder of what was fitted."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        FITTED.folder = tmp_path_factory.getbasetemp().parent / "fitted"
        FITTED.folder.mkdir(exist_ok=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Service:
    """A service in a folder of its own, on a port of its own."""

    def __init__(self, digits: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demur-"))  # short, because of sockets
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
        content["http"] = {"host": "127.0.0.1", "port": self.port}
        content["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
        content["models"]["digits"]["calibration"]["data"] = str(digits / "calibration.jsonl")
        del content["models"]["sums"]  # which has tests of its own, and takes its time to be fitted
        (self.folder / "demur.yaml").write_text(yaml.safe_dump(content))
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "demur", *words]

    def use_fitted(self) -> None:
        """Put artifacts in force that another service of this session has fitted for models like these, where there are
        any, and none is there yet."""
        for name, what in self._what_is_fitted().items():
            if not self._artifacts(name).exists():
                FITTED.take(what, self._artifacts(name))

    def begin(self, *words: str) -> None:
        """Start `demur up`, and do not wait for anything."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command("up", *words),
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self, *words: str, patience: float = START_SECONDS, fits: bool = False) -> None:
        """Start, and wait so many seconds until it says that it is ready. `fits`: its models itself, although another
        service of this session has fitted the same."""
        if not fits:
            self.use_fitted()
        missing = {name: what for name, what in self._what_is_fitted().items() if not self._artifacts(name).exists()}
        self.begin(*words)
        deadline = time.monotonic() + patience
        while "stop with Ctrl-C" not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)
        for name, what in missing.items():
            if self._artifacts(name).exists():
                FITTED.keep(what, self._artifacts(name))

    def _artifacts(self, model: str) -> Path:
        return self.folder / "var/artifacts" / model

    def _what_is_fitted(self) -> dict[str, str]:
        """A digest of each model as it is configured, but for what no fit looks at, and of its calibration data."""
        digests = {}
        for name, model in yaml.safe_load((self.folder / "demur.yaml").read_text())["models"].items():
            for beside in ("spot_check", "monitor"):
                model.pop(beside, None)
            for beside in ("replicas", "cpus"):
                model["host"].pop(beside, None)
            data = model.get("calibration", {}).pop("data", None)
            rows = (self.folder / data).read_bytes() if data else b""
            digests[name] = sha256(json.dumps([name, model], sort_keys=True).encode() + rows).hexdigest()
        return digests

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def run(self, *words: str) -> str:
        """Run another demur command beside it."""
        done = subprocess.run(self.command(*words), cwd=self.folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_here(self, *words: str) -> str:
        """Run another demur command in this process: a process of its own takes three seconds to import everything."""
        before, mask = dict(os.environ), os.umask(0o022)
        try:
            with ExitStack() as here:
                here.enter_context(chdir(self.folder))
                said = here.enter_context(redirect_stdout(StringIO()))
                complaints = here.enter_context(redirect_stderr(StringIO()))
                here.enter_context(pytest.MonkeyPatch.context()).setattr(sys, "argv", ["demur", *words])
                with pytest.raises(SystemExit) as end:
                    main()
        finally:
            os.umask(mask)
            os.environ.clear()
            os.environ.update(before)
        assert end.value.code in (0, None), f"{end.value.code}\n{said.getvalue()}{complaints.getvalue()}"
        return said.getvalue()

    @property
    def run_folder(self) -> Path:
        """The private folder of the start that runs."""
        return Path((self.folder / "var/demur.lock").read_text().split()[1])

    def host_calls(self) -> Counter[str]:
        """How many calls hosts have decided, by the way on which they went, as far as Ray's agent knows."""
        port = yaml.safe_load((self.folder / "demur.yaml").read_text())["telemetry"]["metrics_port"]
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        calls: Counter[str] = Counter()
        for labels, value in re.findall(r"^ray_demur_host_calls_total\{(.*)\} (\S+)$", metrics, re.MULTILINE):
            calls[re.findall(r'way="(\w+)"', labels)[0]] += int(float(value))
        return calls

    def database_pid(self) -> int:
        return int((self.folder / "var/postgres/postmaster.pid").read_text().split("\n")[0])

    def processes(self) -> list[psutil.Process]:
        """The service and everything that it started, the database included."""
        roots = [psutil.Process(self.process.pid)]
        if (self.folder / "var/postgres").exists():  # else it uses somebody else's
            roots.append(psutil.Process(self.database_pid()))
        return [process for root in roots for process in (root, *root.children(recursive=True))]

    def interrupt(self) -> list[psutil.Process]:
        """Press Ctrl-C, which reaches the whole process group; return what was running before."""
        before = self.processes()
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=60)
        return before

    def kill_everything(self) -> None:
        """SIGKILL, to all at once."""
        doomed = self.processes()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):  # one that went by itself, as those of Ray come and go
                process.kill()
        self.process.wait()
        psutil.wait_procs(doomed, timeout=20)

    def remove(self) -> None:
        if self.process and self.process.poll() is None:
            self.interrupt()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def service(digits: Path) -> Iterator[Service]:
    """A running service, which several files share (`tests.conftest.TOGETHER`). It speaks gRPC too."""
    running = Service(digits)
    file = running.folder / "demur.yaml"
    content = yaml.safe_load(file.read_text())
    content["http"]["grpc_port"] = free_port()
    file.write_text(yaml.safe_dump(content))
    try:
        running.start(fits=True)
        yield running
    finally:
        running.remove()


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """It takes the traces of `watched`."""
    with Collector() as opened:
        yield opened


@pytest.fixture(scope="session")
def watched(digits: Path, collector: Collector) -> Iterator[Service]:
    """A running service with what a user would switch on to watch it, which several files share. It checks half of its
    answers, may be wrong in a tenth of them, and holds all where it is wrong more often."""
    running = Service(digits)

    def edit(content: dict[str, Any]) -> None:
        content["telemetry"] = {
            "metrics_port": free_port(),
            "logs": "json",
            "access_log": True,
            "traces": {"endpoint": collector.endpoint, "share": 0},
        }
        content["models"]["digits"] |= {
            "spot_check": 0.5,
            "monitor": {"max_risk": 0.1, "on_alarm": "hold_all", "reference": 150, "window": 150},
        }
        content["review"] |= {"undo_seconds": 0}

    write(running, edit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "3000")  # Ray forgets gauges that are older than twice this
        try:
            running.start()
            yield running
        finally:
            running.remove()


ROWS, FEW_ROWS = 300, 60
"""How many sums the models of `talking` are fitted on."""


@pytest.fixture(scope="session")
def exercises(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the model of sums has not seen, with the results."""
    folder = tmp_path_factory.mktemp("sums")
    subprocess.run([sys.executable, "-m", "deploy.models.sums.parts", folder], check=True, cwd=ROOT)
    return folder


@pytest.fixture(scope="session")
def talking(digits: Path, exercises: Path) -> Iterator[Service]:
    """A running service of models that write, which several files share: the quickstart's `adding`; `hasty`, which
    streams before it is decided; `plain`, past which demur only passes. Three others cannot be served."""
    running = Service(digits)
    sums = (exercises / "total/calibration.jsonl").read_text().splitlines()
    for name, rows in (("adding", ROWS), ("hasty", FEW_ROWS)):
        (running.folder / f"{name}.jsonl").write_text("\n".join(sums[:rows]))
    (running.folder / "bold.jsonl").write_text('{"probabilities": [0.9, 0.1], "label": "yes"}\n' * 40)

    def edit(content: dict[str, Any]) -> None:
        digits = content["models"]["digits"]
        adding = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())["models"]["sums"]
        adding["host"] |= {"checkpoint": str(ROOT / "deploy/models/sums"), "cpus": 0.1}
        host = {**adding["host"], "max_tokens": 16}
        sure = {"score": "improbability", "calibrator": "platt"}
        writes = {**adding, "host": host, "scores": ["improbability"], "confidence": sure}
        writes |= {"policy": {"kind": "target_risk", "max_risk": 0.01}}
        content["models"] = {
            "adding": {**adding, "calibration": {"data": "adding.jsonl"}, "chat": {"refusal": "Let me ask somebody."}},
            "hasty": {**writes, "calibration": {"data": "hasty.jsonl"}, "chat": {"stream": "tentative"}},
            "plain": {**writes, "calibration": {}, "chat": {"proxy": True}},
            "gone": {**digits, "host": {**digits["host"], "checkpoint": "/nowhere/at/all"}},
            "fast": {**digits, "host": {**digits["host"], "gpus": 64, "device": "cuda"}},
            "bold": {
                "task": {"kind": "binary", "labels": ["no", "yes"]},
                "host": {"kind": "given", "gives": ["probabilities"]},
                "scores": ["softmax_response"],
                "confidence": {"score": "softmax_response"},
                "policy": {"kind": "selective_risk", "max_risk": 0.0001},
                "calibration": {"data": "bold.jsonl"},
            },
        }

    write(running, edit)
    try:
        for name in ("adding", "hasty"):
            running.run_here("fit", name, "--promote")
        running.start()
        yield running
    finally:
        running.remove()


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The folder of programs of a fresh environment: demur from a wheel, all else as it is installed here."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    (wheel,) = folder.glob("demur-*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    paths = sysconfig.get_paths(vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")})
    # a path in a .pth file is not read for .pth files of its own, so the demur of this tree stays out
    with open(f"{paths['purelib']}/others.pth", "w") as file:
        file.write(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "venv/bin"


class Callers:
    """A client for each thread that asks, and a connection for each request.

    Threads may not share a client of httpx where the service closes idle connections, as HAProxy does when a new one
    takes over: one thread may close a connection that another has just been given (`ReadError: Bad file descriptor`).
    Nor does a request go out on a connection at the moment in which that is closed.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._options = {"base_url": url, "timeout": 60, **options}
        self._options["headers"] = {"Connection": "close", **options.get("headers", {})}
        self._of_thread = threading.local()
        self._all: list[httpx.Client] = []

    def __enter__(self) -> "Callers":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._all:
            client.close()

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self._client().post(path, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self._client().get(path, **more)

    def _client(self) -> httpx.Client:
        if not hasattr(self._of_thread, "client"):
            self._of_thread.client = httpx.Client(**self._options)
            self._all.append(self._of_thread.client)
        return self._of_thread.client


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import Error, sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no browser: install chromium, or `playwright install chromium` ({error.message[:80]})")
        yield opened
        opened.close()


@pytest.fixture
def as_reviewer(browser):
    """A page for a person who has given a name, at an address; fails if the page complains."""
    contexts, complaints = [], []

    def sit_down(name, at, **settings):
        context = browser.new_context(viewport={"width": 1200, "height": 800}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PAGE_MILLISECONDS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{at}/review/")
        page.locator("#name:focus").wait_for()  # by itself
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        page.get_by_role("link", name=name).wait_for()
        if settings.get("java_script_enabled", True):
            page.wait_for_selector(READY)
        return page

    yield sit_down
    from tests.system.leaving import close

    for context in contexts:
        close(context)
    assert complaints == []


@pytest.fixture
def site(dsn):
    """Start pages, with settings of `review`."""
    with ExitStack() as opened:
        yield lambda **review: opened.enter_context(Site(dsn, **review))


@pytest.fixture
def own(digits: Path) -> Iterator[Service]:
    """A service of one's own, which is not started yet."""
    running = Service(digits)
    try:
        yield running
    finally:
        running.remove()


def write(service: Service, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change what its file says."""
    path = service.folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))


def wait_until(
    true: Callable[[], bool], *, patience: float = PATIENCE_SECONDS, why: Callable[[], object] = lambda: "not in time"
) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def alive(processes: list[psutil.Process]) -> list[str]:
    """Those that still run, as command lines. The dead whom nobody has buried do not count."""
    _, left = psutil.wait_procs(processes, timeout=15)
    running = []
    for process in left:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(" ".join(process.cmdline()) or process.name())
        except psutil.NoSuchProcess:
            continue
    return running
