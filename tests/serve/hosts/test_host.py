"""One model and the artifacts in their roles, without a gateway: who decides what, and who is left out."""

import logging
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from demur.calibration_store.artifact import pack
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound
from demur.policies.selector import Selector
from demur.serve.hosts.active_artifacts import JudgingBatch
from demur.traffic.draw import limit
from tests.conftest import digit_rows
from tests.serve.conftest import identity_of
from tests.serve.hosting import RunningHost

HALF = limit(0.5)


def told():
    return {"by": "ada", "why": "", "clock": lambda: datetime.now(UTC)}


def canary(store, name, share):
    store.start_canary("digits", name, share=share, held_between=(0, 1), max_risk=None, **told())


def another(store, name, *, facts=None, **changes):
    """Store the same artifact once more, as if it had been fitted for another model; return its name."""
    artifact = store.load("digits", name)
    identity = replace(identity_of(artifact), **changes)
    files = pack(artifact.selector, model="digits", identity=identity, facts=facts or {})
    store.save("digits", files)
    return files.name


@pytest.fixture
def host(two):
    config, store, *_ = two
    return RunningHost("digits", config.models["digits"], store)


@pytest.fixture(scope="module")
def inputs(digits):
    return [np.asarray(row["input"], dtype=np.float32)[np.newaxis] for row in digit_rows(digits)[:64]]


def by_row(shares):
    """What was decided about each row, the shares put together again."""
    rows = {}
    for share in shares:
        for i, at in enumerate(share.rows):
            assert at not in rows
            rows[at] = (share.decided.artifact, share.decided.actions[i], share.decided.reasons[i])
    return [rows[at] for at in sorted(rows)]


def test_a_promotion_is_taken_up_and_the_rival_decides_otherwise(host, two, inputs):
    _, store, first, second = two
    (before,) = host.decide(inputs)
    store.promote("digits", second, **told())
    assert host.decide(inputs)[0].decided.artifact == first  # not before it looked
    host.refresh()
    (after,) = host.decide(inputs)
    assert after.decided.artifact == host.artifact_name == second
    assert list(after.decided.scores) == ["softmax_response"]
    assert all("rival" in reason for reason in after.decided.reasons)
    assert after.decided.actions.count("review") > before.decided.actions.count("review")


@pytest.mark.parametrize("wrong", ["fingerprint", "labels", "half written", "not there"])
def test_a_bad_artifact_is_refused_and_the_old_one_stays(host, two, inputs, wrong, caplog):
    _, store, first, second = two
    if wrong == "half written":
        store.promote("digits", second, **told())
        (Path(store.url) / "digits/artifacts" / second / "arrays.safetensors").unlink()
    elif wrong == "not there":
        store.promote("digits", second, **told())
        shutil.rmtree(Path(store.url) / "digits/artifacts" / second)
    else:
        bad = {"fingerprint": "0" * 64, "labels": tuple("abcdefghij")}[wrong]
        store.promote("digits", another(store, second, **{wrong: bad}), **told())
    with caplog.at_level(logging.ERROR, "demur.host"):
        host.refresh()
        host.refresh()
    assert host.artifact_name == first
    expected = {
        "fingerprint": "another checkpoint",
        "labels": "another label set",
        "half written": "half written",
        "not there": "there is no artifact",
    }[wrong]
    assert expected in host.state().trouble
    assert len(caplog.records) == 1  # loudly, and once
    assert {artifact for artifact, *_ in by_row(host.decide(inputs))} == {first}
    store.promote("digits", first, **told())
    host.refresh()
    assert host.trouble == ""


def test_a_canary_decides_the_rows_that_are_drawn_and_no_other(host, two, inputs):
    _, store, first, second = two
    (alone,) = host.decide(inputs)
    canary(store, second, 0.5)
    host.refresh()
    draws = [HALF - 1 if i % 3 == 0 else HALF for i in range(64)]
    decided = by_row(host.decide(inputs, [None] * 64, draws))
    assert [artifact for artifact, *_ in decided] == [second if i % 3 == 0 else first for i in range(64)]
    for i, (artifact, action, reason) in enumerate(decided):
        if artifact == first:
            assert (action, reason) == (alone.decided.actions[i], alone.decided.reasons[i])
        else:
            assert "rival" in reason
    state = host.state()
    assert (state.artifact, state.canary, state.share) == (first, second, 0.5)


