import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.contract.batching import Overloaded
from demur.serve.gateway.request_limit import RequestLimit


def test_nobody_takes_all_of_what_others_leave():
    room = RequestLimit(most=100, share=0.75)
    for owner, takes in (("a", 75), ("b", 18), ("c", 5), ("d", 1), ("e", 1)):
        for _ in range(takes):
            room.enter(owner)
        with pytest.raises(Overloaded):
            room.enter(owner)
    with pytest.raises(Overloaded, match="100 requests are open here already"):
        room.check("f")
    room.leave("a")
    room.enter("f")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_in_a_small_room_there_is_one_for_everybody(most):
    room = RequestLimit(most=most, share=0.5)
    for at in range(most):
        room.enter(f"owner {at}")


def test_who_is_not_asked_for_a_name_may_have_all():
    room = RequestLimit(most=5, share=0.1)
    for _ in range(5):
        room.enter()
    with pytest.raises(Overloaded):
        room.enter()


def test_one_thing_may_be_larger_than_a_share():
    room = RequestLimit(most=100, share=0.5)
    room.enter("a", 80)
    with pytest.raises(Overloaded, match="80 requests are open here already for 'a' alone"):
        room.enter("a")
    room.enter("b", 10)
    with pytest.raises(Overloaded, match="90 requests are open here already; try again"):
        room.enter("c", 11)


moves = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.booleans()))


@given(st.integers(1, 40), st.floats(0.1, 1), moves)
def test_what_is_taken_is_what_was_given(most, share, moves):
    room, has = RequestLimit(most=most, share=share), []
    for owner, size, enters in moves:
        if enters:
            try:
                room.enter(owner, size)
            except Overloaded:
                continue
            has.append((owner, size))
        elif has:
            room.leave(*has.pop(0))
        assert room.taken == sum(size for _, size in has) <= most
    for one in has:
        room.leave(*one)
    assert (room.taken, room._by_owner) == (0, {})
