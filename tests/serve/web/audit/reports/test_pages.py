"""The auditors' pages and their API, without a browser."""

import base64
import hashlib
import json
import re
from math import nan

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from demur.audit.state import reports, runs
from demur.audit.state.reports import LabelCount
from demur.audit.state.runs import MOST_ATTEMPTS
from demur.serve.web.audit import alarms
from demur.serve.web.audit.alarms import PageAlarm
from demur.serve.web.audit.app import audits_app
from demur.serve.web.review.app import console_app
from demur.traffic.database import Database
from tests.serve.web.audit.stored import DAY, MONDAY, PAGE, a_fortnight, keep, new_report, summary
from tests.serve.web.audit.traffic import config_of

PEOPLE = {"people": {"lea": {"leads": True, "adjudicates": True}, "ben": {}}}


@pytest.fixture
def visit(database):
    """Open the pages, as somebody if a name is given."""

    def visit(name="", models=("digits", "letters"), **config):
        client = TestClient(audits_app(config_of(*models, **config), database), root_path="/audit")
        if name:
            assert client.post("/audit/hello", data={"name": name}).status_code == 200
        return client

    return visit


def words(page):
    """What a page says, in one line."""
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page.text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_before_the_first_report_it_is_said_what_to_do(visit):
    page = visit().get("/audit/")
    said = words(page)
    assert said.count("There is no report yet. An audit needs records whose truth is known: review what is held") == 1
    assert "2 models: 2 never audited." in said
    assert said.count("Audit now") == 3  # one of them says to press it
    assert 'href="/review/"' in page.text
    assert "Every model is audited every 24 hours for the last 7 days" in said
    assert "<script" not in page.text


def test_the_list(visit, database):
    ids = a_fortnight(database)
    page = visit().get("/audit/")
    said = words(page)
    assert "Broken 2026-11-22 00:00 to 2026-11-29 00:00 5.0% of the answers is wrong." in said
    assert "wrong among the answered 5.00% 95%: 2.50% to 7.50%" in said
    assert "1,603 of 10,000 records" in said
    assert f"/audit/reports/{ids[-1]}/compare/{ids[-2]}" in page.text
    assert page.text.index(str(ids[-1])) < page.text.index(str(ids[-2]))
    assert str(ids[0]) not in page.text
    assert "All reports of digits" in said
    assert page.text.count('<svg role="img"') == 1
    assert "over 14 reports" in page.text
    alone = visit().get("/audit/?model=digits")
    assert all(str(id) in alone.text for id in ids)
    assert "letters" not in words(alone)
    assert "There is no such model: nobody" in words(visit().get("/audit/?model=nobody"))


def test_models_in_trouble_come_first(visit, database):
    verdicts = {"a": "kept", "b": "nothing was promised", "d": "broken", "e": "not enough evidence", "f": "broken"}
    keep(database, *(new_report(model=name, of=summary(verdict)) for name, verdict in verdicts.items()))
    page = visit(models=tuple("abcdef")).get("/audit/")
    assert "6 models: 2 broken, 1 not enough evidence, 1 kept, 1 without a promise, 1 never audited." in words(page)
    assert re.findall(r'<h2 id="model-\d+">(.*?)</h2>', page.text) == ["d", "f", "e", "a", "b"]
    assert words(page).index("Never audited There is no report yet") > words(page).index("No promise")


def test_the_page_for_the_board_is_drawn_from_the_document(visit, database):
    document = {"model": "digits", "headline": {"verdict": "kept"}, "records": {"n": 5}}
    (id,) = keep(database, new_report(document=json.dumps(document)))
    shown = visit().get(f"/audit/reports/{id}/board")
    assert "The promise was kept" in words(shown)
    assert f'<a href="/audit/reports/{id}">The full report</a>' in shown.text
    assert 'id="method"' not in shown.text
    assert f'href="/audit/reports/{id}/board"' in visit().get(f"/audit/reports/{id}").text
    assert f'href="/audit/reports/{id}/board"' in visit().get("/audit/").text
    assert visit().get(f"/audit/reports/{uuid7()}/board").status_code == 404


