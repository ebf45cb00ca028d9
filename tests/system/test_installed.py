"""demur as most people have it: installed from a wheel, and started in a project that has nothing to do with it."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
import yaml

from tests.system.conftest import Service

pytestmark = [pytest.mark.slow, pytest.mark.service]

FOLDERS = ("serve", "audit", "review", "policies", "traffic")
"""Names of a project's own packages that are also names of folders of demur."""

SHADOWS = (*FOLDERS, "json", "typing_extensions")
"""And of modules that it needs."""

PRIVACY = """
def shorter(value):
    return value if isinstance(value, str) else [[round(number) for number in row] for row in value]
"""


def shadow(folder: Path, names: Iterable[str]) -> None:
    """Put packages with these names into a project, which end whoever imports them."""
    for name in names:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise ImportError('the project has its own {name}')\n")


def test_it_has_one_name_on_the_path_of_imports(installed, tmp_path):
    code = "import demur, importlib.util; print(demur.__file__, importlib.util.find_spec('serve'))"
    done = subprocess.run([installed / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    path, spec = done.stdout.split()
    assert path.startswith(str(installed.parent))
    assert spec == "None"


@pytest.mark.long  # in every run test_journeys.py serves from the wheel, beside packages with names of demur's folders
def test_it_serves_in_a_project_whose_packages_have_names_like_its_own(installed, digits):
    class Installed(Service):
        def command(self, *words):
            return [installed / "demur", *words]

    running = Installed(digits)
    try:
        shadow(running.folder, SHADOWS)
        (running.folder / "our_privacy.py").write_text(PRIVACY)
        file = running.folder / "demur.yaml"
        content = yaml.safe_load(file.read_text())
        content["redact"] = {"function": "our_privacy:shorter"}
        file.write_text(yaml.safe_dump(content))
        running.start(fits=True)
        first = json.loads((digits / "test.jsonl").read_text().splitlines()[0])
        asked = {"model": "digits", "input": first["input"]}
        answer = httpx.post(f"{running.url}/v1/predict", json=asked, timeout=60)
        assert answer.status_code == 200, answer.text
        assert httpx.get(f"{running.url}/review/").status_code == 200
        assert httpx.get(f"{running.url}/audit/").status_code == 200
        assert "digits" in running.run("check", "demur.yaml")
    finally:
        running.remove()
