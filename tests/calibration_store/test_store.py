import errno
import json
import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from fsspec.implementations.local import LocalFileSystem

from demur.calibration_store.artifact import ArtifactRefused, pack
from demur.calibration_store.standing import Canary, RoleRefused, Standing
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore, NothingToRollBack
from demur.uncertainty.checks import InvalidInput
from tests.calibration_store.at_once import CANARY, check_three_at_once, clock


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
    """A history as it was written before there were shadows and canaries: pairs of what was put in and out of force."""
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


SAID = {"by": "ada", "why": "", "clock": clock}


def canary(name, **changes):
    return Canary(artifact=name, since=clock().isoformat(), **{**CANARY, **changes})


def test_each_change_tells_the_standing_after_it(store, three):
    a, b, c = (three[letter].name for letter in "abc")
    assert store.standing("toy") == Standing()
    released(store, three, "a")
    store.shadow("toy", b, **SAID)
    store.start_canary("toy", c, **CANARY, **SAID)
    assert store.standing("toy") == Standing(in_force=a, shadow=b, canary=canary(c))
    store.start_canary("toy", c, **{**CANARY, "share": 0.5, "max_risk": None}, **SAID)
    store.shadow("toy", None, **SAID)
    store.stop_canary("toy", **SAID)
    history = store.history("toy")
    assert [(each.number, each.action, each.artifact) for each in history] == [
        (1, "promote", a),
        (2, "shadow", b),
        (3, "canary", c),
        (4, "canary", c),
        (5, "stop_shadow", b),
        (6, "stop_canary", c),
    ]
    assert [each.standing for each in history] == [
        Standing(in_force=a),
        Standing(in_force=a, shadow=b),
        Standing(in_force=a, shadow=b, canary=canary(c)),
        Standing(in_force=a, shadow=b, canary=canary(c, share=0.5, max_risk=None)),
        Standing(in_force=a, canary=canary(c, share=0.5, max_risk=None)),
        Standing(in_force=a),
    ]
    assert [(each.shadow_ended, each.canary_ended) for each in history] == [(None, None)] * 4 + [(b, None), (None, c)]
    assert store.name_in_force("toy") == a


def test_promoting_the_canary_ends_it_as_a_canary(store, three):
    a, b, c = (three[letter].name for letter in "abc")
    released(store, three, "a")
    store.shadow("toy", b, **SAID)
    store.start_canary("toy", c, **CANARY, **SAID)
    change = store.promote("toy", c, **SAID)
    assert change.standing == store.standing("toy") == Standing(in_force=c, shadow=b)
    assert (change.canary_ended, change.shadow_ended) == (c, None)
    change = store.promote("toy", b, **SAID)
    assert (change.standing, change.shadow_ended) == (Standing(in_force=b), b)
    assert store.rollback("toy", **SAID).artifact == c
    assert store.rollback("toy", **SAID).artifact == a  # shadows and canaries make the way back no longer


def test_a_rollback_ends_the_canary_that_was_judged_beside_what_it_puts_out_of_force(store, three):
    a, _, c = (three[letter].name for letter in "abc")
    released(store, three, "ab")
    store.start_canary("toy", c, **CANARY, **SAID)
    change = store.rollback("toy", **SAID)
    assert (change.standing, change.canary_ended) == (Standing(in_force=a), c)


def test_an_automatic_stop_does_not_stop_a_newer_canary(store, three):
    _, b, c = (three[letter].name for letter in "abc")
    released(store, three, "a")
    store.start_canary("toy", b, **CANARY, **SAID)
    store.start_canary("toy", c, **CANARY, **SAID)
    assert store.history("toy")[-1].canary_ended == b
    assert store.stop_canary("toy", only=b, **SAID) is None
    assert store.standing("toy").canary == canary(c)
    assert store.stop_canary("toy", only=c, **SAID).number == 4
    assert store.stop_canary("toy", only=c, **SAID) is None
    with pytest.raises(RoleRefused, match="no canary to stop"):
        store.stop_canary("toy", **SAID)
    with pytest.raises(RoleRefused, match="no shadow to end"):
        store.shadow("toy", None, **SAID)
    assert len(store.history("toy")) == 4