MARKED = (
    '<!doctype html><html lang="en"><head><title>t</title></head><body>'
    '<figure data-figure="target"><svg></svg></figure><div class="box" data-table="estimates"></div>'
    '<span data-cases="show=all&amp;model=digits">5 wrong</span></body></html>'
)
DOCUMENT = {
    "model": "digits",
    "headline": {"judgements": [{"statement": "at most 2% wrong", "target": 0.02, "estimate": {"value": 0.01}}]},
    "estimates": [{"name": "selective_risk", "of": "", "value": 0.01, "lower": 0.005, "upper": 0.015}],
}


def test_pictures_and_tables_are_files(visit, database):
    (id,) = keep(database, new_report(html=MARKED, document=json.dumps(DOCUMENT)))
    client, at = visit(), f"/audit/reports/{id}"
    shown = client.get(at).text
    types = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv; charset=utf-8"}
    for kind, media_type in types.items():
        assert f'<a href="{at}/figures/target.{kind}">{kind.upper()}</a>' in shown
        file = client.get(f"{at}/figures/target.{kind}")
        assert (file.status_code, file.headers["content-type"]) == (200, media_type)
        assert file.headers["content-disposition"].endswith(f'-target.{kind}"')
    assert f'<a href="{at}/tables/estimates.csv">CSV</a>' in shown
    assert client.get(f"{at}/tables/estimates.csv").text.startswith("name,of,in_full,value,lower,upper,")
    for missing in ("tables/nothing.csv", "tables/parts.csv", "figures/nothing.svg", "figures/target.exe"):
        assert client.get(f"{at}/{missing}").status_code == 404
    assert client.get(f"{at}/report.html").text == MARKED


def test_numbers_lead_to_cases_for_whoever_may_see_them(visit, database):
    (id,) = keep(database, new_report(html=MARKED))
    linked = '<a href="/review/?show=all&amp;model=digits">5 wrong</a>'
    assert linked in visit().get(f"/audit/reports/{id}").text
    assert linked in visit("ben", review=PEOPLE).get(f"/audit/reports/{id}").text
    elsewhere = {"people": {**PEOPLE["people"], "zoe": {"models": ["letters"]}}}
    assert linked not in visit("zoe", review=elsewhere).get(f"/audit/reports/{id}").text
    assert linked not in visit("nobody", review=PEOPLE).get(f"/audit/reports/{id}").text


def test_reports_of_a_model_that_is_no_longer_served_stay(visit, database):
    keep(database, new_report(model="gone"))
    page = visit().get("/audit/")
    assert "gone" in words(page)
    assert 'value="gone"' not in page.text  # no audit of it can be asked for


def test_pages_of_a_long_list(visit, database):
    ids = keep(database, *(new_report(MONDAY + at * DAY) for at in range(52)))
    first, second = (visit().get(f"/audit/?model=digits&page_number={n}") for n in (1, 2))
    assert str(ids[1]) not in first.text
    assert "older →" in first.text
    assert str(ids[1]) in second.text
    assert "← newer" in second.text


