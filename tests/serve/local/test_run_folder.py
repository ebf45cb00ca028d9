"""The private folder of a start: nobody else enters it, and nobody else can put another one in its place."""

import os
import stat

import pytest

from demur.serve.local.run_folder import (
    LONGEST_PATH,
    UnsafeFolder,
    check_parent,
    is_run_folder,
    make_run_folder,
    open_to_everybody,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")

NOBODY = 65534


def test_only_the_owner_enters_it_and_each_start_has_its_own(tmp_path):
    first, second = make_run_folder(tmp_path), make_run_folder(tmp_path)
    assert first.path != second.path
    for folder in (first.path, first.ray, first.proxy, first.sockets):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(first.token.stat().st_mode) == 0o600
    assert first.token.read_text() != second.token.read_text()
    assert len(first.token.read_text()) == 64


def test_the_usual_place_leaves_room_for_the_paths_of_sockets():
    folder = make_run_folder()
    try:
        assert len(str(folder.path)) <= LONGEST_PATH or not str(folder.path).startswith("/tmp")
    finally:
        folder.token.unlink()
        for below in (folder.ray, folder.proxy, folder.sockets, folder.path):
            below.rmdir()


def test_a_long_place_for_temporary_files_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 60)))
    folder = make_run_folder()
    assert folder.path.parent.as_posix() == "/tmp"
    folder.token.unlink()
    for below in (folder.ray, folder.proxy, folder.sockets, folder.path):
        below.rmdir()


def test_a_folder_that_everybody_can_change_is_refused(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(UnsafeFolder, match=r"other users of this machine can change .*open.* set TMPDIR"):
        make_run_folder(open_to_all)
    below = open_to_all / "mine"
    below.mkdir(mode=0o700)
    with pytest.raises(UnsafeFolder, match="can change"):  # `mine` itself could be renamed
        make_run_folder(below)
    open_to_all.chmod(0o1777)  # as /tmp is: what is in it belongs to whoever made it
    check_parent(below)


@as_root
def test_a_folder_of_another_user_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(UnsafeFolder, match="theirs"):
        make_run_folder(theirs)


def test_a_link_is_judged_by_where_it_leads(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(open_to_all)
    with pytest.raises(UnsafeFolder):
        make_run_folder(link)


def test_only_a_private_folder_of_this_name_is_taken_for_one(tmp_path):
    assert is_run_folder(make_run_folder(tmp_path).path)
    other = tmp_path / "precious"
    other.mkdir(mode=0o700)
    assert not is_run_folder(other)
    shared = tmp_path / "demur-shared"
    shared.mkdir(mode=0o755)
    assert not is_run_folder(shared)
    link = tmp_path / "demur-link"
    link.symlink_to(make_run_folder(tmp_path).path)
    assert not is_run_folder(link)
    assert not is_run_folder(tmp_path / "demur-gone")


def test_a_data_folder_that_everybody_can_move_is_told(tmp_path):
    above = tmp_path / "above"
    above.mkdir()
    assert open_to_everybody(above / "var") == ""
    above.chmod(0o777)
    assert f"chmod o-w {above}" in open_to_everybody(above / "var")
    above.chmod(0o1777)  # as /tmp is: nobody moves what belongs to others
    assert open_to_everybody(above / "var") == ""
