"""The files of a graph: damaged ones, weights that lie elsewhere, and what an artifact is bound to."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from demur.serve.config.file import Config
from demur.serve.hosts.identity import identity_if_here, identity_of
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_here
from tests.conftest import ROOT
from tests.serve.hosts.onnx.graphs import configured, linear, saved, value
from tests.serve.hosts.onnx.running import rows_of, run

ROWS = rows_of([[0.5, -1.0, 2.0]])


def with_weights_beside(path, location="weights.bin", folder=None):
    """A graph whose weights lie in a file that is named `location`."""
    linear(path)
    model = onnx.load_model(path)
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    if location != "weights.bin":
        model = onnx.load_model(path, load_external_data=False)
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                entry.value = location if entry.key == "location" else entry.value
        path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged, or no graph in ONNX's format"),
        (b"PK\x03\x04 a zip file, perhaps of torch", "is damaged, or no graph in ONNX's format"),
        (b"\x80\x04\x95", "is damaged, or no graph in ONNX's format"),
    ],
)
def test_a_file_that_is_no_graph(tmp_path, content, why):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    for look in (check_here, identity_of):
        with pytest.raises(BadModel, match=why):
            look(configured(path))
    assert identity_if_here(configured(path)) is None


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_graph_that_was_cut_off(tmp_path, share):
    linear(tmp_path / "m.onnx", columns=50)
    whole = (tmp_path / "m.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadModel, match=r"host\.file: .*(is damaged|onnxruntime does not take)"):
        check_here(configured(tmp_path / "m.onnx"))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(BadModel, match=r"host\.file: there is no file .*m\.onnx"):
        check_here(configured(tmp_path / "m.onnx"))
    linear(tmp_path / "m.onnx")
    with pytest.raises(BadModel, match=r"host\.file: .* is a folder; name a file in it, such as m\.onnx"):
        check_here(configured(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadModel, match=r"is a folder; and there is no \.onnx file in it"):
        check_here(configured(tmp_path / "empty"))


def test_an_operator_that_nobody_knows(tmp_path):
    nodes = [helper.make_node("Magic", ["x"], ["probabilities"], domain="com.example")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    inputs, outputs = [value("x", [None, 2])], [value("probabilities", [None, 2])]
    path = saved(tmp_path / "m.onnx", nodes, inputs, outputs, opsets=opsets)
    with pytest.raises(BadModel, match=r"has an operator that onnxruntime does not know: .*Magic.*class of your own"):
        check_here(configured(path))


def test_a_graph_of_a_later_onnx(tmp_path):
    linear(tmp_path / "m.onnx")
    model = onnx.load_model(tmp_path / "m.onnx")
    model.ir_version = 99
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(BadModel, match=r"is newer than this onnxruntime: .*update onnxruntime"):
        check_here(configured(tmp_path / "m.onnx"))


def test_weights_in_a_file_beside_the_graph(tmp_path):
    linear(tmp_path / "whole.onnx")
    path = with_weights_beside(tmp_path / "m.onnx")
    whole = run(configured(tmp_path / "whole.onnx"), ROWS)[1].probabilities
    assert run(configured(path), ROWS)[1].probabilities.tolist() == whole.tolist()
    first = identity_of(configured(path)).fingerprint
    weights = bytearray((tmp_path / "weights.bin").read_bytes())
    weights[-1] ^= 1
    (tmp_path / "weights.bin").write_bytes(weights)
    assert identity_of(configured(path)).fingerprint != first
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(BadModel, match=r"keeps weights in weights\.bin, and there is no such file in"):
        check_here(configured(path))
    assert identity_if_here(configured(path)) is None


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "sub/../../weights.bin", "a\0b", ""])
def test_weights_outside_of_the_graphs_folder_are_not_read(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(1000))
    path = with_weights_beside(folder / "m.onnx", location)
    with pytest.raises(BadModel, match=r"leads out of the graph's own folder"):
        check_here(configured(path))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = with_weights_beside(folder / "m.onnx")
    (folder / "weights.bin").rename(tmp_path / "secret.bin")
    (folder / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(BadModel, match=r"leads out of the graph's own folder"):
        check_here(configured(path))


def test_weights_within_a_branch_are_found(tmp_path):
    """A tensor in an attribute of a node of a branch that another node holds."""
    inner = onnx.numpy_helper.from_array(np.ones((1, 2), np.float32), "inner")
    inner.ClearField("raw_data")
    inner.data_location = TensorProto.EXTERNAL
    inner.external_data.add(key="location", value="../secret.bin")
    constant = helper.make_node("Constant", [], ["b"], value=inner)
    branch = helper.make_graph([constant], "branch", [], [value("b", [1, 2])])
    nodes = [
        helper.make_node("If", ["yes"], ["c"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["x", "c"], ["logits"]),
    ]
    weights = {"yes": np.array(True)}
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("logits", [None, 2])], weights)
    with pytest.raises(BadModel, match=r"leads out of the graph's own folder"):
        check_here(configured(path))


def test_an_artifact_is_bound_to_the_graph_and_to_how_it_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    linear(path)
    first = identity_of(configured(path)).fingerprint
    assert identity_of(configured(path, cpus=2, batch={"max_size": 8})).fingerprint == first
    columns = dict.fromkeys(("a", "b", "c"), "number")
    others = {
        identity_of(configured(path, output="logits")).fingerprint,
        identity_of(configured(path, gives="logits")).fingerprint,
        identity_of(configured(path, input={"kind": "table", "columns": columns})).fingerprint,
    }
    linear(path, columns=4)
    others.add(identity_of(configured(path)).fingerprint)
    assert len({first, *others}) == 5


def test_cuda_where_there_is_none_is_refused_and_not_replaced(tmp_path):
    linear(tmp_path / "m.onnx")
    model = configured(tmp_path / "m.onnx", device="cuda")
    check_here(model)  # the graph is right; this machine may not be the one that runs it
    with pytest.raises(BadModel, match=r"host\.device: .*set `device: cpu`"):
        run(model, ROWS)


def test_a_path_is_taken_from_the_folder_of_the_configuration(tmp_path):
    linear(tmp_path / "m.onnx")
    host = configured("m.onnx").host.at(tmp_path)
    assert host.file == tmp_path / "m.onnx"


@pytest.mark.parametrize(("key", "bad"), [("device", "mps"), ("layout", "hwc"), ("gives", "labels"), ("outputs", "x")])
def test_settings_that_there_are_not(key, bad):
    with pytest.raises(ValueError, match=key):
        configured("m.onnx", **{key: bad})


@pytest.mark.slow
def test_without_onnxruntime_the_package_is_named(tmp_path):
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "onnxruntime":
            raise ModuleNotFoundError("not installed: " + name, name=name)

from importlib import machinery, util
whole = util.find_spec
util.find_spec = lambda name, package=None: None if name == "onnxruntime" else whole(name, package)
sys.meta_path.insert(0, Refuse())
from demur.serve.hosts.kinds import check_here
from tests.serve.hosts.onnx.graphs import configured
try:
    check_here(configured("m.onnx"))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "host.kind: the package onnxruntime is missing: pip install 'demur[onnx]'", (
        done.stderr
    )


def test_the_configuration_takes_it_from_a_file():
    assert Config.model_validate({"models": {"m": configured("m.onnx").model_dump(by_alias=True)}})
