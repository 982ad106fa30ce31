"""Which connection goes when there are too many."""

from oncelog.process.connections import Connections


def test_the_one_that_waited_longest_goes_unless_it_is_served():
    table = Connections(3)
    for now, key in enumerate("abc"):
        assert table.opened(key, "10.0.0.1", now) is None
    table.is_served("a")
    assert table.opened("d", "10.0.0.1", 3) == "b"
    table.closed("b")
    assert len(table) == 3


def test_a_byte_now_and_then_makes_nobody_younger():
    table = Connections(2)
    table.opened("slow", "10.0.0.1", 0)
    table.opened("next", "10.0.0.1", 1)
    table.waits("slow", 9)
    assert table.opened("third", "10.0.0.1", 10) == "slow"


def test_one_address_with_many_costs_the_others_nothing():
    table = Connections(10)
    table.opened("old and quiet", "10.0.0.1", 0)
    for number in range(200):
        dropped = table.opened(number, "10.0.0.2", 1 + number)
        if dropped is not None:
            assert dropped != "old and quiet"
            table.closed(dropped)
    assert len(table) == 10


def test_the_newcomer_goes_when_all_others_are_served():
    table = Connections(1)
    table.opened("busy", "10.0.0.1", 0)
    table.is_served("busy")
    assert table.opened("new", "10.0.0.2", 1) == "new"
    table.closed("new")
    table.closed("new")
    table.waits("new", 2)
    table.waits("busy", 2)
    assert table.opened("newer", "10.0.0.2", 3) == "busy"
