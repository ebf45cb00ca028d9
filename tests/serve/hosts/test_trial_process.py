"""Checks of models whose code or files end a process, fill it, or never come back."""

import time

import numpy as np
import psutil
import pytest
from onnx import helper

from demur.serve.config.file import Config
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_model, kind_of
from demur.serve.hosts.model_trial import try_apart
from demur.serve.hosts.trial_process import TrialLimits
from tests.serve.hosts.onnx.graphs import configured as graph
from tests.serve.hosts.onnx.graphs import saved, value
from tests.serve.table_models import configured as table

pytestmark = pytest.mark.slow  # each check starts a process

MODEL = "\n\nclass Model:\n    def predict_proba(self, inputs):\n        return [[0.5, 0.5]] * len(inputs)\n"


@pytest.fixture
def own_class(tmp_path, monkeypatch):
    """Write a module with a model, and return its configuration."""
    monkeypatch.chdir(tmp_path)

    def made(code):
        (tmp_path / "strange.py").write_text(code + MODEL)
        section = {
            "task": {"kind": "binary", "labels": ["no", "yes"]},
            "host": {"kind": "python", "class": "strange:Model"},
            "scores": ["softmax_response"],
            "confidence": {"score": "softmax_response"},
            "policy": {"kind": "rejection_rate", "rate": 0.2},
        }
        return Config.model_validate({"models": {"mine": section}}).models["mine"]

    return made


def tried(model, **limits):
    """Check a model within limits; return what is wrong, and how long that took."""
    began = time.monotonic()
    with pytest.raises(BadModel) as refused:
        try_apart(model, kind_of(model).apart, TrialLimits(**limits))
    return str(refused.value), time.monotonic() - began


def test_a_model_that_is_right_passes(own_class):
    check_model(own_class("print('hello')"))


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import os\nprint('goodbye', flush=True)\nos._exit(0)", "(exit status 0) (it said: goodbye)"),
        ("import ctypes\nctypes.string_at(0)", "(signal 11, SIGSEGV)"),
        ("import os, sys\nos.write(2, b'\\x1b[2J gone\\xff')\nos._exit(1)", "(it said: \\x1b[2J gone\ufffd)"),
    ],
)
def test_a_module_that_ends_the_program_is_named(own_class, code, how):
    why, _ = tried(own_class(code))
    assert why.startswith("host.class: strange:Model ended the process in which it was tried ")
    assert how in why
    assert "import its module by hand" in why


def test_a_module_that_never_comes_back_is_given_up(own_class):
    why, seconds = tried(own_class("import time\ntime.sleep(600)"), seconds=4.0)
    assert why.startswith("host.class: strange:Model was not ready after 4 s; import its module by hand")
    assert seconds < 20


def test_a_module_that_fills_the_memory_is_ended(own_class):
    why, _ = tried(own_class("kept = [b'x' * 2**22 for _ in range(10**6)]"), bytes=2**30)
    assert "strange:Model took more than 1.0 GiB of memory while it was tried" in why


def test_what_a_module_starts_ends_with_its_check(own_class, tmp_path):
    """A process that holds the pipes open keeps nobody waiting."""
    model = own_class(
        "import subprocess, sys\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(other.pid))"
    )
    began = time.monotonic()
    check_model(model)
    assert time.monotonic() - began < 60
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30  # what is killed ends a little later
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_code_of_others_writes_into_the_pipe_is_no_answer(own_class):
    """Neither garbage nor a stream without end."""
    for written in ("b'garbage\\n'", "b'[1]\\n'", "b'x' * 4_000_000"):
        every = (
            f"for fd in range(3, 64):\n    try:\n        os.write(fd, {written})\n    except OSError:\n        pass\n"
        )
        why, _ = tried(own_class(f"import os\n{every}os._exit(0)"), seconds=20.0)
        assert "ended the process in which it was tried" in why or "was not ready" in why


def test_a_fork_that_holds_the_pipes_keeps_nobody_waiting(own_class):
    model = own_class("import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)")
    began = time.monotonic()
    check_model(model)
    assert time.monotonic() - began < 60


def test_trees_that_are_nested_without_end(tmp_path):
    (tmp_path / "model.json").write_bytes(b'{"learner": ' * 200_000)
    told, _ = tried(table(kind="xgboost", file=str(tmp_path / "model.json")))
    assert "model.json ended the process in which it was tried (signal 11, SIGSEGV); save the model again" in told


def test_trees_that_fill_the_memory(tmp_path):
    (tmp_path / "model.json").write_bytes(b'{"learner": [' + b"{}," * 20_000_000 + b"{}]}")
    told, _ = tried(table(kind="xgboost", file=str(tmp_path / "model.json")), bytes=2**30)
    assert "model.json took more than 1.0 GiB of memory while it was tried" in told


def test_a_graph_that_fills_the_memory(tmp_path):
    """It says of itself that it has probabilities, and makes a tensor of 2 GiB first."""
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["probabilities"]),
    ]
    weights = {"size": np.array([2**29], dtype=np.int64)}
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("probabilities", [None, 2])], weights)
    told, _ = tried(graph(path), bytes=2**30)
    assert "m.onnx took more than 1.0 GiB of memory while it was tried" in told
    assert "export the model again" in told
