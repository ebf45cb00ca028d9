"""The report as one page to read and to print: everything on it comes from the document."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup, escape

from demur.audit.drawing import Drawing
from demur.audit.report import plots, reason_words
from demur.audit.report.audit import as_json
from demur.audit.report.explanations import Explanations
from demur.audit.report.glossary import METRICS, WORDS, ks, metric
from demur.audit.report.judgement import PromiseVerdict
from demur.audit.report.quantities import (
    count,
    known,
    moment,
    percent,
    place,
    promised,
    quantity,
    round_above,
    span,
    told,
    when,
)
from demur.audit.report.subjects import subject_of
from demur.audit.report.verdict import ABOUT
from demur.audit.visible import visible
from demur.policies.promise import OF_ANSWERS

STATES = {
    "kept": ("kept", "Kept", "The promise was kept"),
    "broken": ("broken", "Broken", "The promise was broken"),
    "not enough evidence": ("undecided", "Not enough evidence", "Not enough evidence"),
    "nothing was promised": ("nothing", "No promise", "No promise"),
}
"""Of each verdict: its class, its name, and how it stands above all."""

CORRECTED = (
    ("selective_risk", ""),
    ("risk", ""),
    ("selective_risk_assisted", ""),
    ("risk_assisted", ""),
    ("caught_errors", ""),
    ("macro_f1", ""),
    ("ece", ""),
    ("brier", ""),
    ("citl", ""),
    ("auroc", "confidence"),
    ("prr", "confidence"),
    ("rc_auc", "confidence"),
)
"""What the table of the correction shows: the name, and of what."""

CALIBRATION = ("ece", "ace", "brier", "nll", "citl", "c_slope")
AT_K = ("precision", "recall", "label_risk")
RANKING = ("auroc", "au_prc", "prr", "prr_50", "rc_auc", "e_aurc")
SETS = ("set_coverage", "label_coverage", "set_size", "set_single", "set_empty")
COUNTED = ("coverage", "deferral_rate", "abstention_rate")
ON_SAMPLE = ("ti", "ti_95", "e_auopt_rc")

BREAKDOWNS = {
    "group": ("By group", "Records carry the group that their caller gave."),
    "label frequency": (
        "By how frequent the predicted label is",
        "In the data of the fit, a label of the head held for 1% or more of the rows, a medium one for 0.1%, one of the"
        " tail for 0.01%, and one of the extreme tail for fewer.",
    ),
    "predicted label": ("By predicted label", "Of all records for which the model predicted it."),
    "artifact": ("By artifact", "What was fitted, and in force when the prediction was decided."),
}
"""Of each way to sort records: a title, and what it means. The order is that of the page."""


def page(document: Mapping[str, Any]) -> str:
    """Return the report as self-contained HTML, the page for the board first. What a document lacks is said to be
    missing."""
    return _rendered(document, full=True)


def board_page(document: Mapping[str, Any], *, report_at: str = "") -> str:
    """Return the first page of a report by itself: the verdict, one picture, three numbers, why, and what now.
    `report_at` is the address of the full report, empty where there is none."""
    return _rendered(document, full=False, report_at=report_at)


def _rendered(document: Mapping[str, Any], *, full: bool, report_at: str = "") -> str:
    main = _main_judgement(document)
    explained, sha256 = Explanations(), document_hash(document)
    aim = _target(document)
    names = [str(one.get("name")) for one in _rows(document, "estimates")]
    return (
        _environment()
        .get_template("report.html")
        .render(
            d=document,
            full=full,
            report_at=report_at,
            running=_running_title(document, sha256),
            sha256=sha256,
            word=explained.word,
            named=explained.named,
            words=WORDS,
            main=main,
            subjects=_subjects(document),
            aim_of_policy=_aim_of_policy(document),
            why=_why(document),
            cases=lambda by="", name="": cases_query(document, by, name),
            state=_state((document.get("headline") or {}).get("verdict")),
            target=aim,
            answers=_answers(document, main),
            level=percent_level(document),
            found=lambda name, of="": _found(document, name, of),
            corrected=[key for key in CORRECTED if _found(document, *key)],
            calibration=[name for name in CALIBRATION if name in names or f"{name}_before" in names],
            ks=ks(names),
            of_k=lambda k: [name for name in (*AT_K, *CALIBRATION) if f"{name}_at_{k}" in names],
            ranking=RANKING,
            counted=COUNTED,
            sets=[name for name in SETS if name in names],
            score_names=_score_names(document),
            breakdowns=(parts := _breakdowns(document)),
            aimed=any(cell["aim"] is not None for *_, cells in parts for cell in cells),
            time=next((one for one in _rows(document, "breakdowns") if one.get("by") == "time"), None),
            on_sample=_on_sample(document),
            others=_others(document),
            few=_few_drawn(document),
            glossary=METRICS,
            plots=_plots(document, full=full),
        )
    )


def percent_level(document: Mapping[str, Any]) -> str:
    level = known((document.get("method") or {}).get("level"))
    return "95%" if level is None else f"{100 * level:g}%"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("demur.audit.report"),
        autoescape=True,
        finalize=visible,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, percent=percent, when=when, capitalize_first=_capitalized, with_code=_with_code
    )
    environment.globals.update(
        told=told, metric=metric, place=place, span=span, most_of=_most, state_of=_state, against=_against, tint=_tint,
        quantity=lambda value, unit, digits=None: "–" if known(value) is None else quantity(value, unit, digits),
        promised=promised,
        number=lambda value: known(value) is not None,
    )  # fmt: skip
    return environment


def _capitalized(sentence: Any) -> str:
    """A sentence that begins with a capital letter."""
    text = str(sentence or "")
    return text[:1].upper() + text[1:]


def _with_code(sentence: Any) -> Markup:
    """A sentence in which what stands between backticks is code."""
    parts = str(visible(str(sentence or ""))).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def cases_query(document: Mapping[str, Any], by: str = "", name: str = "") -> str | None:
    """The query of the list of cases for the errors of a part: of the whole with neither; None where no list has it.
    Days count as a whole there, so that the list may hold some cases more."""
    since, until = (moment(document.get(end)) for end in ("since", "until"))
    query = {"show": "all", "overturned": "true", "model": str(document.get("model") or "")}
    if by == "time":
        since = moment(name)
        width = next(
            (known(one.get("width_seconds")) for one in _rows(document, "breakdowns") if one.get("by") == by), 0
        )
        until = since and since + timedelta(seconds=width or 0)
    elif by:
        key = {"group": "group", "predicted label": "predicted"}.get(by)
        if key is None or not name or str(name).startswith("("):  # small ones, that are taken together
            return None
        query[key] = name
    if since is None or until is None:
        return None
    last = until - timedelta(seconds=1)
    return urlencode({**query, "since": f"{since:%Y-%m-%d}", "until": f"{last:%Y-%m-%d}"})


def _rows(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [one for one in document.get(key) or [] if isinstance(one, Mapping)]


def _found(document: Mapping[str, Any], name: str, of: str = "") -> Mapping[str, Any]:
    return next(
        (one for one in _rows(document, "estimates") if (one.get("name"), one.get("of") or "") == (name, of)), {}
    )


def _judgements(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _rows(document.get("headline") or {}, "judgements")


def _main_judgement(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first judgement that decides the verdict on what the policy is about; empty where it promises nothing."""
    headline = document.get("headline") or {}
    first = next(iter(_rows(headline, "subjects")), headline)
    verdict, judgements = first.get("verdict"), _judgements(document)
    if verdict == PromiseVerdict.NOTHING:
        return {}
    return next((one for one in judgements if one.get("verdict") == verdict), judgements[0] if judgements else {})


