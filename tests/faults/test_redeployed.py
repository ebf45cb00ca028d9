"""A new version takes over while callers ask: gateways and hosts are replaced in turn, and what they had is ended."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.faults.conftest import Site, Trial

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_a_rolling_redeploy(site: Site, trial: Trial):
    before = {process.pid for name in ("Gateway", "host-digits") for process in site.replicas(name)}
    site.content["models"]["digits"]["host"]["timeout_seconds"] = 11.0
    site.write()
    (address,) = {
        word.split("=")[1] for p in site.titled("") for word in _words(p) if word.startswith("--gcs-address=")
    }

    def fault(load):
        subprocess.run(
            [sys.executable, "-m", "tests.faults.redeploy", str(site.folder / "demur.yaml"), site.dsn],
            cwd=site.folder,
            env={
                **os.environ,
                "RAY_ADDRESS": address,
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN_PATH": f"{site.run_folder}/token",
                "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
                "PYTHONPATH": str(ROOT),
            },
            check=True,
            timeout=300,
        )

    load, _ = trial(site, fault)
    site.wait_until_whole()
    assert not before & {process.pid for name in ("Gateway", "host-digits") for process in site.replicas(name)}
    assert not load.troubles
    assert not [told for told in load.answered if "failed" in told.said["reason"]]


def _words(process):
    try:
        return process.cmdline()
    except Exception:
        return []
