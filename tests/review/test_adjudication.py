import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.review.adjudication import Agreement, InvalidOpinions, adjudicate

OPINIONS = st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=9)


@pytest.mark.parametrize(
    ("verdicts", "minimum", "status", "verdict", "votes"),
    [
        ([], 2, "waiting", None, 0),
        (["a"], 2, "waiting", None, 1),
        (["a", None], 2, "waiting", None, 1),  # who cannot tell has not said anything
        (["a", "a"], 2, "agreed", "a", 2),
        (["a", "a"], 3, "waiting", None, 2),
        (["a", "b"], 2, "split", None, 2),  # one half is no majority
        (["a", "a", "b"], 2, "majority", "a", 3),
        (["a", "b", "a", None], 3, "majority", "a", 3),
        (["a", "a", "b", "c"], 2, "split", None, 4),  # nor is a plurality
        (["a", "a", "b", "b"], 2, "split", None, 4),
        (["a"], 1, "agreed", "a", 1),
        ([["a", "b"], ["b", "a"]], 2, "agreed", ["a", "b"], 2),
        ([["a"], ["a", "b"]], 2, "split", None, 2),
        ([[], []], 2, "agreed", [], 2),  # that no label holds is an opinion
        ([["a"], "a"], 2, "split", None, 2),
        (("a", "a"), 2, "agreed", "a", 2),
    ],
)
def test_opinions(verdicts, minimum, status, verdict, votes):
    found = adjudicate(verdicts, minimum)
    assert (found.status, found.verdict, found.n_votes) == (status, verdict, votes)


@pytest.mark.parametrize("verdicts", [[], ["a"], ["a", "a"], ["a", "b"], ["a", "b", None]])
@pytest.mark.parametrize("label", ["c", ["a", "c"], []])
def test_an_adjudicator_decides(verdicts, label):
    found = adjudicate(verdicts, adjudicator=label)
    assert (found.status, found.verdict) == (Agreement.ADJUDICATED, label)
    assert found.n_votes == sum(verdict is not None for verdict in verdicts)


@given(OPINIONS, st.integers(1, 5), st.randoms())
def test_what_always_holds(verdicts, minimum, random):
    found = adjudicate(verdicts, minimum)
    assert adjudicate(random.sample(verdicts, len(verdicts)), minimum) == found  # whoever spoke first
    same = sum(verdict == found.verdict for verdict in verdicts)
    assert found.n_votes == sum(verdict is not None for verdict in verdicts)
    if found.verdict is not None:
        assert 2 * same > found.n_votes >= minimum
        assert (found.status is Agreement.AGREED) == (same == found.n_votes)
    elif found.status is Agreement.SPLIT:
        assert all(2 * verdicts.count(verdict) <= found.n_votes for verdict in verdicts if verdict is not None)
    else:
        assert found.status is Agreement.WAITING
        assert found.n_votes < minimum


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((["a"], 0), "minimum is 0"),
        ((["a"], True), "minimum is True"),
        ((["a"], 1.0), "minimum is 1.0"),
        (("aa", 1), "not a list of opinions"),
        (([""], 1), "neither a label"),
        (([1], 1), "neither a label"),
        (([["a", ""]], 1), "neither a label"),
        ((["a"], 1, ""), "neither a label"),
        ((["a"], 1, 7), "neither a label"),
    ],
)
def test_what_is_refused(arguments, says):
    with pytest.raises(InvalidOpinions, match=says):
        adjudicate(*arguments)
