"""demur as most people have it: installed from a wheel, and started in a project that has nothing to do with it."""

import json
import subprocess
import sys
import sysconfig

import httpx
import pytest
import yaml

from tests.conftest import ROOT
from tests.system.conftest import Service

pytestmark = [pytest.mark.slow, pytest.mark.service]

SHADOWS = ("serve", "audit", "review", "policies", "traffic", "json", "typing_extensions")
"""Names of a project's own packages that are also names of folders of demur, or of modules that it needs."""

PRIVACY = """
def shorter(value):
    return value if isinstance(value, str) else [[round(number) for number in row] for row in value]
"""


@pytest.fixture(scope="module")
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


def test_it_has_one_name_on_the_path_of_imports(installed, tmp_path):
    code = "import demur, importlib.util; print(demur.__file__, importlib.util.find_spec('serve'))"
    done = subprocess.run([installed / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    path, spec = done.stdout.split()
    assert path.startswith(str(installed.parent))
    assert spec == "None"


def test_it_serves_in_a_project_whose_packages_have_names_like_its_own(installed, digits):
    class Installed(Service):
        def command(self, *words):
            return [installed / "demur", *words]

    running = Installed(digits)
    try:
        for name in SHADOWS:
            (running.folder / name).mkdir()
            (running.folder / name / "__init__.py").write_text(f"raise ImportError('the project has its own {name}')\n")
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
