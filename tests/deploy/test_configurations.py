"""The files under deploy/ that say what is served: demur takes them, and Ray takes those that are for Ray."""

import os
import shutil
import subprocess
import sys
import tomllib
import warnings

import pytest
import yaml

from demur.serve.configuration import load_config
from demur.serve.local.environment import CLIENT_SECONDS, ENVIRONMENT
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"


def as_here(name, tmp_path):
    """One of the configurations, with the folders of this machine."""
    text = (DEPLOY / name).read_text().replace("/opt/demur", str(ROOT)).replace("/var/lib/demur", str(tmp_path))
    (tmp_path / "demur.yaml").write_text(text)
    return tmp_path / "demur.yaml"


@pytest.mark.parametrize(
    ("name", "gateways", "digits"), [("single-node.yaml", 2, "2 replicas"), ("cluster.yaml", 3, "2 to 8 replicas")]
)
def test_demur_takes_it(name, gateways, digits, tmp_path):
    config = load_config(as_here(name, tmp_path))
    assert config.gateway.replicas == gateways
    assert config.models["digits"].host.replicas_in_words == digits
    assert config.database == "postgresql://"  # no password in a file


@pytest.mark.slow
@pytest.mark.parametrize("name", ["single-node.yaml", "cluster.yaml"])
def test_demur_check(name, tmp_path, digits):
    path = as_here(name, tmp_path)
    path.write_text(path.read_text().replace("s3://demur-artifacts", str(tmp_path)))
    if name == "single-node.yaml":  # which has its models fitted on the first start
        shutil.copytree(digits, tmp_path / "digits")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "demur", "check", "--offline", path],
        env={**os.environ, "RAY_ADDRESS": "10.0.0.1:6379"},  # GPUs and vLLM are the cluster's
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not tried: the database (--offline)" in done.stdout
    assert done.stdout.endswith(f"{path} is valid\n")
    assert "replicas" in done.stdout


@pytest.mark.slow
def test_ray_takes_what_serve_deploy_is_given():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.serve.schema import ServeDeploySchema

        from demur.serve import app
    told = ServeDeploySchema.model_validate(yaml.safe_load((DEPLOY / "cluster.serve.yaml").read_text()))
    assert str(told.proxy_location.value) == "EveryNode"
    served = {one.name: (one.import_path, one.route_prefix) for one in told.applications}
    assert served == {
        name: (f"demur.serve.app:{builder.__name__}", prefix) for name, (builder, prefix) in app.APPLICATIONS.items()
    }
    assert all(one.args == {"config": "/etc/demur/demur.yaml", "version": "1"} for one in told.applications)


def test_a_cluster_has_the_environment_that_demur_up_sets():
    lines = (line for line in (DEPLOY / "ray.env").read_text().splitlines() if not line.startswith("#"))
    told = dict(line.split("=", 1) for line in lines)
    here_only = {
        "RAY_AUTH_MODE",
        "RAY_DEDUP_LOGS",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
        "RAY_SCHEDULER_EVENTS",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S",
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S",
        "RAY_memory_monitor_refresh_ms",
        "RAY_worker_niceness",
        "RAY_worker_oom_score_adjustment",
    }
    assert told == {name: ENVIRONMENT[name] for name in ENVIRONMENT.keys() - here_only} | {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_BINARY_PATH": "/opt/demur/venv/bin/demur-haproxy",
        "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(CLIENT_SECONDS),
    }


def test_the_proxy_that_a_cluster_starts_is_installed_with_demur():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["demur-haproxy"] == "demur.serve.local.proxy:main"
