"""One service for one folder, and what a killed one left behind."""

import os
import shutil
import subprocess
import sys

import pytest

from demur.serve.local.one_service import DataFolderGone, only_one
from demur.serve.local.run_folder import make_run_folder
from demur.serve.local.service import CannotStart


def test_a_second_service_is_refused(tmp_path):
    with (
        only_one(tmp_path, print),
        pytest.raises(CannotStart, match=rf"a demur \(pid {os.getpid()}\) is already running"),
        only_one(tmp_path, print),
    ):
        pass


def test_a_lock_that_was_left_behind_is_said_and_taken_over(tmp_path):
    (tmp_path / "demur.lock").write_text("12345")
    said = []
    with only_one(tmp_path, said.append):
        assert "pid 12345" in said[0]
    assert (tmp_path / "demur.lock").read_text() == ""
    with only_one(tmp_path, said.append):
        assert len(said) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_what_a_killed_service_left_running_is_ended(tmp_path):
    folder = make_run_folder(tmp_path)
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, "RAY_AUTH_TOKEN_PATH": str(folder.token)},
    )
    try:
        with only_one(tmp_path / "data", print) as hold:
            hold.note(folder)
            left = (tmp_path / "data/demur.lock").read_text()
        (tmp_path / "data/demur.lock").write_text(left)  # as if it had been killed
        with only_one(tmp_path / "data", print):
            assert orphan.wait(timeout=20) == -9
            assert not folder.path.exists()
    finally:
        orphan.kill()
        orphan.wait()


def test_only_a_run_folder_is_ever_removed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (tmp_path / "demur.lock").write_text(f"12345 {precious}")
    with only_one(tmp_path, print):
        assert precious.exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_was_deleted_is_noticed(tmp_path, replaced):
    data = tmp_path / "data"
    with only_one(data, print) as hold:
        hold.check()
        shutil.rmtree(data)
        if replaced:
            data.mkdir()
            (data / "demur.lock").write_text("")
        with pytest.raises(DataFolderGone, match=r"data was deleted or replaced .* restore a backup"):
            hold.check()
