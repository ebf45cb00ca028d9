"""Labelled records of the log, as rows to fit on: which of them may be used, and how many records each stands for."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from demur.audit.metrics.confidence_strata import strata_where_reviews_differ
from demur.audit.metrics.sampling import completion_weights
from demur.review.drawn import DrawnShare, drawn_records, drawn_shares, reviewed_among
from demur.traffic.database import Database
from demur.traffic.dataset import LabelledFile, LoggedRow, count_logged, logged_pages
from demur.traffic.outcomes import Precedence, rule_in_words
from demur.traffic.record import Answer
from demur.uncertainty.checks import Array

PAGE = 256

FEW = 0.01
"""A share of records that may be left out, though it is not left out by chance."""


class NothingToFitOn(ValueError):
    """No record in the range has an outcome and an input that the model takes. Widen the range, or fit on a file."""


class OnlyHeldLabelled(ValueError):
    """Labels were never meant for the answered records, so those that there are say little about the traffic. Set
    `spot_check` for the model, or say that every outcome is known."""


class OutcomesOverdue(ValueError):
    """No label has come for a kind of records that labels were meant for. End the range earlier, or wait."""


class StrangeOutcomes(ValueError):
    """Outcomes name labels that the model does not have. Fit on a range after the labels changed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTraffic:
    """Rows in order of time."""

    rows: LabelledFile
    weights: Array | None
    """[n], how many records each row stands for; None: they are a plain sample."""

    facts: dict[str, Any]
    """Of the data, for the manifest."""

    remarks: list[str]

    among: str = ""
    """Which inputs the rows are drawn from, in words of a promise, where outcomes with other labels were left out."""


def read_labelled_traffic(
    database: Database,
    model: str,
    *,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    takes: Callable[[Any], bool],
    knows: Callable[[Answer, Any], bool],
    every_outcome_known: bool,
    progress: Callable[[int, int], None],
) -> LabelledTraffic:
    """Return the records in [since, until) that have an outcome which the model `knows` of such an input
    and an input that it `takes`.

    A record stands for 1 / p records, p the probability of a label that was logged when it was decided; more, where
    others that were drawn have no usable outcome yet: those of the same action and, where reviews hang on it by more
    than chance, of about the same confidence (METHODS 10.7). A record that was not drawn, or that nobody has
    reviewed yet, has an outcome that says nothing that could be weighed and is left out, unless every outcome is known:
    then each row stands for itself.
    """
    with database.transaction() as connection:
        total = count_logged(connection, model, since=since, until=until, labelled=True)
        shares = drawn_shares(connection, model, since=since, until=until)
    if total == 0:
        raise NothingToFitOn(
            f"no record of {model!r} in this range has an outcome; widen it, or fit on a labelled file with --data"
        )
    if not every_outcome_known:
        _check_drawn(model, shares)
    kept: list[LoggedRow] = []
    forgotten = unusable = strange = not_drawn = done = 0
    for page in logged_pages(
        database, model, precedence=precedence, since=since, until=until, labelled=True, size=PAGE
    ):
        done += len(page)
        progress(done, total)
        meant = page if every_outcome_known else _reviewed(database, page)
        not_drawn += len(page) - len(meant)
        forgotten += sum(not record.has_input for record in meant)
        there = [record for record in meant if record.has_input]
        known = [record for record in there if record.outcome is not None and knows(record.outcome, record.input)]
        strange += len(there) - len(known)
        usable = [record for record in known if takes(record.input)]
        unusable += len(known) - len(usable)
        kept += usable
    if strange > FEW * total:
        raise StrangeOutcomes(
            f"{strange:,} of {total:,} outcomes of {model!r} in this range name labels that the model does not have;"
            f" at most 1 in {round(1 / FEW)} may be left out: choose a range since the labels are as they are now"
        )
    if not kept:
        raise NothingToFitOn(
            f"none of the {total:,} records of {model!r} with an outcome in this range can be fitted on: the inputs of"
            f" {forgotten:,} were forgotten (keep_inputs_days), {unusable + strange:,} do not fit the model, and"
            f" {not_drawn:,} were not drawn for a label, or are not reviewed yet"
        )
    remarks = [
        f"Fitted on {len(kept):,} of {total:,} records with an outcome. Left out: {forgotten:,} whose input was"
        f" forgotten, {unusable:,} whose input the model does not take, {strange:,} with a label that it does not have,"
        f" {not_drawn:,} that were not drawn for a label or are not reviewed yet."
    ]
    weights, missing = None, None
    if not every_outcome_known:
        weights, missing = _weights(database, model, kept, since, until)
        remarks.append(
            f"{missing:.1%} of the records that were drawn for a label have no usable outcome; within the answered and"
            " within the held ones, others of about the same confidence stand for them."
        )
    return LabelledTraffic(
        rows=LabelledFile(
            path=Path("traffic"),
            sha256=_fingerprint(kept),
            inputs=[record.input for record in kept],
            labels=[record.outcome for record in kept if record.outcome is not None],
            groups=[record.group for record in kept],
            clusters=[record.cluster for record in kept],
            said=[record.said for record in kept],
        ),
        weights=weights,
        facts={
            "file": "traffic",
            "since": kept[0].created_at.isoformat(),
            "until": kept[-1].created_at.isoformat(),
            "every_outcome_known": every_outcome_known,
            "outcomes_count_by": rule_in_words(precedence),
            "left_out": {
                "forgotten": forgotten,
                "unusable": unusable,
                "strange_label": strange,
                "not_drawn": not_drawn,
            },
            "share_missing": missing,
        },
        remarks=remarks,
        among="whose outcome names labels of the model alone" if strange else "",
    )


