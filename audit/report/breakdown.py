"""The estimates for each part of the traffic: no part is averaged away, and none is left out for being small."""

from typing import Any

import numpy as np

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.report.grounds import Counts, Estimate, over, rest_of
from demur.audit.report.plan import TOTAL
from demur.audit.report.risks import RiskEvidence, missed, risks
from demur.uncertainty.checks import Array


def breakdowns(evidence: RiskEvidence) -> list[dict[str, Any]]:
    """One entry for each way to sort records into cells that tells any apart."""
    answers, everything = risks(evidence, answered=True), risks(evidence, answered=False)
    counts = evidence.counts
    with_sets = bool(counts["set_n"][0] and counts["set_size"][0])
    lacking = missed(evidence) if with_sets else []
    gap, gap_lower, gap_upper = evidence.ratio("gap_w_citl", "gap_w")
    found, at = [], 0
    for dimension in evidence.by.dimensions:
        cells = range(at, at + len(dimension.cells))
        at += len(dimension.cells)
        if dimension.name == TOTAL or not len(cells):
            continue
        rows = [
            {
                "name": name,
                "n": int(counts["n"][cell]),
                "answered": int(counts["answered"][cell]),
                "held": int(counts["review"][cell]),
                "coverage": float(over(counts["answered"][cell], counts["n"][cell])),
                "drawn": int(counts["drawn"][cell]),
                "reviewed": int(counts["reviewed"][cell]),
                "selective_risk": _risk(answers[cell]),
                "risk": _risk(everything[cell]),
                "citl": _gap(everything[cell], gap[cell], gap_lower[cell], gap_upper[cell]),
                **(_sets(lacking[cell], counts, cell) if with_sets else {}),
            }
            for cell, name in zip(cells, dimension.cells, strict=True)
            if counts["n"][cell]
        ]
        if len(rows) > 1 or dimension.name in ("artifact", "time"):
            width = {"width_seconds": evidence.by.window.width.total_seconds()} if dimension.name == "time" else {}
            found.append({"by": dimension.name, **width, "cells": rows})
    return found


def _risk(one: Estimate) -> dict[str, Any]:
    return {
        "value": one.value,
        "lower": one.lower,
        "upper": one.upper,
        "method": one.method,
        "naive": one.naive,
        "labelled": one.grounds.labelled,
        "effective": one.grounds.effective,
        "errors": one.grounds.events,
        "evidence": one.grounds.status,
    }


def _sets(lacking: Estimate, counts: Counts, cell: int) -> dict[str, Any]:
    """The mean size of the prediction sets of a part, and the share of them that hold the right label."""
    size = float(over(counts["set_size"][cell], counts["set_n"][cell]))
    return {
        "set_size": None if np.isnan(size) else size,
        "set_coverage": {
            **_risk(lacking),
            "value": rest_of(lacking.value),
            "lower": rest_of(lacking.upper),
            "upper": rest_of(lacking.lower),
            "naive": rest_of(lacking.naive),
        },
    }


def _gap(of: Estimate, value: Array, lower: Array, upper: Array) -> dict[str, Any]:
    bounded = of.grounds.status == EvidenceStatus.SUFFICIENT
    return {
        "value": value if of.grounds.enough else None,
        "lower": lower if bounded else None,
        "upper": upper if bounded else None,
    }