def test_what_is_named_is_checked_first(store, three):
    released(store, three, "a")
    with pytest.raises(ArtifactNotFound, match="no artifact 'toy-1'"):
        store.shadow("toy", "toy-1", **SAID)
    with pytest.raises(ArtifactNotFound, match="no artifact 'toy-1'"):
        store.start_canary("toy", "toy-1", **CANARY, **SAID)
    with pytest.raises(InvalidInput, match="share is 1"):
        store.start_canary("toy", three["b"].name, **{**CANARY, "share": 1.0}, **SAID)
    assert len(store.history("toy")) == 1


def test_a_change_that_broke_off_takes_its_number_and_changes_nothing(tmp_path, three):
    store = ArtifactStore(str(tmp_path))
    released(store, three, "a")
    store.shadow("toy", three["b"].name, **SAID)
    for number, content in ((3, b""), (4, b"[]"), (5, b'{"number": 5, "artifact": "x", "standing": {"in_fo')):
        (tmp_path / f"toy/promotions/{number:08}.json").write_bytes(content)
    assert store.standing("toy") == Standing(in_force=three["a"].name, shadow=three["b"].name)
    change = store.start_canary("toy", three["c"].name, **CANARY, **SAID)
    assert (change.number, change.standing.shadow) == (6, three["b"].name)
    assert [each.number for each in store.history("toy")] == [1, 2, 6]


def test_who_comes_second_makes_the_change_to_what_the_first_one_left(store, three, monkeypatch):
    a, b, c = (three[letter].name for letter in "abc")
    released(store, three, "a")
    other, create = ArtifactStore(store.url), store._folder.create

    def let_bob_promote_first(name):
        def late(path, content):
            monkeypatch.setattr(store._folder, "create", create)
            other.promote("toy", name, by="bob", why="", clock=clock)
            return create(path, content)

        monkeypatch.setattr(store._folder, "create", late)

    let_bob_promote_first(b)
    assert store.shadow("toy", c, **SAID).standing == Standing(in_force=b, shadow=c)
    let_bob_promote_first(a)
    with pytest.raises(RoleRefused, match="is in force and cannot be the shadow"):
        store.shadow("toy", a, **SAID)
    assert [(each.by, each.artifact) for each in store.history("toy")[1:]] == [("bob", b), ("ada", c), ("bob", a)]


def test_a_change_is_seen_whole_or_not_at_all(tmp_path, three, monkeypatch):
    """Whoever reads while it is written would else skip it, and write the standing before it once more."""
    store = ArtifactStore(str(tmp_path))
    released(store, three, "a")
    seen, opened = [], LocalFileSystem.open

    def watched(self, path, mode="rb", **kwargs):
        file = opened(self, path, mode, **kwargs)
        if "r" not in mode:
            seen.extend(path.name for path in (tmp_path / "toy/promotions").glob("0*.json"))
        return file

    monkeypatch.setattr(LocalFileSystem, "open", watched)
    store.promote("toy", three["b"].name, **SAID)
    assert set(seen) == {"00000001.json"}
    assert sorted(path.name for path in (tmp_path / "toy/promotions").iterdir()) == ["00000001.json", "00000002.json"]


def test_a_folder_without_hard_links(tmp_path, three, monkeypatch):
    def no_link(self, src, dst):
        raise OSError(errno.EPERM, "links are not supported here")

    monkeypatch.setattr(LocalFileSystem, "link", no_link)
    store = ArtifactStore(str(tmp_path))
    released(store, three, "ab-")
    assert [change.number for change in store.history("toy")] == [1, 2, 3]


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


@pytest.mark.slow
def test_promoting_shadowing_and_a_canary_at_once_lose_no_change(tmp_path, selector, identity):
    fitted = [pack(selector, model="toy", identity=identity, facts={"which": which}) for which in range(4)]
    check_three_at_once(str(tmp_path), fitted)
