"""The image, the compose file and the unit of systemd, as far as they can be judged without being run."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema.validators import validator_for

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

DEPLOY = ROOT / "deploy"
TOOLS = Path(sys.executable).parent


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def compose_schema():
    import check_jsonschema

    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor"
    return json.loads((schemas / "compose-spec.json").read_text())


def test_hadolint_finds_nothing_in_the_dockerfile():
    done = subprocess.run(
        [TOOLS / "hadolint", "--no-color", DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_would_find_something(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && sudo apt-get install y\n")
    assert subprocess.run([TOOLS / "hadolint", tmp_path / "Dockerfile"], capture_output=True).returncode == 1


def test_the_image_runs_as_nobody_in_particular_and_gets_what_it_copies():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines
    kept = {
        line.removeprefix("!").strip()
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert all((ROOT / name).exists() for name in kept)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert packages <= kept
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)


def test_a_wheel_of_demur_has_every_file_of_its_packages():
    """An image is installed from one, while the tests run in the tree."""
    listed = subprocess.run(["git", "ls-files", "--cached"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = [Path(name) for name in listed.stdout.splitlines()]
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert told["packages"]["find"]["include"] == ["demur*"]
    packages = {path.name for path in (ROOT / "demur").iterdir() if path.is_symlink()}
    patterns = [f"{of.replace('.', '/')}/{pattern}" for of, those in told["package-data"].items() for pattern in those]
    others = [name for name in tracked if name.parts[0] in packages and name.suffix != ".py" and (ROOT / name).exists()]
    assert others
    for name in others:
        assert any(Path("demur", name).match(one) for one in patterns), f"{name} is in no wheel: add it to package-data"


def test_the_compose_file_fits_its_schema():
    schema = compose_schema()
    validator = validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(compose())] == []
    broken = compose()
    broken["services"]["demur"]["helthcheck"] = {}
    assert list(validator.iter_errors(broken))


def test_the_compose_file_hangs_together():
    content = compose()
    services = content["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services)
        for needed in service.get("depends_on", {}):  # it waits for health, so there must be some
            assert "healthcheck" in services[needed] or needed == "demur"  # of demur, in the Dockerfile
        for mount in service.get("volumes", []):
            if mount["type"] == "bind":
                assert (DEPLOY / mount["source"]).exists(), (name, mount)
            else:
                assert mount["source"] in content["volumes"]
        assert {one["source"] for one in service.get("configs", [])} <= set(content["configs"])
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    for told in content["configs"].values():
        assert yaml.safe_load(told["content"])["apiVersion"] == 1


def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "demur.service"
    text = (DEPLOY / "systemd/demur.service").read_text()
    unit.write_text(text.replace("/opt/demur/venv/bin/demur", sys.executable))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "demur.service" not in done.stderr  # where it says what it does not know
    judged = subprocess.run(
        [analyze, "security", "--offline=yes", "--threshold=25", unit], capture_output=True, text=True, timeout=60
    )
    assert judged.returncode == 0, judged.stdout
