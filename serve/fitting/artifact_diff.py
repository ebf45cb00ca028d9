"""Two artifacts of a model side by side: their settings, their data, what they promise, and their figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MOST_DEEP = 8
"""Levels of a manifest that are compared place by place; below them as a whole."""

MOST_LISTED = 12
"""Entries of a list that are shown one by one."""

LONGEST = 160
"""Characters of a value that are shown."""

SECTIONS = (("Settings", "configured"), ("Data", "data"), ("Figures", "report"))
"""Parts of a manifest, as a page calls them. Figures are those on the rows that the fit has not seen."""

DETAILS = "Figures of parts"
"""What scores, groups, labels and bins come to."""

ESTIMATE = frozenset(("value", "lower", "upper", "n", "n_boot", "level", "clipped"))
"""Keys of a figure with its interval, which is shown as one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffRow:
    """One place of the manifests."""

    key: str
    values: tuple[str, ...]
    """In the order of the manifests; what is not there is a dash."""

    differs: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSection:
    name: str
    rows: tuple[DiffRow, ...]

    @property
    def differing(self) -> list[DiffRow]:
        return [row for row in self.rows if row.differs]

    @property
    def equal(self) -> list[DiffRow]:
        return [row for row in self.rows if not row.differs]


def diff_of(manifests: Sequence[Mapping[str, Any]]) -> list[DiffSection]:
    """Return where these manifests differ and where they are equal, section by section; those in which none has
    anything are left out. Numbers are compared as they are stored, and shown with four digits."""
    found = [_section(name, [one.get(key) or {} for one in manifests]) for name, key in SECTIONS]
    main, others = _split(found.pop())
    found += [main, others]
    facts = [
        {
            "fitted on rows": one.get("n_fitted"),
            "reported on rows": one.get("n_reported"),
            "promises": [promise["statement"] for promise in one.get("promises", [])] or None,
        }
        for one in manifests
    ]
    found.insert(1, _section("Promise and rows", facts))
    return [section for section in found if section.rows]


def _split(figures: DiffSection) -> tuple[DiffSection, DiffSection]:
    """The figures of all rows together, and those of parts of them, of which there can be hundreds."""
    of_parts = [row for row in figures.rows if "." in row.key]
    main = tuple(row for row in figures.rows if "." not in row.key)
    return replace(figures, rows=main), DiffSection(name=DETAILS, rows=tuple(of_parts))


def settings_against(manifest: Mapping[str, Any], configured: Mapping[str, Any]) -> list[DiffSection]:
    """Return the settings that an artifact was fitted with, beside those that are configured now."""
    return [_section("Settings", [manifest.get("configured") or {}, configured])]


def _section(name: str, trees: Sequence[Any]) -> DiffSection:
    rows = []
    for key, values in _places("", trees, 0):
        if any(value is not None for value in values):
            same = all(value == values[0] for value in values[1:])
            rows.append(DiffRow(key=key, values=tuple(map(_shown, values)), differs=not same))
    return DiffSection(name=name, rows=tuple(rows))


def _places(key: str, trees: Sequence[Any], depth: int) -> Iterator[tuple[str, list[Any]]]:
    branches = [one for one in trees if one is not None]
    if branches and depth < MOST_DEEP and all(isinstance(one, Mapping) and not _is_estimate(one) for one in branches):
        for name in dict.fromkeys(name for one in branches for name in one):
            below = [None if one is None else one.get(name) for one in trees]
            yield from _places(f"{key}.{name}" if key else str(name), below, depth + 1)
    else:
        yield key, list(trees)


def _is_estimate(one: Mapping[str, Any]) -> bool:
    return "value" in one and one.keys() <= ESTIMATE


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        if _is_estimate(value):
            bounds = [value.get("lower"), value.get("upper")]
            interval = "" if None in bounds else f" ({_shown(bounds[0])} to {_shown(bounds[1])})"
            return f"{_shown(value['value'])}{interval}"
        named = value.get("kind") or value.get("name") or (next(iter(value)) if len(value) == 1 else None)
        return str(named or f"{len(value)} entries")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        if any(isinstance(one, list) for one in value) or len(value) > MOST_LISTED:
            return f"{len(value)} entries"
        return "; ".join(map(_shown, value)) or "none"
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
