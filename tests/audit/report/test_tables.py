"""The numbers of a report as tables, its pictures as files, and where its numbers lead."""

import csv
import hashlib
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from demur.audit.drawing import Drawing, add_tips
from demur.audit.report.audit import Audit, AuditSettings, audit
from demur.audit.report.page import cases_query, page, pictures
from demur.audit.report.plan import Settings
from demur.audit.report.tables import TABLES, as_csv, figure_rows, table_rows
from tests.audit.report.simulated import simulated


@pytest.fixture(scope="module")
def made() -> Audit:
    ledger = simulated(4_000, np.random.default_rng(0), spot_check=0.2).ledger
    return audit(ledger, AuditSettings(settings=Settings(replicates=100), max_risk=0.001))


def test_every_table_has_rows_with_the_numbers_of_the_document(made):
    document = json.loads(made.as_json())
    for name in TABLES:
        rows = list(csv.DictReader(io.StringIO(as_csv(table_rows(document, name)).decode())))
        assert rows, name
    (group,) = [one for one in table_rows(document, "parts") if (one["by"], one["name"]) == ("group", "x")]
    (cell,) = [one for by in document["breakdowns"] if by["by"] == "group" for one in by["cells"] if one["name"] == "x"]
    assert group["selective_risk_value"] == cell["selective_risk"]["value"]
    assert group["n"] == cell["n"]
    assert table_rows(document, "nothing") == []


def test_every_picture_is_a_file_with_its_numbers(made):
    document = json.loads(made.as_json())
    found = pictures(document)
    assert {"target", "risk-coverage", "rejection", "scores", "time", "reliability-after"} <= set(found)
    for name in found:
        assert figure_rows(document, name), name
    svg = found["risk-coverage"].svg()
    assert ElementTree.fromstring(svg.decode().partition("\n")[2]).tag.endswith("svg")
    assert b"var(--" not in svg
    assert found["target"].png().startswith(b"\x89PNG")
    assert figure_rows(document, "nothing") == []


def test_a_text_that_looks_like_a_formula_is_a_text():
    assert b"'=1+1" in as_csv([{"name": "=1+1", "value": -0.5}])
    assert b"-0.5" in as_csv([{"name": "=1+1", "value": -0.5}])


def test_points_tell_their_values_where_a_pointer_rests(made):
    html = page(json.loads(made.as_json()))
    assert re.search(r"<g><title>answering [\d.]+%: [\d.]+% wrong</title><use ", html)
    assert re.search(r"<g><title>from \d+ Nov 2026, [\d:]+ UTC: [\d.]+% wrong, of all predictions</title><use ", html)


def test_points_that_are_not_all_drawn_have_no_values():
    def draw(figure):
        (points,) = figure.subplots().plot([0, 1, np.nan], [0, 1, 2], "o")
        add_tips(points, ["a", "b", "c"])

    assert "<title>a<" not in Drawing(name="p", title="P", height=2, draw=draw).inline()


def test_the_printed_page_names_the_document_by_its_hash(made):
    html = made.as_html()
    digest = hashlib.sha256(made.as_json().encode()).hexdigest()
    assert f"<code>{digest}</code>" in html
    running = re.search(r'@top-left \{ content: "(.*?)"; \}', html)
    assert running is not None
    assert digest[:16] in running[1]
    assert "counter(page)" in html


def test_a_name_cannot_leave_the_running_title():
    html = page({"model": 'x"; } * { color: red } </style><b>'})
    running = re.search(r'@top-left \{ content: "(.*?)"; \}', html)
    assert running is not None
    assert running[1].startswith("Audit of x\\000022\\00003b \\00007d")
    assert html.count("</style>") == 1


@pytest.mark.parametrize(
    ("by", "name", "part"),
    [
        ("", "", ""),
        ("group", "a&b <c>", "&group=a%26b+%3Cc%3E"),
        ("predicted label", "7", "&predicted=7"),
    ],
)
def test_numbers_lead_to_cases(by, name, part):
    document = {"model": "m", "since": "2026-11-01T00:00:00+00:00", "until": "2026-11-08T00:00:00+00:00"}
    whole = f"show=all&overturned=true&model=m{part}&since=2026-11-01&until=2026-11-07"
    assert cases_query(document, by, name) == whole


def test_a_window_of_time_leads_to_its_days_and_small_parts_lead_nowhere():
    document = {
        "model": "m",
        "since": "2026-11-01T00:00:00+00:00",
        "until": "2026-11-08T00:00:00+00:00",
        "breakdowns": [{"by": "time", "width_seconds": 21600, "cells": []}],
    }
    query = cases_query(document, "time", "2026-11-03T18:00:00+00:00")
    assert query == "show=all&overturned=true&model=m&since=2026-11-03&until=2026-11-03"
    assert cases_query(document, "group", "(12 others)") is None
    assert cases_query(document, "artifact", "m-1") is None


def test_a_file_has_no_link_that_leads_out_of_it(made):
    html = made.as_html()
    assert "data-cases=" in html
    assert all(at.startswith("#") for at in re.findall(r'href="([^"]*)"', html))
