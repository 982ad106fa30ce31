"""Which fetch sessions are kept, and what a session knows (KIP-227)."""

import itertools

import pytest

from oncelog.errors import ErrorCode
from oncelog_listener.core.fetch_sessions import (
    EVICTABLE_AFTER_MS,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    WantedPartition,
)

LATER = EVICTABLE_AFTER_MS + 1
INT32_MAX = 2**31 - 1
IDS = itertools.count(1)


def wanted(count, topic="orders"):
    return {(topic, number): WantedPartition(topic, None, number) for number in range(count)}


def opened(sessions, connection, count=1, now=0, *, uses_topic_ids=False):
    return sessions.open(connection, wanted(count), now, uses_topic_ids=uses_topic_ids)


def found(sessions, connection, session_id, epoch=1, now=0, *, uses_topic_ids=False):
    return sessions.find(connection, session_id, epoch, now, uses_topic_ids=uses_topic_ids)


def of_one_each(connections, now=0):
    sessions = FetchSessions(len(connections), 100, IDS.__next__)
    return sessions, [opened(sessions, one, now=now) for one in connections]


def test_each_request_of_a_session_has_the_next_epoch():
    sessions, (session_id,) = of_one_each([1])
    for epoch in (1, 2, 3):
        assert isinstance(found(sessions, 1, session_id, epoch), FetchSession)
    for epoch in (3, 5, -7):
        assert found(sessions, 1, session_id, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(found(sessions, 1, session_id, 4), FetchSession)


def test_behind_the_highest_epoch_comes_1():
    sessions, (session_id,) = of_one_each([1])
    session = found(sessions, 1, session_id)
    session.epoch = INT32_MAX
    assert found(sessions, 1, session_id, INT32_MAX).epoch == 1


def test_a_session_is_of_the_connection_that_opened_it():
    sessions, (session_id,) = of_one_each([1])
    assert found(sessions, 2, session_id) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert found(sessions, 1, session_id + 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions.close(1)
    assert found(sessions, 1, session_id) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_connection_has_one_session():
    sessions = FetchSessions(10, 100, IDS.__next__)
    first, second = opened(sessions, 1, 3), opened(sessions, 1, 2)
    assert found(sessions, 1, first) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(found(sessions, 1, second), FetchSession)
    assert sessions.partition_count == 2


@pytest.mark.parametrize("uses_topic_ids", [False, True])
def test_a_session_keeps_to_names_or_to_ids(uses_topic_ids):
    sessions = FetchSessions(10, 100, IDS.__next__)
    session_id = opened(sessions, 1, uses_topic_ids=uses_topic_ids)
    answer = found(sessions, 1, session_id, uses_topic_ids=not uses_topic_ids)
    assert answer is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert found(sessions, 1, session_id, uses_topic_ids=uses_topic_ids).epoch == 2


def test_a_session_without_partitions_is_none():
    sessions, (session_id,) = of_one_each([1])
    assert opened(sessions, 2, 0) == NO_SESSION
    session = found(sessions, 1, session_id)
    session.partitions.clear()
    assert not sessions.is_kept(1, session, 0)
    assert len(sessions) == 0


def test_a_full_house_takes_no_session_of_the_same_size():
    sessions, _ = of_one_each([1, 2])
    assert opened(sessions, 3, now=LATER // 2) == NO_SESSION
    assert sessions.eviction_count == 0


def test_a_session_that_is_not_used_any_more_makes_room():
    sessions, (first, second) = of_one_each([1, 2])
    assert found(sessions, 1, first, now=LATER - 1).epoch == 2
    assert opened(sessions, 3, now=LATER) != NO_SESSION
    assert isinstance(found(sessions, 1, first, 2, now=LATER), FetchSession)
    assert found(sessions, 2, second) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.eviction_count == 1


def test_a_smaller_session_makes_room_unless_it_is_new():
    sessions = FetchSessions(2, 100, IDS.__next__)
    large, small = opened(sessions, 1, 5), opened(sessions, 2, 2)
    for connection, session_id in ((1, large), (2, small)):
        found(sessions, connection, session_id, now=LATER)
    assert opened(sessions, 3, 2, now=LATER) == NO_SESSION
    new = opened(sessions, 3, 3, now=LATER)
    assert new != NO_SESSION
    assert found(sessions, 2, small, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened(sessions, 4, 9, now=LATER) != NO_SESSION, "the old one of 5, not the new one of 3"
    assert isinstance(found(sessions, 3, new), FetchSession)


def test_partitions_are_bounded_over_all_sessions():
    sessions = FetchSessions(100, 10, IDS.__next__)
    first = opened(sessions, 1, 6)
    assert opened(sessions, 2, 11, now=LATER) == NO_SESSION, "it fits nowhere; nobody is put out"
    assert opened(sessions, 2, 5) == NO_SESSION
    session = found(sessions, 1, first)
    assert opened(sessions, 2, 4) != NO_SESSION
    session.partitions.update(wanted(3, "other"))
    assert not sessions.is_kept(1, session, 0), "it grew, and finds no room"
    assert sessions.partition_count == 4


def test_a_session_may_grow_and_shrink():
    sessions, (session_id,) = of_one_each([1])
    session = found(sessions, 1, session_id)
    session.partitions.update(wanted(9))
    assert sessions.is_kept(1, session, 0)
    assert sessions.partition_count == 9
    del session.partitions["orders", 0]
    assert sessions.is_kept(1, session, 0)
    assert sessions.partition_count == 8


def test_who_was_put_out_meanwhile_is_not_kept():
    sessions, (session_id,) = of_one_each([1])
    session = found(sessions, 1, session_id)
    assert opened(sessions, 2, now=LATER) != NO_SESSION
    assert not sessions.is_kept(1, session, LATER)
    assert sessions.partition_count == 1


def test_no_sessions_are_kept_where_none_are_wanted():
    assert opened(FetchSessions(0, 100, IDS.__next__), 1) == NO_SESSION


def test_a_partition_is_news_until_it_was_told():
    one = WantedPartition("orders", None, 0)
    assert one.is_news(0, 5, 0, has_records=False)
    assert not one.is_news(0, 5, 0, has_records=False)
    assert one.is_news(0, 5, 0, has_records=True)
    assert one.is_news(0, 6, 0, has_records=False)
    assert one.is_news(0, 6, 2, has_records=False)
    assert not one.is_news(0, 6, 2, has_records=False)


def test_an_error_and_what_follows_it_are_news():
    one = WantedPartition("orders", None, 0)
    one.is_news(0, 5, 0, has_records=False)
    for _ in range(2):
        assert one.is_news(6, -1, -1, has_records=False)
    assert one.is_news(0, 5, 0, has_records=False)


@pytest.mark.parametrize(
    ("answer", "is_made_anew"), [((0, 5, 0), False), ((0, 6, 0), True), ((1, 5, 0), True)]
)
def test_what_was_made_holds_until_something_changes(answer, is_made_anew):
    one = WantedPartition("orders", None, 0)
    one.is_news(0, 5, 0, has_records=False)
    one.made = "made"
    one.is_news(*answer, has_records=True)
    assert (one.made is None) == is_made_anew


def test_who_had_records_is_read_last_next_time():
    session = FetchSession(1, wanted(3), 0, uses_topic_ids=False)
    session.to_the_end(("orders", 0))
    assert [number for _, number in session.partitions] == [1, 2, 0]
