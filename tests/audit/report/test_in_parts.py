"""The same audit of parts: every number is that of the whole."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from demur.audit.ledger.ledger import Ledger
from demur.audit.report import hashing
from demur.audit.report.audit import AuditSettings, NothingToAudit, audit
from demur.audit.report.in_parts import audit_in_parts, one_by_one
from demur.audit.report.plan import UNITS, Settings
from demur.audit.report.survey import Values
from tests.audit.report.simulated import simulated

SETTINGS = Settings(replicates=199)


def cut(ledger: Ledger, rows: slice) -> Ledger:
    coded = {name: getattr(ledger, name)[rows] for name in ("actions", "artifacts", "groups", "clusters", "sources")}
    columns = {
        name: getattr(ledger, name)[rows]
        for name in (
            "times", "true_probability", "quality", "confidence", "top_probability", "set_size", "covered",
            "right_labels", "label_probability", "drawn", "reviewed", "ids",
        )
    }  # fmt: skip
    assert ledger.predicted is not None
    assert ledger.true is not None
    return replace(
        ledger,
        **coded,
        **columns,
        predicted=ledger.predicted[rows],
        true=ledger.true[rows],
        scores={name: column[rows] for name, column in ledger.scores.items()},
    )


def apart(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two documents differ by more than the last digits."""
    if isinstance(one, dict):
        return [at for key in one.keys() | other.keys() for at in apart(one.get(key), other.get(key), f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [at for n, (a, b) in pairs for at in apart(a, b, f"{path}[{n}]")]
    if isinstance(one, float) and isinstance(other, int | float):
        return [] if abs(one - other) <= 1e-9 * max(1, abs(one)) else [path]
    return [] if one == other else [path]


@pytest.mark.slow
@pytest.mark.parametrize("edges", [(0, 700, 700, 2_900, 4_000), (0, 4_000)])
def test_every_number_is_that_of_the_whole(edges: tuple[int, ...]) -> None:
    whole = simulated(4_000, np.random.default_rng(1), reviewed_share=0.9, per_cluster=3).ledger
    parts = [cut(whole, slice(a, b)) for a, b in itertools.pairwise(edges)]
    asked = AuditSettings(settings=SETTINGS, max_risk=0.1)
    told: list[tuple[int, int]] = []
    everywhere = one_by_one(len(parts), parts.__getitem__, progress=lambda done, n: told.append((done, n)))
    assert len(whole) > UNITS  # fewer rows are resampled one by one where all are together
    found = audit_in_parts(whole.extent, everywhere, lambda seen: asked)
    assert apart(found.document, audit(whole, asked).document) == []
    assert told[-1] == (len(parts), len(parts))


@pytest.mark.slow
def test_a_frame_that_begins_late_is_that_of_the_whole() -> None:
    whole = simulated(3_000, np.random.default_rng(2)).ledger
    early = np.arange(3_000) < 1_000
    whole = replace(whole, label_probability=np.where(early, 0.0, whole.label_probability), drawn=whole.drawn & ~early)
    whole = replace(whole, reviewed=whole.reviewed & ~early)
    parts = [cut(whole, slice(0, 1_200)), cut(whole, slice(1_200, 3_000))]
    asked = AuditSettings(settings=SETTINGS)
    found = audit_in_parts(whole.extent, one_by_one(2, parts.__getitem__), lambda seen: asked)
    assert apart(found.document, audit(whole, asked).document) == []


def test_nothing_to_audit() -> None:
    whole = simulated(10, np.random.default_rng(3)).ledger
    for parts in ([], [cut(whole, slice(0, 0))]):
        with pytest.raises(NothingToAudit, match="no records of 'm'"):
            audit_in_parts(whole.extent, one_by_one(len(parts), parts.__getitem__), lambda seen: AuditSettings())


def test_a_text_has_the_number_of_fnv() -> None:
    texts = ["", "a", "foobar", "Ärztin"]
    assert hashing.of_texts(texts[:3]).tolist() == [0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8]
    assert hashing.of_texts(texts)[3] == hashing.of_texts(texts[3:])[0]
    assert len(hashing.of_texts([])) == 0


def test_values_that_were_thinned_out_say_so() -> None:
    one, other = Values.of(np.array([3.0, 1.0, np.nan, 1.0])), Values.of(np.array([2.0, 3.0]))
    both = Values.together([one, other])
    assert both.values.tolist() == [1, 2, 3]
    assert both.counts.tolist() == [2, 1, 2]
    assert not both.thin
    assert both.thinned(2).thin
    assert both.thinned(2).counts.sum() == 5
    assert Values.together([both.thinned(2), other]).thin
    assert len(Values.together([Values.of(np.empty(0)), Values.of(np.array([np.nan]))]).values) == 0
