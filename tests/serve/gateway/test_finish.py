"""What is written about a batch: in columns where nobody is asked, and then the same as row by row."""

from datetime import UTC, datetime
from random import Random

import pytest
from uuid_utils.compat import uuid7

from demur.audit.state.alarms import Safeguard
from demur.serve.config.file import Config
from demur.serve.config.review import ReviewConfig
from demur.serve.contract import wire
from demur.serve.contract.commit import CommitResult, Writing
from demur.serve.contract.decided import ArtifactShare, DecidedRows, ShadowRows
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.finish import Finisher
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.queue_room import QueueRoom
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.traffic.record import KeyUse
from tests.serve.conftest import DRAW_KEY
from tests.serve.scripted import configured

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def decided(random, n, *, writes=False, several=False, asks_next=""):
    def maybe(value):
        return value if random.random() < 0.8 else None

    labels = ["no", "yes"]
    return DecidedRows(
        artifact="toy-1",
        predictions=[maybe(random.sample(labels, 1) if several else random.choice(labels)) for _ in range(n)],
        top_labels=[random.sample(labels, 2) for _ in range(n)],
        top_probabilities=[[random.random(), random.random()] for _ in range(n)],
        label_confidences=[maybe([random.random(), random.random()]) if several else None for _ in range(n)],
        prediction_sets=[random.sample(labels, random.randrange(3)) for _ in range(n)],
        scores={name: [maybe(random.random()) for _ in range(n)] for name in ("entropy", "margin")},
        confidence=[maybe(random.random()) for _ in range(n)],
        actions=random.choices(["answer", "abstain", "review"], [6, 2, 2], k=n),
        reasons=[f"reason {number}" for number in range(n)],
        model_milliseconds=7 * random.random(),
        costs=[
            maybe({"prompt_tokens": 9, "completion_tokens": 4, "calls": 1, "seconds": random.random()})
            if writes
            else None
            for _ in range(n)
        ],
        replies=[maybe({"text": "so", "finish_reason": "stop"}) if writes else None for _ in range(n)],
        asks_next=asks_next,
    )


def shadow(n):
    return ShadowRows(
        artifact="toy-2", predictions=["no"] * n, prediction_sets=[["no"]] * n, confidence=[0.5] * n,
        actions=["answer"] * n, reasons=["so"] * n,
    )  # fmt: skip


def batch(random, n, *, keyed=False, several_models=False, **more):
    """Rows of two artifacts, some of which no model decided, in any order."""
    cut = random.randrange(1, n)
    with_shadow = random.random() < 0.2
    shares = [
        ArtifactShare(
            rows=list(range(size)),
            decided=decided(random, size, **more),
            shadow=shadow(size) if with_shadow else None,
        )
        for size in (cut, n - cut)
    ]
    rows = [ModelRow(share, i, "", random.random()) for share in shares for i in share.rows]
    if several_models:
        before = (ModelRow(shares[0], 0, "", 1.0),)
        rows = [ModelRow(row.share, row.index, "", 1.0, before=before if random.random() < 0.3 else ()) for row in rows]
    rows = [row if random.random() < 0.9 else ModelRow(None, 0, "the model failed", 1.0) for row in rows]
    random.shuffle(rows)
    pending = [
        PendingRow(
            uuid7(),
            wire.PredictRequest(
                model="toy",
                input={"text": "a\u0000b"} if random.random() < 0.5 else None,
                output={"probabilities": [0.5, 0.5]} if random.random() < 0.3 else None,
                group=random.choice([None, "east"]),
                cluster=random.choice([None, "patient 7"]),
            ),
            "an input",
            0.0,
            use=KeyUse(key="k", position=at, fingerprint=b"x") if keyed and random.random() < 0.5 else None,
            instead="asked in the place of 'other'" if random.random() < 0.1 else "",
        )
        for at in range(n)
    ]
    return pending, rows


