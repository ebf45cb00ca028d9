"""Three processes that change one history at the same time, for every kind of store."""

import itertools
import multiprocessing
from datetime import UTC, datetime

from demur.calibration_store.standing import after_canary, after_promotion, after_shadow, after_shadow_stop
from demur.calibration_store.store import ArtifactStore

CANARY = {"share": 0.1, "held_between": (0.05, 0.4), "max_risk": 0.05}


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def change_much(url, names, what, start, given):
    """What one process of three does: change one role again and again."""
    store = ArtifactStore(url)
    said = {"by": what, "why": "", "clock": clock}
    start.wait(60)
    numbers = []
    for turn in range(20):
        if what == "promote":
            change = store.promote("toy", names[turn % 2], **said)
        elif what == "shadow":
            change = store.shadow("toy", names[2] if turn % 2 == 0 else None, **said)
        else:
            change = store.start_canary("toy", names[3], **{**CANARY, "share": (turn + 1) / 30}, **said)
        numbers.append(change.number)
    given.put((what, numbers))


def check_three_at_once(url, fitted):
    """Let three processes make sixty changes to the history of four artifacts, and check what they leave."""
    store, names = ArtifactStore(url), [each.name for each in fitted]
    for each in fitted:
        store.save("toy", each)
    store.promote("toy", names[1], by="setup", why="", clock=clock)
    processes = multiprocessing.get_context("spawn")
    start, given = processes.Barrier(3), processes.Queue()
    roles = ("promote", "shadow", "canary")
    people = [processes.Process(target=change_much, args=(url, names, role, start, given)) for role in roles]
    for each in people:
        each.start()
    numbers = dict(given.get(timeout=60) for _ in people)
    for each in people:
        each.join()
        assert each.exitcode == 0
    first, *history = store.history("toy")
    assert sorted(itertools.chain(*numbers.values())) == [change.number for change in history] == list(range(2, 62))
    standing = first.standing
    for change in history:  # each says what its own action makes of what the one before it left
        assert change.number in numbers[change.by]
        assert change.shadow_ended == (standing.shadow if change.action == "stop_shadow" else None)
        match change.action:
            case "promote":
                standing = after_promotion(standing, change.artifact)
            case "shadow":
                standing = after_shadow(standing, change.artifact)
            case "stop_shadow":
                standing = after_shadow_stop(standing)
            case "canary":
                standing = after_canary(standing, change.standing.canary)
        assert change.standing == standing
    assert store.standing("toy") == standing
