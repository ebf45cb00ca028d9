"""What `import demur` offers, and that it costs nothing before it is used."""

import subprocess
import sys

import pytest

import demur
from demur.library import calibrators, decisions, metrics, plots, scores
from tests.conftest import ROOT


@pytest.mark.parametrize("name", demur.__all__)
def test_every_public_name_is_there(name):
    assert getattr(demur, name) is not None
    assert name in dir(demur)
    assert name in demur.HOMES


def test_names_that_are_not_there_are_missed_in_the_usual_way():
    with pytest.raises(AttributeError, match="module 'demur' has no attribute 'nothing'"):
        _ = demur.nothing


@pytest.mark.parametrize("module", [calibrators, decisions, metrics, plots, scores])
def test_every_name_of_a_module_is_there_has_a_document_and_is_told(module):
    for name in module.__all__:
        assert getattr(module, name).__doc__
        if module is not plots:
            assert f"`{name}`" in module.__doc__ or "`fit_…`" in module.__doc__


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("numpy", "sklearn", "ray", "matplotlib", "torch", "pydantic")
    code = f"import sys, demur; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_library_works_without_ray_and_without_a_web_server():
    service = ("ray", "fastapi", "torch", "psycopg")
    code = f"import sys, demur; demur.SelectiveClassifier; print([name for name in {service!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"