def _subjects(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What became of each thing that was promised, with the judgement that decides it; of an older document, of all."""
    headline = document.get("headline") or {}
    judgements = _judgements(document)
    state = _state(headline.get("verdict"))
    found = [
        {
            "words": one.get("words") or "No verdict",
            "says": one.get("says") or "",
            "state": _state(one.get("verdict")),
            "main": next(
                (
                    own
                    for own in judgements
                    if own.get("verdict") == one.get("verdict")
                    and subject_of(str(own.get("share")), ABOUT) == one.get("about")
                ),
                {},
            ),
        }
        for one in _rows(headline, "subjects")
    ]
    return found or [{"words": state[2], "says": "", "state": state, "main": {}}]


def _aim_of_policy(document: Mapping[str, Any]) -> float | None:
    """The share of wrong answers that the policy aims at without a promise."""
    return known(((document.get("headline") or {}).get("policy") or {}).get("aim"))


def _why(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "head": reason_words.heads_of_parts(document),
        "parts": reason_words.parts_in_words(document),
        "changes": reason_words.changes_in_words(document),
        "calibration": reason_words.calibration_in_words(document),
    }


def _answers(document: Mapping[str, Any], main: Mapping[str, Any]) -> Mapping[str, Any]:
    """The number behind the verdict: without the errors of reviewers where they are known."""
    found: Mapping[str, Any] = main.get("estimate") or _found(document, "selective_risk")
    corrected = main.get("corrected") or {}
    if known(corrected.get("value")) is None or known(found.get("value")) is None:  # too few labels for a number
        return found
    return {**found, **{key: corrected.get(key) for key in ("value", "lower", "upper")}}


def _target(document: Mapping[str, Any]) -> float | None:
    """What was promised of all answers; None where artifacts promised different things."""
    said = set(_targets(document).values())
    return said.pop() if len(said) == 1 else None


def _targets(document: Mapping[str, Any]) -> dict[str, float]:
    """What each artifact promised of its answers, by name; under an empty one what whoever asked named."""
    return {
        str(name): aim
        for one in _judgements(document)
        if one.get("share") in OF_ANSWERS and (aim := known(one.get("target"))) is not None
        for name in one.get("artifacts") or [""]
    }


def _state(verdict: Any) -> tuple[str, str, str]:
    return STATES.get(str(verdict), ("nothing", "No verdict", "No verdict"))


def _few_drawn(document: Mapping[str, Any]) -> str:
    """Return why ranking and calibration have no interval; empty where they have one."""
    notes = (str(one.get("note") or "") for one in _rows(document, "estimates"))
    note = next((one for one in notes if one.startswith("no interval")), "")
    return note[:1].upper() + note[1:]


def _score_names(document: Mapping[str, Any]) -> list[str]:
    """Best first; then those that are known of some rows alone, and any other."""
    compared = document.get("scores") or {}
    names = [str(one.get("score")) for one in _rows(compared, "best_first")]
    names += [str(name) for name in compared.get("of_some_rows") or []]
    names += [str(one["of"]) for one in _rows(document, "estimates") if one.get("name") in RANKING and one.get("of")]
    return list(dict.fromkeys(names))


def _breakdowns(document: Mapping[str, Any]) -> list[tuple[str, str, str, list[dict[str, Any]]]]:
    """How records are sorted, title, meaning and cells of each but time; a cell with what was promised of it."""
    rows = {str(one.get("by")): _rows(one, "cells") for one in _rows(document, "breakdowns") if one.get("by") != "time"}
    common, own = _target(document), _targets(document)
    found = []
    for by in (*(by for by in BREAKDOWNS if by in rows), *(by for by in rows if by not in BREAKDOWNS)):
        title, meaning = BREAKDOWNS.get(by, (f"By {by}", ""))
        cells = [
            {**cell, "aim": own.get(str(cell.get("name")), common) if by == "artifact" else common} for cell in rows[by]
        ]
        if by == "label frequency":
            cells = [{**cell, "name": str(cell.get("name")).replace("_", " ")} for cell in cells]
        found.append((by, title, meaning, cells))
    return found


def _on_sample(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was counted on a plain sample: by score and share held back, by score, and of the confidence as a whole."""
    sample = document.get("plain_sample") or {}
    findings = {(str(one.get("name")), str(one.get("of") or "")): one for one in _rows(sample, "findings")}
    rates = {int(at[1]) for name, _ in findings if (at := re.fullmatch(r"rejected_errors_(\d+)", name))}
    return {
        "n": sample.get("n"),
        "rows_are": sample.get("rows_are"),
        "rates": sorted(rates),
        "value": lambda name, of="": findings.get((name, of), {}).get("value"),
        "scores": list(dict.fromkeys(of for _, of in findings if of)),
        "metrics": [name for name in ON_SAMPLE if any(name == other for other, _ in findings)],
        "whole": [name for name in ("mce_before", "mce") if (name, "") in findings],
    }


def _others(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Estimates that no part of the page shows: those of a later version, say."""
    shown = {*(name for name, of in CORRECTED if not of), *COUNTED, *SETS, "ece_plus_before"}
    bases = {*CALIBRATION, *AT_K}
    return [
        one
        for one in _rows(document, "estimates")
        if not (
            one.get("name") in shown
            or (one.get("of") and one.get("name") in RANKING)
            or re.sub(r"(_at_\d+)?(_before)?$", "", str(one.get("name"))) in bases
        )
    ]


def _most(cells: Iterable[Mapping[str, Any]]) -> float:
    """Where the axis of a forest plot ends: above every estimate and promise, if not above every interval."""
    cells = list(cells)
    found = [one.get("selective_risk") or {} for one in cells]
    values = [known(one.get("value")) or 0.0 for one in found] + [known(one.get("aim")) or 0.0 for one in cells]
    uppers = sorted(known(one.get("upper")) or 0.0 for one in found)
    usual = uppers[int(0.9 * (len(uppers) - 1))] if uppers else 0.0
    return round_above(max([0.01, usual, *values]) * 1.05)


def _against(found: Any, target: float | None) -> str:
    """On which side of the target the whole interval lies."""
    if not isinstance(found, Mapping):
        return ""
    lower, upper = known(found.get("lower")), known(found.get("upper"))
    if target is None or lower is None or upper is None:
        return ""
    return "above" if lower > target else "within" if upper <= target else "either"


def _tint(value: Any) -> str:
    """How strongly a cell of the table of agreement is coloured, in per cent."""
    return f"{100 * min(1.0, abs(known(value) or 0.0)):.0f}%"


def document_hash(document: Mapping[str, Any]) -> str:
    """The SHA-256 of the document as it is written to a file; empty for one that cannot be written so."""
    try:
        return hashlib.sha256(as_json(document).encode()).hexdigest()
    except (TypeError, ValueError):
        return ""


def _running_title(document: Mapping[str, Any], sha256: str) -> Markup:
    """What stands on top of each printed page, as a string of CSS."""
    since, until = (when(document.get(end)) for end in ("since", "until"))
    text = f"Audit of {document.get('model') or 'a model'}, {since} to {until}"
    text += f" · document {sha256[:16]}" if sha256 else ""
    plain = "".join(c if (c.isalnum() and c.isascii()) or c in " ,.:" else f"\\{ord(c):06x}" for c in visible(text))
    return Markup(f'"{plain}"')  # noqa: S704 - nothing but letters, digits and escapes of CSS is in it


def pictures(document: Mapping[str, Any]) -> dict[str, Drawing]:
    """Return every picture of a report, by name."""
    main, aim = _main_judgement(document), _target(document)
    answers, target = _answers(document, main), known(main.get("target"))
    bins: Mapping[str, Any] = document.get("reliability") or {}
    found = {
        "target": plots.against_target(answers, target, aim=_aim_of_policy(document)),
        "risk-coverage": plots.risk_coverage(document, aim),
        "rejection": plots.rejection(document),
        "scores": plots.scores(document),
        "time": plots.time_lines(document, aim),
        **{
            _id(when): plots.reliability(rows or [], _id(when), f"Reliability: {_of_when(when)}")
            for when, rows in bins.items()
        },
    }
    return {name: picture for name, picture in found.items() if picture is not None}


def _plots(document: Mapping[str, Any], *, full: bool) -> dict[str, Any]:
    """The pictures of the page as SVG: all of them, or the one of the first page."""
    drawn = {
        name: _marked(picture.inline()) for name, picture in pictures(document).items() if full or name == "target"
    }
    bins: Mapping[str, Any] = document.get("reliability") or {}
    most = max((when.partition("@")[2].rjust(4) for when in bins), default="")
    pairs = [
        [f"{place}@{k.strip()}".rstrip("@") for place in ("before", "after")] for k in dict.fromkeys((" " * 4, most))
    ]
    reliability = [
        [(_id(when), _of_when(when), drawn[_id(when)]) for when in pair if _id(when) in drawn] for pair in pairs
    ]
    return {
        **{name.replace("-", "_"): svg for name, svg in drawn.items()},
        "reliability": [row for row in reliability if row],
    }


def _marked(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - drawn here, every name in it escaped


def _id(when: str) -> str:
    return f"reliability-{when.replace('@', '-')}"


def _of_when(when: str) -> str:
    place, _, k = when.partition("@")
    words = {"before": "before: the model’s own probability", "after": "after: the calibrated confidence"}
    return words.get(place, place) + (
        "" if not k else f", of the {k} most probable labels" if k != "1" else ", of one label"
    )
