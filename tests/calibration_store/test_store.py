from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from calibration_store.artifact import ArtifactRefused
from calibration_store.store import ArtifactNotFound, ArtifactStore


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path):
    return ArtifactStore(str(tmp_path / "artifacts") if request.param == "folder" else f"memory://{tmp_path}")


def test_nothing_is_in_force_at_first(store):
    assert store.name_in_force("toy") is None
    with pytest.raises(ArtifactNotFound, match="demur fit toy"):
        store.in_force("toy")


def test_the_last_promotion_counts_and_all_are_kept(store, files, selector, identity):
    from calibration_store.artifact import pack

    other = pack(selector, model="toy", identity=identity, facts={"second": True})
    for each in (files, other):
        store.save("toy", each)
    for name in (files.name, other.name, files.name):
        store.promote("toy", name, by="ada", why="a test", clock=clock)
    assert store.in_force("toy").name == files.name
    assert [entry.artifact for entry in store.history("toy")] == [files.name, other.name, files.name]
    assert store.names("toy") == sorted([files.name, other.name])


def test_saving_twice_changes_nothing(store, files):
    store.save("toy", files)
    store.save("toy", files)
    assert store.names("toy") == [files.name]
    assert store.load("toy", files.name).name == files.name


def test_an_unknown_artifact_is_not_promoted(store):
    with pytest.raises(ArtifactNotFound, match="no artifact 'toy-1'"):
        store.promote("toy", "toy-1", by="ada", why="", clock=clock)
    assert store.history("toy") == []


def test_a_missing_file_means_half_written(tmp_path, files):
    store = ArtifactStore(str(tmp_path))
    store.save("toy", files)
    (tmp_path / "toy/artifacts" / files.name / "manifest.json").unlink()
    with pytest.raises(ArtifactRefused, match=r"half written: manifest\.json is missing"):
        store.promote("toy", files.name, by="ada", why="", clock=clock)


def test_a_promotion_that_broke_off_never_took_effect(tmp_path, files):
    store = ArtifactStore(str(tmp_path))
    store.save("toy", files)
    store.promote("toy", files.name, by="ada", why="", clock=clock)
    (tmp_path / "toy/promotions/00000002.json").write_text('{"number": 2, "artif')
    assert store.name_in_force("toy") == files.name
    assert store.promote("toy", files.name, by="bob", why="", clock=clock).number == 3


def test_promoting_at_the_same_time_leaves_a_complete_history(tmp_path, files):
    ArtifactStore(str(tmp_path)).save("toy", files)

    def promote(who):
        return ArtifactStore(str(tmp_path)).promote("toy", files.name, by=str(who), why="", clock=clock).number

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(promote, range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert {entry.by for entry in ArtifactStore(str(tmp_path)).history("toy")} == {str(who) for who in range(24)}
