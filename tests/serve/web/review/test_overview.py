"""The overview for those who lead reviews, without a browser: what it shows, to whom, and its numbers."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from demur.audit.opinions import LabelDisagreement, OverturnRate
from demur.review.item import ReviewerScope
from demur.review.statistics import BacklogCurve, Flow, Waits
from demur.serve.config.review import Person
from demur.serve.web.review.app import console_app
from demur.serve.web.review.overview import growth, narrowed, overview_of
from demur.serve.web.review.overview_plots import plots_of
from demur.serve.web.shared.quantities import duration, percent
from tests.review.history import History

BEGUN = {"at": datetime.now(UTC)}


@pytest.fixture(autouse=True)
def begun():
    """Times are told from the beginning of each test: many run for a while before this one."""
    BEGUN["at"] = datetime.now(UTC)


def ago(hours: float) -> datetime:
    return BEGUN["at"] - timedelta(hours=hours)


@pytest.fixture
def past(database):
    """A day of two models: nine cases, of which two are open."""
    history = History(database)
    both = {"created": ago(5), "claimed": ago(4.5), "ended": ago(4), "opinions": 2}
    history.case(**both, label="7", said=[("ada", "7", False), ("ben", "7", False)])
    history.case(**both, label="7", said=[("ada", "7", True), ("ben", "7", True)])
    history.case(**both, label="1", said=[("ada", "7", True), ("ben", "1", True), ("eva", "1", None)])
    first = history.case(created=ago(20), claimed=ago(19), ended=ago(18), label="7", said=[("ada", "7", True)])
    history.re_review(first, created=ago(18), ended=ago(2), label="1", said=[("ben", "1", False), ("eva", "1", None)])
    history.case(created=ago(6))
    history.case(created=ago(3), status="adjudication", due=ago(1))
    history.case(model="letters", group="north", created=ago(9), claimed=ago(8), ended=ago(7), confidence=0.93)
    history.case(model="letters", created=ago(100), claimed=ago(90), ended=ago(80), label="1")
    return history


@pytest.fixture
def visit(quickstart, database):
    """Open the pages as somebody."""

    def visit(name="lea", people=None):
        review = quickstart.review.model_copy(update={"people": people or {}})
        client = TestClient(
            console_app(quickstart.model_copy(update={"review": review}), database), root_path="/review"
        )
        if name:
            client.post("/review/hello", data={"name": name})
        return client

    return visit


def figures(page):
    """The key figures of a page, by name."""
    return dict(re.findall(r'<dt>([^<]+)</dt><dd class="value">([^<]+)</dd>', page))


def test_the_key_figures(visit, past):
    page = visit().get("/review/overview?window=24h").text
    assert figures(page) == {
        "Waiting": "1",
        "With somebody": "0",
        "To be decided": "1",
        "Overdue": "1",
        "Work left": "–",
        "Done in 24 hours": "6",
        "Until somebody looks": "30 min",
        "Until resolved": "1.5 h",
        "Model overturned": "20%",  # one of five
        "People agree": "67%",  # two of three
    }
    assert "the oldest for 6 h" in page
    assert page.count("<svg ") == page.count("<details>") == 4


def test_windows_and_models(visit, past):
    lead = visit()
    assert figures(lead.get("/review/overview?window=7d").text)["Model overturned"] == "33%"
    letters = lead.get("/review/overview?window=24h&model=letters").text
    assert "Overview of letters" in letters
    assert figures(letters)["Waiting"] == "0"
    assert "No case was looked at by several people" in letters
    assert 'aria-current="page">letters<' in letters
    assert "window=7d&amp;model=letters" in letters
    assert figures(lead.get("/review/overview?window=nonsense").text)["Waiting"] == "1"


def test_an_empty_queue(visit):
    page = visit().get("/review/overview").text
    assert figures(page)["Waiting"] == "0"
    assert figures(page)["Until resolved"] == "–"
    assert "nan" not in page.lower()
    for words in ("Nobody looked at a case", "No case was looked at by several", "Nobody, in this time"):
        assert words in page


def test_the_numbers(visit, past):
    told = visit().get("/review/v1/overview?window=24h").json()
    assert told["now"] == {
        "waiting": 1,
        "claimed": 0,
        "answered": 0,
        "adjudication": 1,
        "overdue": 1,
        "oldest": pytest.approx(None) if told["now"]["oldest"] is None else told["now"]["oldest"],
    }
    assert datetime.fromisoformat(told["now"]["oldest"]) == ago(6)
    assert [flow["model"] for flow in told["by_model"]] == told["models"] == ["digits", "letters"]
    assert (told["total"]["open"], told["total"]["resolved"], told["total"]["model"]) == (2, 6, None)
    assert told["hours_of_work"] is None  # nobody answered in the last hour
    assert len(told["backlog"]["at"]) == 61
    assert told["backlog"]["open"][-1] == 2
    by_confidence = told["overturned"]["by_confidence"]
    assert [(row["from_confidence"], row["n"], row["overturned"]) for row in by_confidence] == [
        (0.6, 4, 1),
        (0.9, 1, 0),
    ]
    assert (told["overturned"]["seen"]["n"], told["overturned"]["blind"]["n"]) == (4, 1)
    several = told["several_opinions"]
    assert [several[sight]["n"] for sight in ("blind", "seen", "all")] == [1, 2, 3]
    assert several["blind"]["beyond_chance"] is None  # both said the same, and nobody anything else
    assert [told["re_reviews"][sight]["n"] for sight in ("blind", "seen", "all")] == [0, 1, 1]
    assert [(row["label"], row["pairs"], row["mixed_with"]) for row in told["labels"]] == [("1", 1, "7"), ("7", 3, "1")]
    assert told["reviewers"]["n"] == 1
    assert told["reviewers"]["rates"] == {
        "sensitivity": 0.0,
        "n_sensitivity": 1.0,
        "specificity": None,
        "n_specificity": None,
    }
    assert [(row["reviewer"], row["opinions"]) for row in told["people"]] == [("ada", 4), ("ben", 4), ("eva", 2)]


def test_the_numbers_are_as_documented(visit, past):
    lead = visit()
    document = lead.get("/review/openapi.json").json()
    schema = document["paths"]["/v1/overview"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    checker = Draft202012Validator({**schema, "components": document["components"]})
    for window in ("24h", "7d"):
        checker.validate(lead.get(f"/review/v1/overview?window={window}").json())
    flow = document["components"]["schemas"]["Flow"]["properties"]
    assert flow["resolved_per_hour"]["description"].startswith("Over the hours of the window")
    assert flow["open"]["type"] == "integer"


def test_the_numbers_refuse_another_window(visit):
    assert visit().get("/review/v1/overview?window=1y").status_code == 422


def test_only_leads_see_it_and_each_their_own(visit, past):
    people = {
        "lea": Person(models=("letters",), leads=True),
        "nora": Person(groups=("north",), leads=True),
        "rob": Person(),
    }
    for path in ("/review/overview", "/review/v1/overview"):
        assert visit("rob", people).get(path).status_code == 403
        assert visit("stranger", people).get(path).status_code == 403
    told = visit("lea", people).get("/review/v1/overview?window=7d").json()
    assert told["models"] == ["letters"]
    assert told["total"]["resolved"] == 2
    assert visit("lea", people).get("/review/v1/overview?model=digits").json()["total"]["arrived"] == 0
    assert visit("nora", people).get("/review/v1/overview").json()["total"]["arrived"] == 1
    assert "Who is reviewing?" in visit(None).get("/review/overview").text
    assert visit(None).get("/review/v1/overview").status_code == 401


def test_what_came_from_outside_is_shown_as_text(visit, database):
    nasty = "<script>alert(1)</script> $\\frac$"
    history = History(database)
    said = [(nasty, nasty, False), ("日本", "七", False)]
    history.case(model=nasty, created=ago(5), claimed=ago(4), ended=ago(3), label=nasty, said=said)
    page = visit().get("/review/overview").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "七" in page


def test_a_part_of_a_scope():
    assert narrowed(ReviewerScope(groups=("a",)), "digits") == ReviewerScope(models=("digits",), groups=("a",))
    assert narrowed(ReviewerScope(models=("letters",)), "digits").models == ()
    assert narrowed(ReviewerScope(models=("letters",)), None).models == ("letters",)


def test_numbers_and_page_are_of_one_time(database, past):
    with database.transaction() as connection:
        found = overview_of(connection, ReviewerScope(), "7d")
    assert found.until - found.since == timedelta(days=7)
    assert found.backlog.at[0] == found.since
    assert found.backlog.open[-1] == found.total.open == found.now.open


def flow(model="digits", arrived=5, ended=3, still=2):
    waits = Waits(n=3, median=60.0, p95=4000.0)
    return Flow(
        model=model,
        open=still,
        arrived=arrived,
        ended=ended,
        resolved=ended,
        to_first_claim=waits,
        to_resolution=waits,
        resolved_per_hour=1.0,
    )


@pytest.mark.parametrize(
    ("arrived", "ended", "still", "words"),
    [
        (5, 3, 2, "more came than were done"),
        (3, 3, 2, "as many came as were done"),
        (3, 4, 2, "fewer came than were done"),
    ],
)
def test_what_is_left(arrived, ended, still, words):
    assert growth(flow(arrived=arrived, ended=ended, still=still)) == words


def test_pictures_are_svg_with_words_in_them():
    curve = BacklogCurve(at=[ago(2), ago(1), BEGUN["at"]], open=[0, 3, 1], arrived=[3, 0], ended=[0, 2])
    rate = OverturnRate(
        from_confidence=0.6,
        to_confidence=0.7,
        n=4,
        overturned=1,
        share=0.25,
        lower=0.05,
        upper=0.7,
        expected=0.35,
    )
    label = LabelDisagreement(label='<1> & "7"', pairs=4, apart=1, share=0.25, mixed_with="7")
    plots = plots_of(curve, [rate], [label], [flow(), flow(model=None)])
    titles = []
    for svg in (plots.backlog, plots.overturned, plots.labels, plots.waits):
        root = ElementTree.fromstring(svg)
        title = root[0]
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == title.get("id")
        titles.append(title.text)
        assert root.findall(".//{http://www.w3.org/2000/svg}text")
    assert "0 at the start, 1 at the end, at most 3; 3 came and 2 were done" in titles[0]
    assert "25% at about 65%" in titles[1]
    assert '<1> & "7" 25%' in titles[2]
    assert "digits 1 min to the first claim" in titles[3]
    ids = re.findall(r' id="([^"]+)"', "".join((plots.backlog, plots.overturned, plots.labels, plots.waits)))
    assert len(ids) == len(set(ids)), "an id occurs once on a page"


def test_without_anything_to_draw():
    curve = BacklogCurve(at=[ago(1), BEGUN["at"]], open=[0, 0], arrived=[0], ended=[0])
    plots = plots_of(curve, [], [], [])
    assert (plots.overturned, plots.labels, plots.waits) == (None, None, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1.5 min"),
        (45 * 60, "45 min"),
        (3600, "1 h"),
        (30 * 3600, "1.2 d"),
        (float("nan"), "–"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_quantities_that_are_not_known():
    assert (percent(float("nan")), percent(0.256)) == ("–", "26%")