def test_a_report_as_it_is_under_a_bar(visit, database):
    first, second = keep(database, new_report(), new_report(MONDAY + DAY, made_by="<b>eve</b>"))
    shown = visit().get(f"/audit/reports/{second}")
    assert '<body class="report">\n<nav class="demur-bar"' in shown.text
    assert f"/audit/reports/{second}/compare" in shown.text
    assert "made by &lt;b&gt;eve&lt;/b&gt;" in shown.text
    assert "report.parquet" not in shown.text
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    (script,) = re.findall(r"<script>(.*?)</script>", shown.text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.endswith(f"script-src 'sha256-{digest}'")  # the button that prints, and nothing else
    assert "Compared with" not in visit().get(f"/audit/reports/{first}").text
    assert visit().get(f"/audit/reports/{second}/report.html").text == PAGE


def test_downloads(visit, database, tmp_path):
    rows = tmp_path / "rows.parquet"
    rows.write_bytes(b"PAR1" * 700_000)
    kept, lost, without = keep(
        database,
        new_report(rows_at=str(rows)),
        new_report(rows_at=str(tmp_path / "gone.parquet")),
        new_report(),
    )
    client = visit()
    numbers = client.get(f"/audit/reports/{kept}/report.json")
    assert numbers.text == '{"model": "digits", "value":  1.50, "none": null}'  # as it was made, byte for byte
    assert numbers.headers["content-disposition"] == 'attachment; filename="digits-20261116T000000Z.json"'
    assert client.get(f"/audit/reports/{kept}/report.parquet").content == rows.read_bytes()
    assert "Parquet" in client.get(f"/audit/reports/{kept}").text
    assert "no longer there" in client.get(f"/audit/reports/{lost}/report.parquet").text
    missing = client.get(f"/audit/reports/{without}/report.parquet")
    assert missing.status_code == 404
    assert "were not kept" in missing.text


def test_what_changed(visit, database):
    then, now = keep(
        database,
        new_report(),
        new_report(
            MONDAY + DAY,
            of=summary(
                "broken",
                0.05,
                max_risk=nan,
                artifacts={"digits-new": 5000},
                labels=[LabelCount(name="answered", records=5000, labelled=50)],
            ),
        ),
    )
    client = visit()
    page = client.get(f"/audit/reports/{now}/compare")
    assert page.url.path == f"/audit/reports/{now}/compare/{then}"
    said = words(page)
    assert "The verdict changed: from kept to broken . What was promised" in said
    assert "What was promised changed , from 2.0% to – wrong answers at most" in said
    assert "Both are about the same 6 d" in said
    assert "wrong among the answered 5.00% 2.50% to 7.50% 1.20% 0.60% to 1.80% +3.80 points apart: it changed" in said
    assert "calibration error 0.031 0.020 to 0.050 0.031 0.020 to 0.050 +0.000 overlap" in said
    assert "truth known of the held – 96.1% 1,432 of 1,490 –" in said
    assert "digits-new 5,000 0 new" in said
    assert "digits-5f2c9a1b3d4e6f70 0 10,000 no longer there" in said
    assert words(client.get(f"/audit/reports/{then}/compare/{now}")) == said  # whichever is named first
    assert client.get(f"/audit/reports/{now}/compare?other={then}").url == page.url
    assert client.get(f"/audit/reports/{now}/compare?other=nonsense").status_code == 422
    assert "there is none before it" in words(client.get(f"/audit/reports/{then}/compare"))


def test_reports_of_two_models_are_not_compared(visit, database):
    one, two = keep(database, new_report(), new_report(model="letters"))
    page = visit().get(f"/audit/reports/{one}/compare/{two}")
    assert page.status_code == 422
    assert "choose two of one model" in words(page)


def test_audit_now_needs_a_name_and_is_asked_for_once(visit, database):
    stranger = visit()
    asked = stranger.post("/audit/audits", data={"model": "digits", "days": "30"})
    assert "Who asks for it?" in asked.text
    ada = visit("ada")
    for _ in range(2):
        page = ada.post("/audit/audits", data={"model": "digits", "days": "30"})
    assert page.url.path == "/audit/"
    said = words(page)
    assert said.count("Waiting:") == 1
    assert "asked for by ada" in said
    assert "audits.js" in page.text  # only while there is something to wait for
    with database.transaction() as connection:
        run = runs.take(connection, lease_seconds=60)
        assert (run.until - run.since) == 30 * DAY
        runs.keep(connection, run, stage="reading", share=0.4, lease_seconds=60)
    said = words(ada.get("/audit/"))
    assert "Being made:" in said
    assert "reading 40%" in said


def test_only_leads_ask_where_people_are_named(visit):
    data = {"model": "digits", "days": "7"}
    assert visit("lea", review=PEOPLE).post("/audit/audits", data=data).status_code == 200
    refused = visit("ben", review=PEOPLE).post("/audit/audits", data=data)
    assert refused.status_code == 403
    assert "Only those who lead reviews" in words(refused)
    by_machine = visit(review=PEOPLE).post(
        "/audit/v1/audits",
        headers={"X-Demur-Reviewer": "ben"},
        json={"model": "digits", "since": "2026-01-01T00:00:00Z"},
    )
    assert by_machine.json()["error"]["kind"] == "NotYours"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"model": "nobody", "days": "7"}, "There is no model &#39;nobody&#39;"),
        ({"model": "digits", "days": "1e9"}, "Days: choose one of: 1, 7, 30, 90"),
    ],
)
def test_what_cannot_be_audited(visit, data, said):
    refused = visit("ada").post("/audit/audits", data=data)
    assert refused.status_code == 422
    assert said in refused.text or said.lower() in refused.text.lower()


