"""What Ray Serve is told about the applications."""

import warnings

import pytest
import yaml

from demur.serve.configuration import load_config
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray_parts():
    """`demur.serve.app`, and what Ray makes of an application; importing Ray takes seconds, and warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.serve._private.build_app import build_app

        from demur.serve import app

    def deployments(application):
        return {one.name: one._deployment_config for one in build_app(application, name="demur").deployments}

    return app, deployments


@pytest.fixture
def path(tmp_path):
    told = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    told["models"]["digits"]["host"]["autoscaling"] = {"min": 2, "max": 8, "up_after_seconds": 5}
    told |= {"gateway": {"replicas": 3, "max_ongoing": 500}, "console": {"replicas": 2}, "audit": {"replicas": 2}}
    told["database"] = "postgresql://nobody@127.0.0.1/none"
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(told))
    return tmp_path / "demur.yaml"


def test_as_many_replicas_as_the_configuration_says(ray_parts, path):
    app, deployments = ray_parts
    args = app.AppArgs.model_validate(load_config(path).model_dump())
    found = deployments(app.build_gateway(args))
    assert found["Gateway"].num_replicas == 3
    assert found["Gateway"].max_ongoing_requests == 500
    assert found["host-sums"].num_replicas == 1
    scaled = found["host-digits"].autoscaling_config
    assert (scaled.min_replicas, scaled.max_replicas, scaled.target_ongoing_requests) == (2, 8, 1.0)
    assert (scaled.upscale_delay_s, scaled.downscale_delay_s) == (5, 300)
    assert found["host-digits"].max_ongoing_requests >= 3 * 2  # what three gateways may send at a time
    (console,) = deployments(app.build_console(args)).values()
    (audits,) = deployments(app.build_audit(args)).values()
    assert (console.num_replicas, audits.num_replicas) == (2, 2)


def test_a_version_beside_the_path_makes_ray_build_again(ray_parts, path):
    app, _ = ray_parts
    for told in ({"config": str(path)}, {"config": str(path), "version": "b"}):
        assert app.AppArgs.model_validate(told).models == load_config(path).models
    with pytest.raises(app.CannotBuild, match="config: this key is not known"):
        app.AppArgs.model_validate({"config": str(path), "http": {}})
