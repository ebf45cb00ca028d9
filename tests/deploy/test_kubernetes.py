"""The manifests for Kubernetes: rendered by kubectl, and held against the schemas of Kubernetes."""

import shutil
import subprocess
from importlib.metadata import version

import kubernetes_validate
import pytest
import yaml

from demur.serve.configuration import load_config
from tests.conftest import ROOT
from tests.deploy.test_configurations import as_here

pytestmark = pytest.mark.slow

KUBERNETES = ROOT / "deploy/kubernetes"
VERSION = "1.32"
OF_OTHERS = {"RayService", "ServiceMonitor"}  # defined by operators, so Kubernetes has no schema of them


def rendered(folder):
    """What `kubectl apply -k` would send, by kind."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here, which brings kustomize")
    done = subprocess.run([kubectl, "kustomize", KUBERNETES / folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}


def pods(service):
    """Every pod template of a RayService, by the name of its group."""
    cluster = service["spec"]["rayClusterConfig"]
    groups = {group["groupName"]: group for group in cluster["workerGroupSpecs"]}
    return {name: group["template"] for name, group in {"head": cluster["headGroupSpec"], **groups}.items()}


def check(manifest):
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_a_mistake_would_be_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        check({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}, "automount": True})


@pytest.mark.parametrize("path", sorted(KUBERNETES.glob("base/*.yaml")), ids=lambda path: path.name)
def test_what_is_written_fits_the_schemas(path):
    for manifest in yaml.safe_load_all(path.read_text()):
        if "apiVersion" in manifest and manifest["kind"] not in {*OF_OTHERS, "Kustomization"}:
            check(manifest)


@pytest.mark.parametrize(("folder", "groups"), [("base", ["cpu"]), ("overlays/gpu", ["cpu", "gpu"])])
def test_what_is_rendered_hangs_together(folder, groups):
    found = rendered(folder)
    assert set(found) == {
        *("ServiceAccount", "Secret", "ConfigMap", "RayService", "PodDisruptionBudget", "NetworkPolicy", "Service"),
        "ServiceMonitor",
    }
    for kind, manifest in found.items():
        assert manifest["metadata"]["namespace"] == "demur"
        if kind not in OF_OTHERS:
            check(manifest)
    templates = pods(found["RayService"])
    assert list(templates) == ["head", *groups]
    environment = dict(line.split("=", 1) for line in (ROOT / "deploy/ray.env").read_text().split("\n")[1:-1])
    for template in templates.values():
        check({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]})
        (container,) = template["spec"]["containers"]
        assert {one["name"]: one["value"] for one in container["env"]} == environment
        assert container["image"].startswith("registry.example.com/demur:")
        assert container["envFrom"] == [{"secretRef": {"name": found["Secret"]["metadata"]["name"]}}]
        volumes = {one["name"]: one for one in template["spec"]["volumes"]}
        assert volumes["configuration"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
        assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
        assert template["spec"]["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        for chosen in (
            found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
            found["Service"]["spec"]["selector"],
        ):
            assert chosen.items() <= template["metadata"]["labels"].items()
    budget = found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items()
    assert [name for name, one in templates.items() if budget <= one["metadata"]["labels"].items()] == groups
    watched = found["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert watched.items() <= found["Service"]["metadata"]["labels"].items()
    ports = {port["name"] for port in found["Service"]["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in found["ServiceMonitor"]["spec"]["endpoints"]} == ports


def test_the_service_is_the_one_of_serve_deploy():
    (service,) = yaml.safe_load_all((KUBERNETES / "base/ray-service.yaml").read_text())
    plain = yaml.safe_load((ROOT / "deploy/cluster.serve.yaml").read_text())
    assert yaml.safe_load(service["spec"]["serveConfigV2"]) == plain
    assert service["spec"]["rayClusterConfig"]["rayVersion"] == version("ray")


def test_demur_takes_both_configurations(tmp_path):
    assert (KUBERNETES / "overlays/gpu/demur.yaml").read_text() == (ROOT / "deploy/cluster.yaml").read_text()
    for folder in ("base", "overlays/gpu"):
        config = load_config(as_here(f"kubernetes/{folder}/demur.yaml", tmp_path))
        wants_gpus = any(model.host.gpus for model in config.models.values())
        assert wants_gpus == (folder != "base")


def test_both_kustomizations_find_the_same_names():
    assert (KUBERNETES / "base/names.yaml").read_text() == (KUBERNETES / "overlays/gpu/names.yaml").read_text()