def test_failures_are_shown_and_escaped(visit, database):
    with database.transaction() as connection:
        runs.ask(connection, "digits", since=MONDAY - DAY, until=MONDAY, asked_by="ada")
        runs.failed(connection, runs.take(connection, lease_seconds=60), "<script>alert(1)</script>")
    page = visit().get("/audit/")
    assert "1 attempt failed:" in words(page)
    assert "It is tried again in" in words(page)
    assert "&lt;script&gt;alert(1)" in page.text
    with database.transaction() as connection:
        connection.execute("update audit_runs set status = 'failed', attempts = %s", (MOST_ATTEMPTS,))
    assert f"Failed {MOST_ATTEMPTS} times, and given up:" in words(visit().get("/audit/"))


def test_what_comes_from_outside_is_escaped_everywhere(visit, database):
    evil = "<img src=x onerror=alert(1)>"
    one, two = keep(
        database,
        new_report(model="digits", made_by=evil, of=summary(evil, why=evil, artifacts={evil: 3})),
        new_report(MONDAY + DAY, made_by=evil, of=summary(evil, why=evil, artifacts={evil: 3})),
    )
    client = visit()
    for path in ("/audit/", f"/audit/reports/{two}", f"/audit/reports/{two}/compare/{one}"):
        assert "<img" not in client.get(path).text


def test_alarms_stand_above_every_page(visit, database, monkeypatch):
    alarm = PageAlarm(model="digits", words="The <b>risk</b> is above 2%.", since=MONDAY, path="/monitors/digits")
    monkeypatch.setattr(alarms, "SOURCES", (lambda _: [alarm],))
    one, two = keep(database, new_report(), new_report(MONDAY + DAY))
    for path in ("/audit/", f"/audit/reports/{two}/compare/{one}"):
        page = visit().get(path)
        assert "An alarm is on" in words(page)
        assert "The &lt;b&gt;risk&lt;/b&gt; is above 2%." in page.text
        assert 'href="/audit/monitors/digits"' in page.text


def test_trouble_is_told_on_a_page_or_as_json(visit):
    client = visit()
    missing = client.get(f"/audit/reports/{uuid7()}")
    assert missing.status_code == 404
    assert "There is no report" in words(missing)
    assert client.get("/audit/nowhere").status_code == 404
    assert client.get("/audit/?model=%00").status_code == 422
    for path, kind in ((f"reports/{uuid7()}", "ReportNotFound"), ("reports?limit=0", "InvalidRequest")):
        assert client.get(f"/audit/v1/{path}").json()["error"]["kind"] == kind


def test_without_the_database(visit, database):
    away = Database("postgresql://nobody@127.0.0.1:1/x", patience_seconds=0.1)
    client = TestClient(audits_app(config_of("digits"), away), root_path="/audit", raise_server_exceptions=False)
    page = client.get("/audit/")
    assert page.status_code == 503
    assert "does not answer" in words(page)
    assert client.get("/audit/metrics").status_code == 503
    away.close()


def test_the_api(visit, database):
    ids = a_fortnight(database)
    client = visit()
    listed = client.get("/audit/v1/reports?model=digits&limit=3").json()
    assert [one["id"] for one in listed["reports"]] == [str(id) for id in ids[:-4:-1]]
    assert listed["more"]
    assert client.get("/audit/v1/reports?model=letters").json() == {"reports": [], "more": False}
    full = client.get(f"/audit/v1/reports/{ids[-1]}").json()
    assert full["verdict"] == "broken"
    assert full["document"] == {"model": "digits", "value": 1.5, "none": None}
    assert full["figures"][1] == {
        "name": "coverage",
        "words": "answered",
        "value": 0.851,
        "low": None,
        "high": None,
        "share": True,
    }
    found = client.get(f"/audit/v1/reports/{ids[-1]}/comparison").json()
    assert found["then"] == str(ids[-2])
    assert found["figures"][0]["intervals"] == "overlap"
    far = client.get(f"/audit/v1/reports/{ids[-1]}/comparison?other={ids[0]}").json()
    assert far["figures"][0]["intervals"] == "apart"
    assert client.get(f"/audit/v1/reports/{ids[0]}/comparison").status_code == 404