@pytest.mark.parametrize(
    ("draw", "whose"), [(0, "canary"), (HALF - 1, "canary"), (HALF, "first"), (2**64 - 1, "first")]
)
def test_the_share_of_the_canary_ends_where_it_says(host, two, inputs, draw, whose):
    _, store, first, second = two
    canary(store, second, 0.5)
    host.refresh()
    (share,) = host.decide(inputs[:3], [None] * 3, [draw] * 3)
    assert share.decided.artifact == {"canary": second, "first": first}[whose]
    assert share.rows == [0, 1, 2]


def test_another_share_and_the_end_of_a_canary_are_taken_up(host, two, inputs):
    _, store, first, second = two
    canary(store, second, 0.25)
    host.refresh()
    assert host.decide(inputs[:1], [None], [HALF - 1])[0].decided.artifact == first
    canary(store, second, 0.5)
    host.refresh()
    assert host.decide(inputs[:1], [None], [HALF - 1])[0].decided.artifact == second
    store.stop_canary("digits", **told())
    host.refresh()
    assert host.decide(inputs[:1], [None], [0])[0].decided.artifact == first
    assert host.state().canary is None


def test_a_shadow_decides_the_same_rows_and_changes_nothing(host, two, inputs):
    _, store, _, second = two
    (alone,) = host.decide(inputs)
    assert alone.shadow is None
    store.shadow("digits", second, **told())
    host.refresh()
    (share,) = host.decide(inputs)
    assert replace(share.decided, model_milliseconds=0) == replace(alone.decided, model_milliseconds=0)
    assert share.shadow.artifact == host.state().shadow == second
    assert share.shadow.predictions == share.decided.predictions  # one output, judged twice
    assert all("rival" in reason for reason in share.shadow.reasons)
    assert share.shadow_milliseconds > 0


def test_a_shadow_stands_beside_the_canary_too(host, two, inputs):
    _, store, first, second = two
    third = another(store, first, facts={"comment": "a third one"})
    canary(store, third, 0.5)
    store.shadow("digits", second, **told())
    host.refresh()
    shares = host.decide(inputs[:4], [None] * 4, [0, HALF, 0, HALF])
    assert {(share.decided.artifact, tuple(share.rows)) for share in shares} == {
        (third, (0, 2)),
        (first, (1, 3)),
    }
    for share in shares:
        assert share.shadow.artifact == second
        assert len(share.shadow.actions) == 2


def test_batches_that_are_judged_together_are_judged_as_each_alone(host, two, inputs):
    _, store, _, second = two
    canary(store, second, 0.5)
    store.shadow("digits", another(store, second, facts={"n": 2}), **told())
    host.refresh()
    lineup, draws = host.panel.lineup, [HALF - 1 if i % 3 == 0 else HALF for i in range(64)]
    batches = [
        JudgingBatch(
            lineup=lineup,
            output=host.wait(host.host._run_for(lineup, inputs[start:stop])),
            groups=[None] * (stop - start),
            draws=draws[start:stop] if drawn else None,
            spent=1000.0 * start,
        )
        for start, stop, drawn in [(0, 1, True), (1, 20, True), (20, 30, False), (30, 64, True)]
    ]
    together = host.panel.shares_together(batches)
    for batch, shares in zip(batches, together, strict=True):
        alone = host.panel.shares(lineup, batch.output, batch.groups, batch.draws, spent=batch.spent)
        assert len(shares) == len(alone)
        for share, expected in zip(shares, alone, strict=True):
            assert batch.spent < share.decided.model_milliseconds < batch.spent + 1000
            changes = {"model_milliseconds": expected.decided.model_milliseconds, "scores": expected.decided.scores}
            assert replace(share.decided, **changes) == expected.decided
            for name, values in expected.decided.scores.items():  # NumPy sums in another order in larger arrays
                assert share.decided.scores[name] == pytest.approx(values, rel=1e-12)
            assert (share.rows, share.shadow) == (expected.rows, expected.shadow)
            assert share.shadow_milliseconds > 0