def finisher(*, spot_check=0.0, control=None, alarm=None, keep_days=None, most_waiting=None):
    model = configured("binary", spot_check=spot_check, control=control)
    config = Config.model_construct(models={"toy": model}, keep_inputs_days=keep_days, review=ReviewConfig())
    safeguards = Safeguards()
    if alarm is not None:
        safeguards._known = {"toy": alarm}
    return Finisher(
        config,
        controls=Controls({"toy": model}, clock=lambda: NOW, new_id=uuid7),
        safeguards=safeguards,
        spot_checks=SpotChecks({"toy": model}),
        new_cases=NewCases(DRAW_KEY, ReviewConfig()),
        room=QueueRoom(most_waiting),
    )


CONTROL = {"kind": "review_price", "capacity": 0.2}

SITES = {
    "plain": {},
    "spot checks": {"spot_check": 0.3},
    "a control": {"control": CONTROL},
    "an alarm that holds all": {"alarm": Safeguard(model="toy", alarm_id=3, floor=None)},
    "an alarm with a floor": {"alarm": Safeguard(model="toy", alarm_id=3, floor=0.5)},
    "inputs for a week": {"keep_days": 7},
    "a queue with two places": {"most_waiting": 2, "spot_check": 0.3},
    "all at once": {"control": CONTROL, "alarm": Safeguard(model="toy", alarm_id=3, floor=0.3), "spot_check": 0.5},
}

BATCHES = {
    "plain": {},
    "keys": {"keyed": True},
    "several labels": {"several": True},
    "texts": {"writes": True},
    "a cascade": {"several_models": True},
    "a first model of a cascade": {"asks_next": "other"},
}


def written(site, pending, rows, *, in_columns):
    """The entries and cases of a batch, row by row, and how many rows were in columns."""
    made = finisher(**site)
    with made.room.places() as places:
        finished = made.finish(pending, rows, places, NOW, in_columns=in_columns)
    found = {}
    for item, at in zip(finished.items, finished.rows, strict=True):
        if isinstance(item, Writing):
            found[at[0]] = (item.entry, item.case)
        else:
            found |= {n: (one.entry, one.case) for n, one in zip(at, item.writings(), strict=True)}
    columns = sum(
        len(at) for item, at in zip(finished.items, finished.rows, strict=True) if not isinstance(item, Writing)
    )
    return [found[at] for at in range(len(rows))], columns, places.taken


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("kind", BATCHES)
def test_columns_say_the_same_as_rows(site, kind):
    seen = 0
    for seed in range(6):
        random = Random(f"{site} {kind} {seed}")
        pending, rows = batch(random, 2 + seed * 5, **BATCHES[kind])
        by_row, none, taken = written(SITES[site], pending, rows, in_columns=False)
        by_column, columns, also_taken = written(SITES[site], pending, rows, in_columns=True)
        assert by_column == by_row
        assert none == 0
        assert also_taken == taken
        seen += columns
    assert (seen > 0) == (kind != "a first model of a cascade")


def test_a_key_keeps_no_row_out_of_the_columns():
    pending, rows = batch(Random(3), 60, keyed=True)
    made = finisher(spot_check=0.3)
    with made.room.places() as places:
        finished = made.finish(pending, rows, places, NOW)
    keyed = {one.id: one.use for one in pending if one.use is not None}
    kept = {record_id: use for item in finished.items for record_id, use in item.keys.items()}
    in_columns = {record_id for item in finished.items if not isinstance(item, Writing) for record_id in item.keys}
    assert kept == keyed
    assert len(in_columns) > 10


@pytest.mark.parametrize("kind", ["plain", "several labels", "texts"])
def test_the_answer_from_columns_is_that_of_the_record(kind):
    random = Random(kind)
    pending, rows = batch(random, 40, **BATCHES[kind])
    made = finisher()
    with made.room.places() as places:
        finished = made.finish(pending, rows, places, NOW)
    seen = 0
    for item in finished.items:
        for row in range(0 if isinstance(item, Writing) else len(item)):
            told = wire.answer_json(CommitResult(columns=item.columns, row=row))
            assert told == wire.prediction_json(item.columns.record(row))
            assert list(told) == list(wire.Prediction.model_fields)
            seen += 1
    assert seen > 5
