"""A folder by its URL: files that are created once, and errors that say what to do."""

import sys

import pytest
from fsspec.registry import _registry

from demur.calibration_store.folder import ArtifactsUnreachable, Folder


@pytest.fixture(params=["folder", "memory"])
def folder(request, tmp_path):
    return Folder(str(tmp_path / "there") if request.param == "folder" else f"memory://{tmp_path}")


def test_files(folder):
    assert folder.children("a") == []
    folder.write("a/2", b"x")
    folder.write("a/1", b"y")
    folder.write("a/1", b"z")
    assert folder.children("a") == ["1", "2"]
    assert folder.read("a/1") == b"z"
    assert (folder.exists("a"), folder.exists("a/3")) == (True, False)
    with pytest.raises(FileNotFoundError):
        folder.read("a/3")


def test_a_file_is_created_once(folder):
    assert folder.create("a/1", b"x")
    assert not folder.create("a/1", b"y")
    assert folder.create("a/1", b"x")  # as after an answer that got lost
    assert folder.read("a/1") == b"x"
    assert folder.children("a") == ["1"]


class ServerSaid(Exception):
    def __init__(self, code):
        self.response = {"Error": {"Code": code}}


@pytest.mark.parametrize("code", ["PreconditionFailed", "412", "ConditionalRequestConflict", "409"])
@pytest.mark.parametrize("there", [True, False])
def test_an_s3_server_that_does_not_say_which_condition_failed(tmp_path, monkeypatch, code, there):
    folder = Folder(f"memory://{tmp_path}")
    if there:
        folder.write("a/1", b"x")

    def refuse(path, value, mode):
        assert mode == "create"
        raise OSError("pre-condition") from ServerSaid(code)

    monkeypatch.setattr(folder._files, "pipe_file", refuse)
    assert not folder.create("a/1", b"y")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError("Forbidden"), "Forbidden; check the credentials"),
        (TimeoutError(), "TimeoutError; check the address, and whether it answers"),
        (OSError("one\ntwo."), "one two; check the address"),
    ],
)
def test_whatever_the_file_system_raises_becomes_one_sentence(tmp_path, monkeypatch, error, said):
    folder = Folder(f"memory://{tmp_path}")

    def fail(*_, **__):
        raise error

    for method in ("ls", "exists", "cat_file", "pipe_file"):
        monkeypatch.setattr(folder._files, method, fail)
    for ask in (
        lambda: folder.children("a"),
        lambda: folder.exists("a"),
        lambda: folder.read("a"),
        lambda: folder.write("a", b""),
        lambda: folder.create("a", b""),
    ):
        with pytest.raises(ArtifactsUnreachable) as raised:
            ask()
        assert str(raised.value).startswith(f"the artifacts in memory://{tmp_path} cannot be reached: {said}")


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(ArtifactsUnreachable, match=r"s3://bucket/x cannot .* `pip install 'demur\[s3\]'`"):
        Folder("s3://bucket/x")


def test_a_protocol_that_nobody_knows():
    with pytest.raises(ArtifactsUnreachable, match="sss://bucket cannot be reached: Protocol not known: sss"):
        Folder("sss://bucket")
