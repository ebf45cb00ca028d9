import json
import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from calibration_store.artifact import ArtifactRefused, pack
from calibration_store.standing import Standing
from calibration_store.store import ArtifactNotFound, ArtifactStore, NothingToRollBack


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


@pytest.fixture
def three(selector, identity):
    """Three artifacts, by the letters that their names are known by here."""
    return {letter: pack(selector, model="toy", identity=identity, facts={"which": letter}) for letter in "abc"}


def released(store, three, steps):
    """Promote what a letter names, roll back at every `-`; return the letters of the history."""
    for each in three.values():
        store.save("toy", each)
    for step in steps:
        if step == "-":
            store.rollback("toy", by="ada", why="worse", clock=clock)
        else:
            store.promote("toy", three[step].name, by="ada", why="", clock=clock)
    letters = {each.name: letter for letter, each in three.items()}
    return "".join(letters[entry.artifact] for entry in store.history("toy"))


@pytest.mark.parametrize(
    ("steps", "history"),
    [
        ("ab-", "aba"),
        ("abb-", "abba"),  # the same twice is one step
        ("abc-", "abcb"),
        ("abc--", "abcba"),  # what was rolled back does not come back
        ("ab-c-", "abaca"),
        ("aba-", "abab"),
        ("aba--", "ababa"),
    ],
)
def test_a_rollback_is_one_more_entry(store, three, steps, history):
    assert released(store, three, steps) == history
    last = store.history("toy")[-1]
    assert store.name_in_force("toy") == last.artifact
    assert last.number == len(history)
    assert last.rolled_back == store.history("toy")[-2].artifact
    assert (last.by, last.why) == ("ada", "worse")
    assert all(
        entry.rolled_back is None for entry, step in zip(store.history("toy"), steps, strict=True) if step != "-"
    )


@pytest.mark.parametrize(
    ("steps", "said"),
    [("", "was ever in force"), ("a", "no other artifact"), ("aa", "before toy-"), ("ab-", "promote`")],
)
def test_nothing_to_roll_back_to(store, three, steps, said):
    history = released(store, three, steps)
    with pytest.raises(NothingToRollBack, match=said):
        store.rollback("toy", by="ada", why="", clock=clock)
    assert released(store, three, "") == history


def test_a_rollback_to_a_bad_artifact_is_refused(tmp_path, three):
    store = ArtifactStore(str(tmp_path))
    released(store, three, "ab")
    (tmp_path / "toy/artifacts" / three["a"].name / "manifest.json").write_text("{}")
    with pytest.raises(ArtifactRefused, match="was altered"):
        store.rollback("toy", by="ada", why="", clock=clock)
    assert store.name_in_force("toy") == three["b"].name


def write_old(folder, three, steps, *, drop=()):
    """A history as it was written before there were shadows and canaries: what is in force, and what was rolled back."""
    (folder / "toy/promotions").mkdir(parents=True)
    for number, (letter, rolled_back) in enumerate(steps, start=1):
        entry = {"number": number, "artifact": three[letter].name, "at": clock().isoformat(), "by": "ada", "why": ""}
        entry["rolled_back"] = rolled_back and three[rolled_back].name
        content = {key: value for key, value in entry.items() if key not in drop}
        (folder / f"toy/promotions/{number:08}.json").write_text(json.dumps(content))


def test_a_history_of_before_there_were_rollbacks_is_read(tmp_path, three):
    store = ArtifactStore(str(tmp_path))
    released(store, three, "")
    write_old(tmp_path, three, [("a", None), ("b", None)], drop=["rolled_back"])
    assert store.rollback("toy", by="ada", why="", clock=clock).artifact == three["a"].name


def test_a_history_of_before_there_were_canaries_goes_on(tmp_path, three):
    store = ArtifactStore(str(tmp_path))
    a, b, c = (three[letter].name for letter in "abc")
    released(store, three, "")
    write_old(tmp_path, three, [("a", None), ("b", None), ("c", None), ("b", "c")])
    assert store.standing("toy") == Standing(in_force=b)
    assert [change.action for change in store.history("toy")] == ["promote", "promote", "promote", "rollback"]
    store.shadow("toy", c, by="ada", why="", clock=clock)
    assert store.standing("toy") == Standing(in_force=b, shadow=c)
    assert store.rollback("toy", by="ada", why="", clock=clock).standing == Standing(in_force=a, shadow=c)
    assert [change.rolled_back for change in store.history("toy")] == [None, None, None, c, None, b]


def test_whoever_rolls_back_the_same_artifact_at_once_arrives_at_the_same_one(store, three, monkeypatch):
    released(store, three, "abc")
    other, write = ArtifactStore(store.url), store._append

    def late(*args, **kwargs):
        monkeypatch.setattr(store, "_append", write)
        other.rollback("toy", by="bob", why="", clock=clock)
        return write(*args, **kwargs)

    monkeypatch.setattr(store, "_append", late)
    assert store.rollback("toy", by="ada", why="", clock=clock).number == 5
    assert [(e.by, e.artifact) for e in store.history("toy")[3:]] == [
        ("bob", three["b"].name),
        ("ada", three["b"].name),
    ]
    assert store.rollback("toy", by="ada", why="", clock=clock).artifact == three["a"].name


def work(url, names, who, start, given):
    """What one process does once both are ready: promote and roll back in turn."""
    store = ArtifactStore(url)
    start.wait(60)
    numbers = []
    for turn in range(20):
        if turn % 2:
            numbers.append(store.rollback("toy", by=who, why="", clock=clock).number)
        else:
            numbers.append(store.promote("toy", names[turn // 2 % 2], by=who, why="", clock=clock).number)
    given.put(numbers)


@pytest.mark.slow
def test_two_processes_leave_a_complete_history_and_one_winner(tmp_path, three):
    store = ArtifactStore(str(tmp_path))
    released(store, three, "a" + "bc" * 30)  # so much that no rollback comes to the end of it
    before = len(store.history("toy"))
    names = [three[letter].name for letter in "bc"]
    processes = multiprocessing.get_context("spawn")
    start, given = processes.Barrier(2), processes.Queue()
    people = [processes.Process(target=work, args=(str(tmp_path), names, who, start, given)) for who in ("ada", "bob")]
    for each in people:
        each.start()
    numbers = [given.get(timeout=60) for _ in people]
    for each in people:
        each.join()
        assert each.exitcode == 0
    history = store.history("toy")[before:]
    assert (
        sorted(numbers[0] + numbers[1]) == [entry.number for entry in history] == list(range(before + 1, before + 41))
    )
    assert Counter(entry.by for entry in history) == {"ada": 20, "bob": 20}
    assert numbers == [sorted(given) for given in numbers]
    assert store.name_in_force("toy") == history[-1].artifact