@pytest.mark.parametrize("role", ["shadow", "canary"])
def test_what_does_not_fit_is_left_out_and_said(host, two, inputs, role, caplog):
    _, store, first, second = two
    bad = another(store, second, fingerprint="0" * 64)
    if role == "shadow":
        store.shadow("digits", bad, **told())
    else:
        canary(store, bad, 0.5)
    with caplog.at_level(logging.ERROR, "demur.host"):
        host.refresh()
        host.refresh()
    assert len(caplog.records) == 1
    assert f"the {role} is refused" in host.state().trouble
    (share,) = host.decide(inputs, [None] * 64, [0] * 64)
    assert share.decided.artifact == first
    assert share.shadow is None


def test_beside_a_bad_artifact_the_old_one_stays_with_the_others(host, two, inputs):
    _, store, first, second = two
    store.promote("digits", another(store, second, fingerprint="0" * 64), **told())
    canary(store, second, 0.5)
    store.shadow("digits", first, **told())  # which is what decides, so there is nothing to see in its shadow
    host.refresh()
    shares = host.decide(inputs[:2], [None] * 2, [0, HALF])
    assert [(share.decided.artifact, share.rows) for share in shares] == [(second, [0]), (first, [1])]
    assert [share.shadow for share in shares] == [None, None]
    assert "another checkpoint" in host.trouble


class Fails:
    """A calibrator that fails on a batch, though not on the one that it was tried with."""

    reads = "score"

    def __init__(self, calibrator):
        self.inner = calibrator

    def confidence(self, seen):
        if len(seen) > 1:
            raise FloatingPointError("a bug")
        return self.inner.confidence(seen)


@pytest.fixture
def failing(monkeypatch, two):
    """The second artifact fails on every batch of more than one row."""
    _, store, _, second = two
    load = store.load

    def spoilt(model, name):
        artifact = load(model, name)
        if name != second:
            return artifact
        return replace(artifact, selector=replace(artifact.selector, calibrator=Fails(artifact.selector.calibrator)))

    monkeypatch.setattr(store, "load", spoilt)


def test_a_shadow_that_fails_is_noticed_by_nobody_but_the_log(host, two, failing, inputs, caplog):
    _, store, first, second = two
    store.shadow("digits", second, **told())
    host.refresh()
    with caplog.at_level(logging.ERROR, "demur.host"):
        for _ in range(3):
            (share,) = host.decide(inputs)
            assert share.decided.artifact == first
            assert share.decided.actions.count("answer") > 30
            assert share.shadow is None
    assert len(caplog.records) == 1
    assert "FloatingPointError: a bug" in host.state().trouble
    store.shadow("digits", None, **told())
    host.refresh()
    assert host.state().trouble == ""


def test_the_rows_of_a_canary_that_fails_are_decided_by_the_one_in_force(host, two, failing, inputs, caplog):
    _, store, first, second = two
    (alone,) = host.decide(inputs)
    canary(store, second, 0.5)
    host.refresh()
    with caplog.at_level(logging.ERROR, "demur.host"):
        for _ in range(3):
            (share,) = host.decide(inputs, [None] * 64, [i % 2 * HALF for i in range(64)])
            assert share.decided.artifact == first
            assert share.decided.actions == alone.decided.actions
    assert len(caplog.records) == 1
    assert second in host.state().trouble


