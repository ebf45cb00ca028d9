"""Which of several outcomes counts: rows in memory and every query follow one rule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.review.reviewed import reviewed_inputs
from demur.traffic import log
from demur.traffic.arrivals import checked
from demur.traffic.dataset import count_logged, logged_pages
from demur.traffic.outcomes import LATEST, position_that_counts, reads_as_review, rule_in_words
from demur.traffic.record import Outcome, ShadowDecision
from demur.traffic.shadowed import read_shadowed
from tests.conftest import entry

START = datetime(2026, 11, 1, tzinfo=UTC)


def told(*sources):
    """Outcomes in the order in which they came; each label is its place."""
    return [
        Outcome(label=str(at), source=source, author=None, created_at=START + timedelta(hours=at))
        for at, source in enumerate(sources)
    ]


@pytest.mark.parametrize(
    ("precedence", "sources", "counts"),
    [
        (LATEST, [], None),
        (LATEST, ["review", "api"], 1),
        (("lab", "review"), ["lab", "review", "api"], 0),
        (("lab", "review"), ["review", "api"], 0),
        (("lab", "review"), ["api", "crm"], 1),  # neither is named: the latest
        (("lab", "review"), ["lab", "review", "lab"], 2),  # among equals the latest
        (("review",), ["review", "api", "lab"], 0),
        (("Lab",), ["lab", "review"], 1),  # a source is spelled as it was told
    ],
)
def test_the_rule(precedence, sources, counts):
    outcomes = told(*sources)
    assert position_that_counts(outcomes, precedence) == counts


def test_the_rule_in_words():
    assert rule_in_words(LATEST) == "the latest"
    assert rule_in_words(("lab", "review")) == "lab, then review, then any other source; among equals the latest"


def answered():
    """A checked answer, decided by another artifact in the shadow as well."""
    shadow = ShadowDecision(
        artifact="toy-2", prediction="1", confidence=0.9, action="answer", reason="", prediction_set=[]
    )
    return replace(entry(created_at=START, action="answer", label_probability=0.5), shadow=shadow)


def counting_by_every_reader(database, precedence):
    """The label that counts of the only record, as each query sees it."""
    [page] = logged_pages(database, "toy", precedence=precedence, since=None, until=None, size=9)
    with database.transaction() as connection:
        return {
            "logged": page[0].outcome,
            "shadow": read_shadowed(connection, "toy", "toy-2", precedence=precedence).outcomes[0],
            "canary": [one.outcome for one in checked(connection, "toy", "toy-1", precedence=precedence, since=START)],
            "examples": [label for _, label in reviewed_inputs(connection, "toy", precedence=precedence)],
        }


SOURCES = ("lab", "review", "api", 'it\'s "odd", {really}')


@given(
    sources=st.lists(st.sampled_from(SOURCES), max_size=6), precedence=st.permutations(SOURCES), named=st.integers(0, 4)
)
def test_every_query_agrees_with_the_rule_in_memory(database, sources, precedence, named):
    rule = tuple(precedence[:named])
    with database.transaction() as connection:
        connection.execute("truncate records cascade")
        log.append(connection, [one := answered()])
        for at, source in enumerate(sources):
            log.add_outcome(connection, one.record.id, label=str(at), source=source, author=None)
        outcomes = log.outcomes_of(connection, one.record.id)
        assert count_logged(connection, "toy", since=None, until=None, labelled=True) == bool(sources)
    at = position_that_counts(outcomes, rule)
    counts = None if at is None else outcomes[at]
    label = counts.label if counts else None
    assert counting_by_every_reader(database, rule) == {
        "logged": label,
        "shadow": label,
        "canary": [label] if "review" in sources else [],  # of answers that were checked; what counts may be another's
        "examples": [label] if counts and counts.source == "review" else [],
    }


@pytest.mark.parametrize(
    "source",
    [
        "review",
        "Review",
        "REVIEW",
        "review ",
        " review",
        "re view",
        "\uff52\uff45\uff56\uff49\uff45\uff57",  # of full width
        "rev\u200biew",  # with a space of no width
        "review\u2060",
        "\u2066review\u2069",  # with a direction of its own
        "re\u00adview",
        "review\ufe0f",
        "\u3164review",  # a letter that shows nothing
        "review\U000e0020",
        "rev\u00edew",
        "re-view.",
        "\U0001d42b\U0001d41e\U0001d42f\U0001d422\U0001d41e\U0001d430",  # of mathematics
        "r\u0435vi\u0435w",  # two Cyrillic letters
        "\u0433\u0435\u0475\u0456\u0435\u051d",  # nothing but Cyrillic
        "re\u03bd\u03b9ew",  # two Greek letters
    ],
)
def test_what_reads_like_a_review_is_known(source):
    assert reads_as_review(source)


@pytest.mark.parametrize("source", ["api", "lab", "reviewer", "peer review", "preview", "\u0440\u0435\u0446", "7", "-"])
def test_other_sources_are_others(source):
    assert not reads_as_review(source)