def _reviewed(database: Database, page: Sequence[LoggedRow]) -> list[LoggedRow]:
    """The records of a page that were drawn for a review, and have one."""
    with database.transaction() as connection:
        drawn = reviewed_among(connection, [record.id for record in page])
    return [record for record in page if record.id in drawn]


def _check_drawn(model: str, shares: Sequence[DrawnShare]) -> None:
    """Refuse a range in which a part of the traffic had no chance of a label."""
    n, never = sum(share.n for share in shares), sum(share.never for share in shares)
    if never <= FEW * n:
        return
    words = " and ".join(f"{share.never:,} of {share.n:,} {_kind(share.action)}" for share in shares if share.never)
    why = f"{words} records of {model!r} in this range had no chance of being labelled when they were decided"
    if all(share.never == share.n for share in shares if share.never):
        raise OnlyHeldLabelled(
            f"only held cases are labelled: {why}; set `spot_check` for the model, so that some are labelled by chance,"
            " or pass --every-outcome-known if outcomes come for every record"
        )
    last = max(share.last_never for share in shares if share.last_never) + timedelta(seconds=1)
    raise OnlyHeldLabelled(
        f"{why}; begin the range after the last of them, --since {last.isoformat(timespec='seconds')}, or pass"
        " --every-outcome-known if outcomes come for every record"
    )


def _weights(
    database: Database, model: str, kept: Sequence[LoggedRow], since: datetime | None, until: datetime | None
) -> tuple[Array | None, float]:
    """Return how many records each row stands for, None where all stand for as many, and the share of the drawn ones
    that is missing."""
    with database.transaction() as connection:
        drawn = drawn_records(connection, model, since=since, until=until)
    known, done = {record.id: record.confidence for record in drawn}, len(kept)
    ids = {record.id for record in kept}
    missing = [record for record in drawn if record.id not in ids]
    actions = [*(record.action for record in kept), *(record.action for record in missing)]
    confidence = [*(known.get(record.id) for record in kept), *(record.confidence for record in missing)]
    completed = np.arange(len(actions)) < done
    chance = np.ones(len(actions))
    chance[:done] = [record.label_probability for record in kept]
    everyone = np.ones(len(actions), dtype=bool)
    strata = strata_where_reviews_differ(confidence, everyone, completed, actions)
    found = completion_weights(everyone, completed, chance, strata)
    if found.refused:
        kinds = " and ".join(_kind(str(action)) for action in dict.fromkeys(found.refused))
        raise OutcomesOverdue(
            f"none of the {kinds} records of {model!r} in this range that were drawn for a label has a usable outcome;"
            " end the range earlier with --until, or wait for the reviews"
        )
    weights = found.weights[:done]
    return (None if weights.max() <= weights.min() * (1 + 1e-9) else weights), found.share_missing


def _kind(action: str) -> str:
    return {"answer": "answered", "review": "held", "abstain": "abstained"}.get(action, action)


def _fingerprint(records: Sequence[LoggedRow]) -> str:
    """SHA-256 of the ids and labels, in order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps([str(record.id), record.outcome], ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()
