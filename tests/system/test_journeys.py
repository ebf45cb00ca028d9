"""docs/first-steps.md, as a reader follows it: an installed demur, a folder with nothing that belongs to it, and every
block in its order."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import ROOT
from tests.system.conftest import START_SECONDS, free_port, wait_until
from tests.system.review_site import at_case, press
from tests.system.test_installed import FOLDERS, shadow

pytestmark = [pytest.mark.slow, pytest.mark.service]

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

JOURNEYS = (
    "A scikit-learn pipeline",
    "An ONNX model",
    "Predictions in a file",
    "A model behind another server",
    "A class of your own",
)

IN_EVERY_RUN = ("Predictions in a file",)
"""Those of `make test`. `make test-long` has the others; models that demur hosts have other tests in every run."""

STAY = {"demur up": "ready after", "python server.py": "running on"}
"""Commands that a reader leaves open, and what they say when they are ready."""


def blocks(section):
    """Language and text of each block of a section of the page, in order."""
    page = (ROOT / "docs/first-steps.md").read_text()
    (found,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return BLOCK.findall(found)


class Newcomer:
    """Does what the page says, in a folder of their own, on ports that are free."""

    def __init__(self, programs: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demur-"))  # short, because of sockets
        shadow(self.folder, FOLDERS)
        self.ports = {"8000": str(free_port()), "9000": str(free_port())}
        self.url = f"http://127.0.0.1:{self.ports['8000']}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DEMUR_", "PYTHON"))},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DEMUR_URL": self.url,
        }
        self.open = []

    def follow(self, language: str, block: str) -> str:
        """Do what one block says; return what its commands said."""
        for port, free in self.ports.items():
            block = block.replace(port, free)
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", block)[1]
            (self.folder / name).write_text(block)
            return ""
        return "".join(self._stay(line) if line in STAY else self._run(line) for line in block.strip().split("\n"))

    def _run(self, line: str) -> str:
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300
        )
        print(f"$ {line}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _stay(self, line: str) -> str:
        if line == "demur up":
            self._use_a_free_port()
        log = self.folder / f"log-{len(self.open)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                line.split(),
                executable=shutil.which(line.split()[0], path=self.environment["PATH"]),
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.open.append(process)
        wait_until(
            lambda: STAY[line] in log.read_text(errors="replace") or process.poll() is not None,
            patience=START_SECONDS,
            why=lambda: log.read_text(errors="replace"),
        )
        said = log.read_text(errors="replace")
        print(f"$ {line}\n{said}")
        assert process.poll() is None, said
        return said

    def _use_a_free_port(self) -> None:
        """The page has the port that is demur's unless the file says another."""
        file = self.folder / "demur.yaml"
        text = file.read_text().replace("8000", self.ports["8000"])
        if "\nhttp:" not in text:
            text += f"\nhttp: {{host: 127.0.0.1, port: {self.ports['8000']}}}\n"
        file.write_text(text)

    def leave(self) -> None:
        """Press Ctrl-C in every terminal, the last first."""
        for process in reversed(self.open):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def reader(installed):
    reading = Newcomer(installed)
    try:
        yield reading
    finally:
        reading.leave()


def answer_a_case(reader, as_reviewer):
    """Take the first case, and choose its first label; return the id."""
    page = as_reviewer("Ada", reader.url)
    press(page, "n")
    page.wait_for_url("**/review/cases/*")
    case = re.search(r"/cases/([0-9a-f-]{36})", page.url)[1]
    at_case(page, case)
    shown = page.locator("main").inner_text()
    for column in ("radius", "texture", "smoothness", "benign", "malignant"):
        assert column in shown
    choose_the_first(page, case)
    told = f"{reader.url}/v1/predictions/{case}"
    wait_until(lambda: httpx.get(told).json()["outcome"], why=lambda: httpx.get(told).text)
    outcome = httpx.get(told).json()["outcome"]
    assert outcome["label"] in ("benign", "malignant")
    assert outcome["author"] == "Ada"
    return case


def choose_the_first(page, case):
    """Press 1 as a person does: once the page takes keys, and again if it says that it did not take this one."""
    for _ in range(3):
        press(page, "1")
        page.wait_for_function(
            "id => !location.href.includes(`/cases/${id}`) || document.getElementById('missed')?.textContent", arg=case
        )
        if f"/cases/{case}" not in page.url:
            return
        page.wait_for_timeout(1000)
    raise AssertionError(page.locator("body").inner_text())


def read_the_audit(reader, browser):
    """The page shows the verdict of the stored report."""
    page = browser.new_page()
    page.goto(f"{reader.url}/audit/")
    page.get_by_text("tumours").first.wait_for()
    shown = page.locator("main").inner_text()
    page.close()
    print(shown)
    return shown


@pytest.mark.parametrize(
    "journey", [pytest.param(name, marks=() if name in IN_EVERY_RUN else pytest.mark.long) for name in JOURNEYS]
)
def test_a_journey(journey, reader, as_reviewer, browser):
    begun = time.monotonic()
    for language, block in (*blocks("The data"), *blocks(journey)):
        reader.follow(language, block)
    answered = 0
    for language, block in blocks("Ask, answer, audit"):
        if block.startswith("demur predict"):
            if ("--output-column" in block) != (journey == "Predictions in a file"):
                continue
            assert "held" in reader.follow(language, block)
            answer_a_case(reader, as_reviewer)
            answered += 1
        else:
            said = reader.follow(language, block)  # the last is what the audit says
    assert answered == 1
    verdict = re.search(r"^tumours, .* UTC: (.+)$", said, re.MULTILINE)[1]
    shown = read_the_audit(reader, browser)
    assert verdict in shown.lower()
    assert "149\nof 149 records" in shown
    print(f"{journey}: {time.monotonic() - begun:.0f} s")
