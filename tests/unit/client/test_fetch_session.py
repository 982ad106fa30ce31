"""A consumer's fetch session with one node (KIP-227): what is named, what is forgotten, and when all begins anew."""

import pytest

from oncelog.client.core.fetch_session import EPOCH_MAX, LAST_EPOCH, NO_SESSION, FetchSession
from oncelog.client.core.partition_state import Fetch, FetchPart
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

ID, OTHER_ID = b"i" * 16, b"o" * 16


def part(number, offset=0, version=0, topic_id=ID, max_bytes=100):
    return FetchPart(Partition("t", number), offset, 0, max_bytes, version, topic_id)


def ask(session, *parts, has_ids=True):
    return session.ask(Fetch(1, 1000, parts), has_ids=has_ids)


def opened(*parts, session_id=7, has_ids=True):
    session = FetchSession()
    asked = ask(session, *parts, has_ids=has_ids)
    assert session.answered(ErrorCode.NONE, session_id, {one.partition for one in asked.parts})
    return session


def said(asked):
    """Session id, epoch, numbers that are named, numbers that are forgotten."""
    numbers = [[one.partition.partition for one in some] for some in (asked.parts, asked.forgotten)]
    return asked.session_id, asked.epoch, *numbers


def go_on(session, *parts, told=()):
    asked = ask(session, *parts)
    assert session.answered(ErrorCode.NONE, 7, {Partition("t", number) for number in told})
    return said(asked)


def test_the_first_fetch_names_all_and_asks_for_a_session():
    asked = ask(FetchSession(), part(0), part(1))
    assert said(asked) == (NO_SESSION, 0, [0, 1], [])
    assert asked.is_whole


def test_what_did_not_change_is_not_named_again():
    session = opened(part(0), part(1), part(2))
    assert go_on(session, part(0), part(1), part(2)) == (7, 1, [], [])
    assert go_on(session, part(0), part(1, offset=5), part(2)) == (7, 2, [1], [])
    assert go_on(session, part(0), part(1, offset=5), part(2, max_bytes=200)) == (7, 3, [2], [])
    assert go_on(session, part(0, version=3), part(1, offset=5), part(2, max_bytes=200)) == (
        7,
        4,
        [],
        [],
    ), "the version is ours alone"


def test_what_is_not_read_now_is_forgotten_and_named_again():
    session = opened(part(0), part(1))
    assert go_on(session, part(1), part(2)) == (7, 1, [2], [0])
    assert go_on(session, part(0), part(1), part(2), told=[2]) == (7, 2, [0], [])


def test_a_topic_made_again_is_forgotten_by_its_old_id():
    session = opened(part(0))
    asked = ask(session, part(0, topic_id=OTHER_ID))
    assert [one.topic_id for one in asked.parts] == [OTHER_ID]
    assert [one.topic_id for one in asked.forgotten] == [ID]


def test_a_topic_made_again_is_not_forgotten_by_its_name():
    session = opened(part(0), has_ids=False)
    asked = ask(session, part(0, topic_id=OTHER_ID), has_ids=False)
    assert said(asked) == (7, 1, [0], [])


def test_names_instead_of_ids_begin_a_new_session():
    """A broker refuses names in a session of ids. The old one is closed with the same request."""
    session = opened(part(0))
    assert said(ask(session, part(0), has_ids=False)) == (7, 0, [0], [])


def test_behind_the_last_epoch_comes_the_first():
    session = opened(part(0))
    session._epoch = EPOCH_MAX
    assert go_on(session, part(0)) == (7, EPOCH_MAX, [], [])
    assert go_on(session, part(0)) == (7, 1, [], [])


def test_a_node_without_room_for_a_session_is_told_all_each_time():
    session = opened(part(0), session_id=NO_SESSION)
    assert said(ask(session, part(0))) == (NO_SESSION, 0, [0], [])
    assert session.close() is None


def test_a_session_that_the_node_ended_is_followed_by_a_new_one():
    session = opened(part(0), part(1))
    ask(session, part(0), part(1))
    assert session.answered(ErrorCode.NONE, NO_SESSION, set())
    assert said(ask(session, part(0), part(1))) == (NO_SESSION, 0, [0, 1], [])


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
    ],
)
def test_a_session_that_the_node_refuses_begins_anew_at_once(error, closes):
    session = opened(part(0), part(1))
    ask(session, part(0), part(1))
    assert not session.answered(error, NO_SESSION, set())
    assert said(ask(session, part(0), part(1))) == (closes, 0, [0, 1], [])
    assert session.answered(error, NO_SESSION, set()), (
        "without a session it is an error as any other"
    )


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR],
)
def test_another_error_of_a_whole_fetch_begins_anew_too(error):
    session = opened(part(0))
    ask(session, part(0))
    assert session.answered(error, NO_SESSION, set()), "partitions are told of it"
    assert said(ask(session, part(0))) == (7, 0, [0], [])


def test_after_a_lost_answer_another_session_begins():
    session = opened(part(0))
    ask(session, part(0, offset=3))
    session.lost()
    assert said(ask(session, part(0, offset=3))) == (7, 0, [0], [])


def test_an_answer_with_a_strange_partition_is_not_read():
    session = opened(part(0))
    ask(session, part(0))
    assert not session.answered(ErrorCode.NONE, 7, {Partition("t", 9)})
    assert said(ask(session, part(0))) == (7, 0, [0], [])


def test_a_first_answer_with_gaps_begins_no_session():
    """So does a broker that throttles (KIP-219)."""
    session = FetchSession()
    ask(session, part(0), part(1))
    assert session.answered(ErrorCode.NONE, 7, {Partition("t", 0)})
    assert said(ask(session, part(0), part(1))) == (7, 0, [0, 1], [])


def test_the_end_closes_a_session_that_was_opened():
    session = opened(part(0))
    assert said(session.close()) == (7, LAST_EPOCH, [], [])
    assert session.close() is None
    assert FetchSession().close() is None
