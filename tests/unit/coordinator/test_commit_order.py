"""Commits of offsets stay in the order of their connection (ADR 0018)."""

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_coordinator.commit_order import CONNECTIONS_MAX, LATE, CommitOrder
from oncelog_coordinator.core.group_events import CommitAnswer
from oncelog_coordinator.core.request_origin import RequestOrigin

ORDERS = Partition("orders", 0)
DONE = CommitAnswer(ErrorCode.NONE, ((ORDERS, ErrorCode.NONE),))


def test_an_answered_commit_is_answered_alike_and_older_ones_not():
    order = CommitOrder()
    assert order.arrived(RequestOrigin(5, 1, 4)) is None
    assert order.arrived(RequestOrigin(5, 1, 4)) is None, (
        "its answer may be lost with what it asked"
    )
    order.keep_answer(RequestOrigin(5, 1, 4), DONE)
    assert order.arrived(RequestOrigin(5, 1, 4)) is DONE
    assert order.arrived(RequestOrigin(5, 1, 6)) is None
    assert order.arrived(RequestOrigin(5, 1, 4)) is LATE
    order.keep_answer(RequestOrigin(5, 1, 4), DONE)
    assert order.arrived(RequestOrigin(5, 1, 6)) is None


def test_one_that_was_overtaken_while_it_was_verified_is_late():
    order = CommitOrder()
    assert order.arrived(RequestOrigin(5, 1, 4)) is None
    assert not order.is_late(RequestOrigin(5, 1, 4))
    assert order.arrived(RequestOrigin(5, 1, 5)) is None
    assert order.is_late(RequestOrigin(5, 1, 4))
    assert not order.is_late(RequestOrigin(5, 1, 5))


def test_what_was_refused_may_be_asked_again():
    order = CommitOrder()
    for refused in (
        CommitAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        CommitAnswer(ErrorCode.NONE, ((ORDERS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)),
    ):
        assert order.arrived(RequestOrigin(5, 1, 4)) is None
        order.keep_answer(RequestOrigin(5, 1, 4), refused)
    assert order.arrived(RequestOrigin(5, 1, 4)) is None


def test_connections_do_not_compare_and_no_origin_asks_nothing():
    order = CommitOrder()
    assert order.arrived(RequestOrigin(5, 1, 9)) is None
    for origin in (RequestOrigin(5, 2, 1), RequestOrigin(6, 1, 1), None):
        assert order.arrived(origin) is None
        assert not order.is_late(origin)
    order.keep_answer(None, DONE)


def test_the_longest_silent_connections_are_forgotten():
    order = CommitOrder()
    for connection in range(CONNECTIONS_MAX):
        assert order.arrived(RequestOrigin(5, connection, 9)) is None
    assert order.arrived(RequestOrigin(5, 0, 8)) is LATE
    assert order.arrived(RequestOrigin(5, CONNECTIONS_MAX, 9)) is None
    assert order.arrived(RequestOrigin(5, 1, 8)) is None, "forgotten"
    assert order.arrived(RequestOrigin(5, 0, 8)) is LATE
