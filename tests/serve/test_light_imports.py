"""Large libraries are imported where they work, and in no other process of a service."""

import subprocess
import sys

import pytest

LARGE = (
    "matplotlib", "pandas", "pyarrow", "scipy.optimize", "scipy.sparse", "scipy.spatial", "scipy.stats", "sklearn",
    "torch", "transformers",
)  # fmt: skip

PARTS = {
    "gateway": ("deployments.gateway", "web.native.app", "web.native.fast_path"),
    "console": ("deployments.pages", "web.review.app"),
    "audits": ("deployments.pages", "jobs.audits", "web.audit.app"),
    "host": ("deployments.hosts", "hosts.host", "hosts.language.reviewed"),
    "command line": ("app", "cli", "commands.up"),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_process_imports_no_large_library_before_it_needs_one(part):
    lines = [
        "import importlib, sys",
        "from demur.serve.local.serve_imports import import_serve",
        "import_serve()",
        *(f"importlib.import_module('demur.serve.{name}')" for name in PARTS[part]),
        f"print([name for name in {LARGE!r} if name in sys.modules])",
    ]
    done = subprocess.run([sys.executable, "-P", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_pandas_can_be_imported_after_serve():
    lines = (
        "import sys",
        "from demur.serve.local.serve_imports import import_serve",
        "import_serve()",
        "assert 'pandas' not in sys.modules",
        "import pandas",
        "import_serve()",
        "print(sys.modules['pandas'] is pandas)",
    )
    done = subprocess.run([sys.executable, "-P", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
