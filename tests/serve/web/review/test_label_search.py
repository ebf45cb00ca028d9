"""Labels found by typing: what is found first, that nothing is missed, and that it stays bounded and shared."""

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.serve.config.label_table import LabelTable
from demur.serve.web.review import label_search
from demur.serve.web.review.label_search import MOST_FOUND, WORD, LabelSearch, folded, search_of

NAMES = (
    "garden hose", "hose reel", "garden gnome", "Gardening gloves", "water pump, garden", "rose", "C++", "A/B test",
    "crème brûlée", "花园水管", "smartphone", 'say "hi"', "=1+1", "\u202eesrever", "zero\u200bwidth", "x",
)  # fmt: skip


def table(names=NAMES, titles=()):
    return LabelTable(tuple(names), "of a test", tuple(titles))


def found(query, names=NAMES, **more):
    some, _ = LabelSearch(table(names)).find(query, **more)
    return [(one.label, one.match) for one in some]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("garden hose", [("garden hose", "begins")]),
        ("GARDEN H", [("garden hose", "begins")]),
        ("garden", [("garden gnome", "begins"), ("garden hose", "begins"), ("Gardening gloves", "begins"),
                    ("water pump, garden", "words")]),
        ("hose gar", [("garden hose", "words")]),
        ("gardn hose", [("garden hose", "similar")]),
        ("graden hsoe", [("garden hose", "similar")]),
        ("creme bru", [("crème brûlée", "begins")]),
        ("cre\u0300me", [("crème brûlée", "begins")]),
        ("园", [("花园水管", "words")]),
        ("水管", [("花园水管", "words")]),
        ("c++", [("C++", "begins")]),
        ("zerowidth", [("zero\u200bwidth", "begins")]),
        ("esrever", [("\u202eesrever", "begins")]),
        ("xyzzy", []),
        ("\u200b", []),
        ("!!!", []),
    ],
)  # fmt: skip
def test_what_is_found_first(query, first):
    assert found(query)[: len(first) or None] == first


def test_a_title_is_searched_and_told():
    search = LabelSearch(table(["B0001", "B0002", "B0003"], ["Garden hose", "", "Watering can"]))
    (one,), more = search.find("hose")
    assert (one.label, one.title, one.match, more) == ("B0001", "Garden hose", "words", False)
    assert [one.label for one in search.find("b000")[0]] == ["B0001", "B0002", "B0003"]
    assert [one.title for one in search.find("B0002")[0]][:1] == [""]


words = st.sampled_from(["a", "ab", "abc", "hose", "horse", "re", "reel", "é", "花"])
names = st.lists(words, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None)
@given(st.lists(names, min_size=1, max_size=30, unique=True), names)
def test_nothing_that_begins_so_or_has_the_words_is_missed(some, query):
    told, _ = LabelSearch(table(some)).find(query, MOST_FOUND)
    begins = {name for name in some if folded(name).startswith(folded(query))}
    parts = WORD.findall(folded(query))
    of = {name: WORD.findall(folded(name)) for name in some}
    held = {name for name in some if all(any(word.startswith(part) for word in of[name]) for part in parts)}
    assert {one.label for one in told if one.match == "begins"} == begins
    assert {one.label for one in told if one.match == "words"} == held - begins
    assert [one.match for one in told] == sorted((one.match for one in told), key=["begins", "words", "similar"].index)
    assert len({one.label for one in told}) == len(told)


@settings(deadline=None)
@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=9, unique=True))
def test_any_text_finds_something_or_nothing(query, some):
    told, more = LabelSearch(table(some)).find(query, 3)
    assert len(told) <= 3
    assert more is False or len(told) == 3
    assert {one.label for one in told} <= set(some)


def test_an_answer_is_bounded():
    search = LabelSearch(table([f"part {at}" for at in range(5000)]))
    told, more = search.find("p", 10_000)
    assert len(told) == MOST_FOUND
    assert more
    assert search.find("part", 5000) == (told, True)
    assert len(search.find("5 " * 5000, 20)[0]) <= 20
    assert search.find("q" * 10_000)[0] == []


def test_a_search_looks_at_few_words_whatever_is_asked(monkeypatch):
    """The costly part, comparing letter by letter, has a bound that does not grow with the labels or the query."""
    rng = random.Random(0)
    compared = []
    matcher = label_search.SequenceMatcher
    monkeypatch.setattr(
        label_search, "SequenceMatcher", lambda *a, **k: compared.append(0) or Counting(matcher(*a, **k), compared)
    )
    search = LabelSearch(table({"".join(rng.choices("abcdefgh", k=7)) for _ in range(20_000)}))
    search.find(" ".join("".join(rng.choices("abcdefgh", k=7)) for _ in range(25)))
    assert 0 < sum(compared) <= label_search.COMPARED


class Counting:
    def __init__(self, matcher, compared):
        self._matcher, self._compared = matcher, compared

    def set_seq1(self, text):
        self._compared.append(1)
        self._matcher.set_seq1(text)

    def ratio(self):
        return self._matcher.ratio()


def test_an_index_is_built_once_and_shared_by_threads(monkeypatch):
    built = []

    class Slow(LabelSearch):
        def __init__(self, table):
            built.append(table)
            time.sleep(0.05)
            super().__init__(table)

    monkeypatch.setattr(label_search, "LabelSearch", Slow)
    one, other = table(), table(["another", "file"])
    got = []
    threads = [threading.Thread(target=lambda: got.append(search_of(one))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len({id(search) for search in got}) == 1
    assert search_of(other) is not got[0]
    assert len(built) == 2
