"""An ordered set behaves as a set, and iterates in the order of adding."""

from hypothesis import given
from hypothesis import strategies as st
from oncelog_robustness.simulator.ordered_sets import OrderedSet

SOME = st.lists(st.integers(0, 9))


@given(SOME, SOME)
def test_it_answers_as_a_set_does(left, right):
    ordered, plain, other = OrderedSet(left), set(left), set(right)
    for builtin in (other, frozenset(other), OrderedSet(right)):
        assert ordered | builtin == plain | other
        assert builtin | ordered == plain | other
        assert ordered & builtin == plain & other
        assert ordered - builtin == plain - other
        assert builtin - ordered == other - plain
        assert (ordered == builtin) is (plain == other)
        assert (ordered <= builtin) is (plain <= other)
        assert ordered.issubset(builtin) is plain.issubset(other)
        assert ordered.issuperset(builtin) is plain.issuperset(other)
        assert ordered.union(builtin) == plain.union(other)
        assert ordered.intersection(builtin) == plain.intersection(other)
        assert ordered.difference(builtin) == plain.difference(other)
    assert len(ordered) == len(plain)
    assert bool(ordered) is bool(plain)


@given(SOME, SOME)
def test_it_changes_as_a_set_does(first, then):
    ordered, plain = OrderedSet(first), set(first)
    for element in then:
        for one in (ordered, plain):
            one.discard(element) if element % 2 else one.add(element)
    ordered |= {10}
    ordered -= {3}
    assert ordered == (plain | {10}) - {3}
    copied = ordered.copy()
    ordered.clear()
    assert not ordered
    assert copied


@given(SOME)
def test_it_keeps_the_order_of_adding(elements):
    assert list(OrderedSet(elements)) == list(dict.fromkeys(elements))
    assert list(OrderedSet(elements) - {1}) == [one for one in dict.fromkeys(elements) if one != 1]