def test_asking_through_the_api(visit):
    client = visit()
    body = {"model": "digits", "since": "2026-01-01T00:00:00Z"}
    assert client.post("/audit/v1/audits", json=body).json()["error"]["kind"] == "NoReviewer"
    named = {"X-Demur-Reviewer": "ci"}
    asked = client.post("/audit/v1/audits", json=body, headers=named)
    assert asked.status_code == 202
    run = asked.json()
    assert (run["asked_by"], run["status"], run["report"]) == ("ci", "waiting", None)
    assert client.get(f"/audit/v1/audits/{run['id']}").json() == run
    assert client.get("/audit/v1/audits").json() == {"runs": [run]}
    assert client.get(f"/audit/v1/audits/{uuid7()}").status_code == 404
    other = {**body, "since": "2026-02-01T00:00:00Z", "until": "2026-02-02T00:00:00Z"}
    its = client.post("/audit/v1/audits", json=other, headers=named).json()
    assert (its["since"], its["until"]) == ("2026-02-01T00:00:00+00:00", "2026-02-02T00:00:00+00:00")
    assert client.post("/audit/v1/audits", json=other, headers=named).json()["id"] == its["id"]
    for day in range(2, 20):
        more = {**other, "until": f"2026-02-{day + 1:02}T00:00:00Z"}
        assert client.post("/audit/v1/audits", json=more, headers=named).status_code == 202
    refused = client.post("/audit/v1/audits", json=body, headers=named)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "TooManyAsked")
    for wrong in ({**body, "since": "2099-01-01T00:00:00Z"}, {**body, "model": "nobody"}, {"model": "digits"}):
        assert client.post("/audit/v1/audits", json=wrong, headers=named).status_code == 422
    assert client.post("/audit/v1/audits", content=b"{", headers=named).status_code == 400


def test_what_the_api_gives_fits_its_document(visit, database):
    first, second = keep(database, new_report(of=summary(max_risk=nan)), new_report(MONDAY + DAY))
    client = visit()
    body = {"model": "digits", "since": "2026-01-01T00:00:00Z"}
    client.post("/audit/v1/audits", json=body, headers={"X-Demur-Reviewer": "ci"})
    document = client.get("/audit/openapi.json").json()
    assert "AuditRequest" in document["components"]["schemas"]
    for path, schema in (
        ("reports", "ReportList"),
        (f"reports/{first}", "FullReport"),
        (f"reports/{second}/comparison", "ComparisonView"),
        ("audits", "RunList"),
    ):
        checker = Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **document})
        checker.validate(json.loads(client.get(f"/audit/v1/{path}").text))
    assert client.get("/audit/docs").status_code == 200


def test_what_prometheus_is_told(visit, database):
    keep(database, new_report(of=summary("broken", 0.05)))
    with database.transaction() as connection:
        runs.ask(connection, "letters", since=MONDAY - DAY, until=MONDAY, asked_by="ada")
        runs.failed(connection, runs.take(connection, lease_seconds=60), "a fault")
    told = {
        (sample.name.removeprefix("demur_audit_"), *(v for _, v in sorted(sample.labels.items(), reverse=True))): (
            sample.value
        )
        for family in text_string_to_metric_families(visit().get("/audit/metrics").text)
        for sample in family.samples
    }
    assert told["verdict", "broken", "digits"] == 1
    assert told["verdict", "kept", "digits"] == told["verdict", "kept", "letters"] == 0
    assert [told["risk_ratio", "digits", bound] for bound in ("lower", "estimate", "upper")] == pytest.approx(
        [0.025, 0.05, 0.075]
    )
    assert told["max_risk_ratio", "digits"] == 0.02
    assert told["report_age_seconds", "digits"] > 0
    assert told["report_age_seconds", "letters"] != told["report_age_seconds", "letters"]  # NaN
    assert (told["failed_attempts", "digits"], told["failed_attempts", "letters"]) == (0, 1)


def test_reviews_lead_to_audits_and_back(visit, database):
    review = TestClient(console_app(config_of("digits"), database), root_path="/review")
    assert 'href="/audit/"' in review.get("/review/").text
    assert 'href="/review/"' in visit().get("/audit/").text


def test_what_is_stored_is_gone_when_its_time_is_up(visit, database):
    (id,) = keep(database, new_report())
    with database.transaction() as connection:
        connection.execute("update audit_reports set made_at = made_at - interval '3 years'")
        reports.forget(connection, keep_days=730)
    assert "deleted when its time was up" in words(visit().get(f"/audit/reports/{id}"))


def test_a_moment_before_all_times_is_no_range(visit):
    body = {"model": "digits", "since": "0001-01-01T00:00:00+14:00"}
    refused = visit().post("/audit/v1/audits", json=body, headers={"X-Demur-Reviewer": "ada"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "since: choose a moment after 1900")
