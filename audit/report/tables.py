"""The numbers of a report as tables of plain rows: those of each table of the page, and those behind each picture."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from demur.audit.report.glossary import metric
from demur.traffic.spreadsheet import as_cell

Row = Mapping[str, Any]

NUMBERS = ("value", "lower", "upper", "method", "naive", "labelled", "effective", "events", "evidence")

TABLES = ("promises", "contributors", "estimates", "parts", "time", "reviews", "sample")
"""The tables that a report has, by the name in their addresses."""


def table_rows(document: Row, name: str) -> list[Row]:
    """Return the rows of one table, each with the same columns as the others; none of a table that is not there."""
    if name in ("parts", "time"):
        return list(_parts(document, time=name == "time"))
    if name in ("promises", "estimates"):
        return list(_promises(document) if name == "promises" else _estimates(document))
    places = {"contributors": ("why", name), "reviews": ("labels", "strata"), "sample": ("plain_sample", "findings")}
    of, key = places.get(name, ("", ""))
    return _listed((document.get(of) or {}).get(key)) if of else []


def figure_rows(document: Row, name: str) -> list[Row]:
    """Return the points of one picture; none of one that is not there."""
    curves = document.get("risk_coverage") or {}
    if name == "target":
        return list(_promises(document)) or [one for one in _estimates(document) if one["name"] == "selective_risk"]
    if name in ("risk-coverage", "rejection"):
        return [
            {"curve": curve, **point}
            for curve in ("points", "naive", "perfect")
            for point in _listed(curves.get(curve))
        ]
    if name.startswith("reliability-"):
        bins = document.get("reliability") or {}
        return _listed(bins.get(name.removeprefix("reliability-").replace("-", "@", 1)))
    if name == "scores":
        return [one for one in _estimates(document) if one["of"] and one["name"] in ("auroc", "prr")]
    return list(_parts(document, time=True)) if name == "time" else []


def as_csv(rows: Sequence[Row]) -> bytes:
    """Return rows as CSV with every column that any of them has. A text that a program could take for a formula is
    marked as text."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    out = csv.DictWriter(text, columns)
    out.writeheader()
    out.writerows(
        {key: as_cell(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows
    )
    return text.getvalue().encode()


def _promises(document: Row) -> Iterator[Row]:
    for one in _listed((document.get("headline") or {}).get("judgements")):
        found = one.get("estimate") or {}
        yield {
            "promise": one.get("statement"),
            "part": one.get("part"),
            "artifacts": " ".join(map(str, one.get("artifacts") or [])),
            "target": one.get("target"),
            "verdict": one.get("verdict"),
            "why": one.get("why"),
            "name": found.get("name"),
            **{key: found.get(key) for key in NUMBERS},
        }


def _estimates(document: Row) -> Iterator[Row]:
    for one in _listed(document.get("estimates")):
        yield {
            "name": one.get("name"),
            "of": one.get("of"),
            "in_full": metric(one.get("name")).long,
            **{key: one.get(key) for key in NUMBERS},
            "meaning": one.get("meaning"),
        }


def _parts(document: Row, *, time: bool) -> Iterator[Row]:
    for dimension in _listed(document.get("breakdowns")):
        if (dimension.get("by") == "time") == time:
            for cell in _listed(dimension.get("cells")):
                yield {"by": dimension.get("by"), **_flat(cell)}


def _flat(cell: Row) -> dict[str, Any]:
    """A part with the numbers of each estimate side by side."""
    flat: dict[str, Any] = {}
    for key, value in cell.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}_{name}": number for name, number in value.items()}
        else:
            flat[key] = value
    return flat


def _listed(value: Any) -> list[Row]:
    found: Iterable[Any] = value if isinstance(value, list | tuple) else []
    return [one for one in found if isinstance(one, Mapping)]
