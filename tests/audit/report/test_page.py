"""The page of a report says what its document says, whatever that holds, and whoever wrote the names in it."""

import copy
import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur.audit.ledger.ledger import CodedColumn, Ledger, Mentions, TopColumns
from demur.audit.report import plots
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.glossary import metric
from demur.audit.report.judgement import PromiseVerdict
from demur.audit.report.page import page
from demur.audit.report.plan import Settings
from demur.audit.report.quantities import promised, quantity, span, told
from demur.policies.promise import ANSWERS_WRONG
from tests.audit.report.simulated import simulated

EVIL = '<script>alert("x")</script>&amp;'
LONG = "n" * 300
FAST = Settings(replicates=200)

SECTIONS = (
    "verdict", "promises", "correction", "risk", "calibration", "scores", "agreement", "holding", "sets", "parts",
    "time", "labels", "method", "metrics", "again",
)  # fmt: skip
PICTURES = ("target", "risk-coverage", "rejection", "reliability-before", "reliability-after", "scores", "time")


class Outline(HTMLParser):
    """What is in a page: ids, tags, and words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.references += [given[key] or "" for key in ("href", "src", "xlink:href") if key in given]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def document(ledger: Ledger, **asked: Any) -> dict[str, Any]:
    made = audit(
        ledger, AuditSettings(**{"settings": FAST, "command": "demur audit c.yaml", "version": "9.9", **asked})
    )
    return json.loads(made.as_json())  # as it is read again, years later


@pytest.fixture(scope="module")
def traffic() -> Ledger:
    return simulated(6_000, np.random.default_rng(0), spot_check=0.1).ledger


@pytest.fixture(scope="module")
def usual(traffic: Ledger) -> dict[str, Any]:
    return document(traffic, max_risk=0.2)


@pytest.fixture(scope="module")
def html(usual: dict[str, Any]) -> str:
    return page(usual)


def test_every_part_is_there(html: str) -> None:
    found = Outline(html)
    assert set(SECTIONS) <= set(found.ids)
    assert {f"{name}-title" for name in PICTURES} <= set(found.ids)
    assert {at[1:] for at in found.references if at.startswith("#")} <= set(found.ids)
    assert "demur audit c.yaml" in found.text
    assert "2026-11-09T00:00:00+00:00" in found.text


def test_ids_occur_once(html: str) -> None:
    ids = Outline(html).ids
    assert len(ids) == len(set(ids))


def test_the_page_needs_nothing_else(html: str) -> None:
    found = Outline(html)
    assert "script" not in found.tags
    assert not {"link", "img", "iframe", "object"} & set(found.tags)
    assert all(at.startswith("#") for at in found.references)
    assert not re.search(r"url\((?!#)|@import", html)
    assert len(html.encode()) < 1_500_000


@pytest.mark.slow
def test_the_same_document_is_the_same_page(usual: dict[str, Any], html: str) -> None:
    assert page(copy.deepcopy(usual)) == html


@pytest.mark.parametrize("verdict", list(PromiseVerdict))
def test_verdict_in_words(verdict: PromiseVerdict) -> None:
    text = Outline(page({"headline": {"verdict": verdict.value}})).text
    words = {"kept": "The promise was kept", "broken": "The promise was broken"}.get(verdict.value, verdict.value)
    assert words.lower() in text.lower()
    others = {one.value for one in PromiseVerdict} - {verdict.value}
    heading = re.search(r'id="verdict-words">(.*?)<', page({"headline": {"verdict": verdict.value}}))
    assert heading
    assert not any(one in heading[1].lower() for one in others)


def test_numbers_of_the_first_screen(usual: dict[str, Any], html: str) -> None:
    first = html[: html.index('id="promises"')]
    risk = next(one for one in usual["estimates"] if one["name"] == "selective_risk")
    shown = told(risk, "share", target=0.2, least=2)
    assert shown.value in first
    assert f"95% interval: {shown.interval}" in first
    assert f"{risk['labelled']:,}" in first
    assert "promised: at most 20%" in first
    assert "1 Nov 2026" in first


def test_artifacts_in_order_of_time(usual: dict[str, Any], html: str) -> None:
    in_force = usual["records"]["in_force"]
    assert [one["artifact"] for one in in_force] == ["m-1", "m-2"]
    assert in_force[0]["last"] < in_force[1]["first"]
    assert {one["artifact"]: one["n"] for one in in_force} == usual["records"]["artifacts"]
    assert "1 changes of artifact" in html


def test_naive_stands_beside_corrected(usual: dict[str, Any], html: str) -> None:
    risk = next(one for one in usual["estimates"] if one["name"] == "risk")
    shown = told(risk, "share")
    assert risk["naive"] > 1.5 * risk["value"]
    row = re.search(
        rf"<tr>(?:(?!</tr>).)*{re.escape(shown.value)}(?:(?!</tr>).)*{re.escape(shown.naive)}.*?</tr>", html
    )
    assert row
    assert shown.interval in row[0]


def test_few_labels_are_no_number() -> None:
    made = document(simulated(300, np.random.default_rng(0)).ledger, max_risk=0.3)
    found = Outline(page(made))
    risk = next(one for one in made["estimates"] if one["name"] == "selective_risk")
    assert risk["value"] is None
    assert "Not enough evidence" in found.text
    assert f"too few labels ({risk['labelled']} labels)" in found.text
    assert "there are too few labels to draw the curve" in found.text
    assert {cell["name"] for cell in made["breakdowns"][0]["cells"]} <= set(" ".join(found.words).split())
    assert set(SECTIONS) - {"agreement"} <= set(found.ids)


@pytest.mark.slow
def test_what_nobody_reviewed_is_refused() -> None:
    made = document(simulated(2_000, np.random.default_rng(0), reviewed_share=0.0).ledger, max_risk=0.08)
    text = Outline(page(made)).text
    assert "Read with this in mind" in text
    assert "refused: nothing is reviewed" in text
    assert "0.0% to 100.0%" in text  # the bounds that assume nothing


@pytest.mark.slow
def test_missing_labels_are_told() -> None:
    made = document(simulated(3_000, np.random.default_rng(0), reviewed_share=0.6).ledger, max_risk=0.08)
    text = Outline(page(made)).text
    assert f"{quantity(made['labels']['share_missing'], 'share')} of the labels" in text


@pytest.mark.slow
def test_all_known() -> None:
    made = document(simulated(2_000, np.random.default_rng(0), all_known=True).ledger, max_risk=0.2)
    text = Outline(page(made)).text
    assert "nothing had to be corrected" in text
    assert "Read with this in mind" not in text


@pytest.mark.slow
def test_outcomes_that_are_said_to_be_known_and_are_not() -> None:
    ledger = simulated(1_000, np.random.default_rng(0)).ledger
    made = document(ledger, settings=replace(FAST, every_outcome_known=True), max_risk=0.2)
    without = made["records"]["n"] - made["labels"]["known"]
    assert 0 < without < 1_000
    text = Outline(page(made)).text
    assert f"{without} of 1,000 predictions have no outcome, although this audit was told" in text
    assert "Every prediction of the range has a label" not in text


@pytest.mark.slow
def test_where_nothing_is_wrong_there_are_pictures_all_the_same() -> None:
    flawless = simulated(400, np.random.default_rng(1), spot_check=0.5).ledger
    flawless = replace(flawless, quality=np.where(flawless.known, 1.0, np.nan))
    html = page(document(flawless, max_risk=0.1))
    assert html.count("<svg role") > 5


@pytest.mark.slow
def test_what_is_written_by_others_stays_text(traffic: Ledger) -> None:
    led = replace(
        traffic,
        extent=replace(traffic.extent, model=EVIL),
        groups=replace(traffic.groups, names=(EVIL, LONG, "z")),
        artifacts=replace(traffic.artifacts, names=(EVIL, LONG)),
        sources=replace(traffic.sources, names=(EVIL,)),
        scores={EVIL: traffic.scores["entropy"], LONG: traffic.scores["softmax_response"]},
        predicted=CodedColumn(names=(EVIL, LONG, *"23456789"), codes=traffic.predicted.codes),
        true=CodedColumn(names=(EVIL, LONG, *"23456789"), codes=traffic.true.codes),
    )
    html = page(document(led, max_risk=0.2, command=EVIL, version=EVIL))
    found = Outline(html)
    assert "script" not in found.tags
    assert EVIL in "".join(found.words)
    assert LONG in found.text
    ids = found.ids
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_label_sets(traffic: Ledger) -> None:
    rng = np.random.default_rng(1)
    known = ~np.isnan(traffic.quality)
    probabilities = np.sort(rng.beta(1, 2, (len(traffic), 5)), axis=1)[:, ::-1]
    hits = np.where(known[:, None], rng.random(probabilities.shape) < probabilities, np.nan)
    rows = np.flatnonzero(known)
    led = replace(
        traffic,
        predicted=None,
        true=None,
        true_probability=None,
        top=TopColumns(
            probabilities=probabilities, calibrated=probabilities**1.2, hits=hits, right=np.nansum(hits, axis=1)
        ),
        mentions=Mentions(
            rows=rows,
            labels=CodedColumn(names=("a", "b"), codes=rng.integers(0, 2, len(rows)).astype(np.int32)),
            predicted=rng.random(len(rows)) < 0.7,
            right=rng.random(len(rows)) < 0.6,
            probability=rng.random(len(rows)),
        ),
    )
    found = Outline(page(document(led, max_risk=0.2)))
    assert "ECE@5" in found.text
    assert "precision@3" in found.text
    assert {"reliability-before-5-title", "reliability-after-5-title"} <= set(found.ids)


def test_artifacts_that_promised_different_things() -> None:
    risk = {"value": 0.1, "lower": 0.05, "upper": 0.2, "naive": 0.1, "evidence": "sufficient"}
    judged = [
        {"share": ANSWERS_WRONG, "target": aim, "part": name, "artifacts": [name], "verdict": "kept", "estimate": risk}
        for name, aim in (("m-1", 0.25), ("m-2", 0.04))
    ]
    cells = [{"name": name, "n": 10, "selective_risk": risk} for name in ("m-1", "m-2", "m-3")]
    made = {"headline": {"judgements": judged}, "breakdowns": [{"by": "artifact", "cells": cells}]}
    text = Outline(page(made)).text
    assert "at or below 25%" in text
    assert "above 4%" in text
    assert text.count("not known") == 1
    assert "2 promises were judged" in text


def _without(value: Any, keep: float, rng: np.random.Generator) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, keep, rng) for key, one in value.items() if rng.random() < keep}
    if isinstance(value, list):
        return [_without(one, keep, rng) for one in value]
    return value if rng.random() < keep else None


@pytest.mark.parametrize("made", [{}, {"format": "demur-audit/7"}, {"estimates": [{"name": "later", "value": 0.5}]}])
def test_a_document_may_lack_anything(made: dict[str, Any]) -> None:
    found = Outline(page(made))
    assert "No verdict" in found.text
    assert ("0.500" in found.text) == ("estimates" in made)


@pytest.mark.slow
def test_a_document_may_lack_anything_anywhere(usual: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    for keep in (0.99, 0.95, 0.9, 0.8, 0.5) * 2:
        assert page(_without(usual, keep, rng))
    assert page({**usual, "news": {"a": [1]}})


@pytest.mark.parametrize(
    ("found", "unit", "target", "value", "interval"),
    [
        ({"value": 0.0446, "lower": 0.0216, "upper": 0.0806}, "share", None, "4.5%", "2.2% to 8.1%"),
        ({"value": 0.0446, "lower": 0.0216, "upper": 0.0803}, "share", 0.08, "4.46%", "2.16% to 8.03%"),
        ({"value": 0.06030, "lower": 0.05972, "upper": 0.06089}, "share", None, "6.03%", "5.97% to 6.09%"),
        ({"value": 0.0257, "lower": -0.0098, "upper": 0.0436}, "number", None, "0.026", "−0.010 to 0.044"),
        ({"value": 0.0003}, "share", None, "0.030%", ""),
        ({"value": -0.00001, "lower": -0.1, "upper": 0.1}, "number", None, "0.00", "−0.10 to 0.10"),
        ({"value": 1.0}, "share", None, "100.0%", ""),
        ({"value": None}, "share", None, "", ""),
        ({"value": "0.5", "lower": True}, "share", None, "", ""),
    ],
)
def test_digits(found: dict[str, Any], unit: str, target: float | None, value: str, interval: str) -> None:
    shown = told(found, unit, target=target)
    assert (shown.value, shown.interval) == (value, interval)


@pytest.mark.parametrize(
    ("found", "lack"),
    [
        ({"value": None, "evidence": "none", "labelled": 0}, "insufficient evidence: no label that was drawn"),
        ({"value": None, "evidence": "insufficient", "labelled": 1}, "insufficient evidence: too few labels (1 label)"),
        ({"value": 0.1, "evidence": "exact_only"}, "no interval: too few errors, or too few others"),
        ({"value": 0.1, "evidence": "sufficient"}, ""),
        ({"value": None, "evidence": "sufficient"}, "undefined here"),
        ({}, "not in this document"),
        (None, "not in this document"),
    ],
)
def test_why_there_is_no_number(found: Any, lack: str) -> None:
    assert told(found, "share").lack == lack


def test_words() -> None:
    assert promised(0.08) == "8%"
    assert promised(0.125) == "12.5%"
    assert span("2026-11-01T00:00:00+00:00", "2026-11-08T00:00:00+00:00") == "7 days"
    assert span("2026-11-01T00:00:00", "2026-11-01T00:30:00") == "30 minutes"
    assert metric("ece_at_3_before").short == "ECE@3, before calibration"
    assert metric("ece_plus_before").short == "ECE+"
    assert metric("of_next_year").short == "of next year"


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


AXE: dict[str, dict[str, Any] | None] = {"light": None, "dark": {"runOnly": ["color-contrast"]}}
"""In the dark the same page has other colours, and nothing else."""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_in_a_browser(usual: dict[str, Any], tmp_path: Path, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Error, sync_playwright

    names = json.loads(json.dumps(usual).replace('"softmax_response"', f'"{LONG}"').replace('"x"', f'"{LONG}"'))
    pages = {"usual": (usual, (360, 1280)), "long": (names, (360,)), "empty": ({}, (360,))}
    with sync_playwright() as playwright:
        try:
            found = next(filter(None, map(shutil.which, BROWSERS)), None)
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no browser: install chromium, or `playwright install chromium` ({error.message[:80]})")
        for name, (made, widths) in pages.items():
            file = tmp_path / f"{name}.html"
            file.write_text(page(made))
            for width in widths:
                tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
                asked: list[str] = []
                tab.on("request", lambda request, asked=asked: asked.append(request.url))
                tab.goto(file.as_uri())
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                results = Axe().run(tab, options=AXE[scheme])
                assert results.violations_count == 0, results.generate_report()
                assert "color-contrast" in {rule["id"] for rule in results.response["passes"]}  # it was looked at
                assert asked == [file.as_uri()]
                tab.close()
        browser.close()


def test_it_is_read_years_later() -> None:
    """A stored document holds texts, and no moment of the day on which it is shown."""
    made = {"as_of": datetime(2026, 11, 9, tzinfo=UTC).isoformat(), "headline": {"verdict": "kept"}}
    assert page(made) == page(json.loads(json.dumps(made)))


def test_a_rejection_curve_may_lack_its_last_point() -> None:
    points = [{"coverage": 0.5, "risk": 0.1}, {"coverage": 1.0, "risk": None}]
    perfect = [{"coverage": 0.5, "risk": 0.0}, {"coverage": 1.0, "risk": 0.1}]
    assert plots.rejection({"risk_coverage": {"points": points, "perfect": perfect}})
    nothing = [{"coverage": 1.0, "risk": None}]
    assert plots.rejection({"risk_coverage": {"points": nothing, "perfect": perfect}}) is None