def test_what_only_the_shadow_needs_cannot_spoil_the_others(host, two, inputs, monkeypatch):
    """The artifact in force needs no embedding, the shadow does; the model gives one that is no number, or none."""
    _, store, first, second = two
    store.promote("digits", second, **told())
    host.refresh()
    (alone,) = host.decide(inputs)
    store.shadow("digits", first, **told())
    host.refresh()
    run = host.model.run

    def spoilt(batch, needs, **more):
        output = run(batch, needs, **more)
        if output.embedding is not None:
            output.embedding[:] = float("nan")
        return output

    def broken(batch, needs, **more):
        if "embedding" in needs:
            raise RuntimeError("out of memory")
        return run(batch, needs, **more)

    for bad in (spoilt, broken):
        monkeypatch.setattr(host.model, "run", bad)
        (share,) = host.decide(inputs)
        assert replace(share.decided, model_milliseconds=0) == replace(alone.decided, model_milliseconds=0)
    assert share.shadow is None
    assert "out of memory" in host.trouble


def test_a_model_failure_is_a_failure_with_a_shadow_too(host, two, inputs, monkeypatch):
    _, store, _, second = two
    store.shadow("digits", second, **told())
    host.refresh()

    def broken(*_, **__):
        raise RuntimeError("the input is to blame")

    monkeypatch.setattr(host.model, "run", broken)
    with pytest.raises(RuntimeError, match="to blame"):
        host.decide(inputs)
    assert host.trouble == ""  # nothing is wrong with the shadow


def test_every_artifact_is_told_the_groups_of_its_own_rows(host, two, inputs, monkeypatch):
    _, store, _, second = two
    canary(store, second, 0.5)
    host.refresh()
    seen = []
    decide = Selector.decide

    def noted(self, output, groups=None):
        seen.append((len(output), list(groups)))
        return decide(self, output, groups)

    monkeypatch.setattr(Selector, "decide", noted)
    host.decide(inputs[:4], ["a", None, "b", "c"], [0, HALF, HALF, 0])
    assert seen == [(2, ["a", "c"]), (2, [None, "b"])]


def test_a_store_that_cannot_be_reached_stops_nobody(host, two, inputs, monkeypatch, caplog):
    _, store, first, second = two
    store.shadow("digits", second, **told())
    host.refresh()

    for error in (ArtifactsUnreachable("the artifacts in s3://x cannot be reached"), ConnectionError("no route")):

        def gone(model, error=error):
            raise error

        with monkeypatch.context() as cut, caplog.at_level(logging.ERROR, "demur.host"):
            caplog.clear()
            cut.setattr(store, "standing", gone)
            host.refresh()
            host.refresh()
        assert len(caplog.records) == 1
        assert str(error) in host.state().trouble
        (share,) = host.decide(inputs)
        assert (share.decided.artifact, share.shadow.artifact) == (first, second)
    host.refresh()
    assert host.trouble == ""


def test_a_host_that_starts_without_its_store_waits_for_it(two, inputs, monkeypatch):
    config, store, first, _ = two

    def gone(model):
        raise ConnectionError("no route")

    with monkeypatch.context() as cut:
        cut.setattr(store, "standing", gone)
        host = RunningHost("digits", config.models["digits"], store)
    assert host.artifact_name is None
    with pytest.raises(ArtifactNotFound, match="no route"):
        host.decide(inputs)
    host.refresh()
    assert host.decide(inputs)[0].decided.artifact == first


def test_artifacts_are_read_once_and_the_model_is_used_where_it_may_be(host, two, monkeypatch):
    _, store, _, second = two
    store.shadow("digits", second, **told())
    loaded, jobs = [], []
    load = store.load
    monkeypatch.setattr(store, "load", lambda model, name: loaded.append(name) or load(model, name))

    run = host.model.run

    def noted(inputs, needs):
        jobs.append((host.state().shadow, threading.current_thread().name))
        return run(inputs, needs)

    monkeypatch.setattr(host.model, "run", noted)
    for _ in range(3):
        host.refresh()
    assert loaded == [second]
    ((shadow, thread),) = jobs  # it is tried once, before it is there
    assert shadow is None
    assert thread.startswith("model")
    assert host.state().shadow == second
