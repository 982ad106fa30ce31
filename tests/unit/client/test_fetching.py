"""A consumer's core, case by case: which questions it asks, and what it makes of the answers."""

import pytest

from oncelog.client.core.addresses import Address
from oncelog.client.core.cluster_view import ClusterView, Leader, Node, TopicView
from oncelog.client.core.consumer_record import Deserializers, reader_class
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.fetching import FetchCore
from oncelog.client.core.log_places import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from oncelog.client.core.partition_state import FetchAnswer, Stage
from oncelog.client.errors import (
    AuthorizationError,
    NoOffsetError,
    RefusedError,
    SerializationError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.record.records import Record, encode_batch

T0, T1 = Partition("t", 0), Partition("t", 1)


def view(*leaders, epoch=0):
    nodes = [Node(number, Address("h", number + 1), None) for number in range(3)]
    found = tuple(Leader(leader, epoch) for leader in leaders)
    return ClusterView().with_answer(nodes, [TopicView("t", b"i" * 16, found)], "c", 0)


def core(*partitions, leaders=(0, 0), **settings):
    found = FetchCore(ConsumerSettings(**settings), reader_class())
    found.view = view(*leaders)
    found.assign(partitions or (T0,))
    for partition in found.partitions:
        found.seek(partition, 0)
    return found


def step(one, now_ms=0.0):
    return one.step(now_ms, lambda node_id: True)


def batch(first, count=3, leader_epoch=0, **options):
    records = [Record(b"k%d" % (first + index), b"v", 1) for index in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=leader_epoch, **options))


def answered(one, fetch, *records, error=ErrorCode.NONE, **more):
    one.fetch_ended(fetch)
    given = dict(zip((part.partition for part in fetch.parts), records, strict=False))
    return [
        one.fetched(part, FetchAnswer(error, given.get(part.partition, b""), **more), 0.0)
        for part in fetch.parts
    ]


def offsets(one, count=100):
    return [record.offset for record in one.take(count)]


def test_without_a_group_reading_begins_where_the_reset_says():
    one = FetchCore(ConsumerSettings(auto_offset_reset="earliest"), reader_class())
    one.view = view(0)
    one.assign([T0])
    (look,) = step(one).lookups[0]
    assert look.timestamp_ms == EARLIEST_TIMESTAMP
    one.looked_up(look, 17, -1)
    (fetch,) = step(one).fetches
    assert fetch.parts[0].offset == 17


def test_a_group_is_asked_for_its_committed_offset_first():
    one = FetchCore(ConsumerSettings(group_id="g"), reader_class())
    one.view = view(0, 0)
    one.assign([T0, T1])
    finds = dict(step(one).finds)
    one.found(T0, finds[T0], 5)
    one.found(T1, finds[T1], None)
    found = step(one)
    assert [part.offset for part in found.fetches[0].parts] == [5]
    assert found.lookups[0][0].timestamp_ms == LATEST_TIMESTAMP


def test_without_a_reset_policy_no_committed_offset_is_an_error():
    one = FetchCore(ConsumerSettings(group_id="g", auto_offset_reset="none"), reader_class())
    one.view = view(0)
    one.assign([T0])
    ((partition, version),) = step(one).finds
    one.found(partition, version, None)
    for _ in range(2):
        with pytest.raises(NoOffsetError, match="no committed offset of t-0") as caught:
            one.take(1)
    assert caught.value.partition == T0
    one.seek(T0, 3)
    assert step(one).fetches[0].parts[0].offset == 3


def test_the_next_fetch_does_not_wait_for_the_records():
    one = core()
    (first,) = step(one).fetches
    answered(one, first, batch(0))
    (second,) = step(one).fetches
    assert second.parts[0].offset == 3
    answered(one, second, batch(3))
    assert not step(one).fetches, "two chunks are enough"
    assert offsets(one) == [0, 1, 2]
    assert step(one).fetches[0].parts[0].offset == 6


def test_a_node_is_asked_once_at_a_time_and_for_all():
    one = core(T0, T1)
    (first,) = step(one).fetches
    assert len(first.parts) == 2
    assert not step(one).fetches
    answered(one, first, batch(0), b"")
    assert len(step(one).fetches[0].parts) == 2


def test_a_full_partition_holds_back_its_node_alone():
    one = core(T0, T1, leaders=(0, 1))
    for first in (0, 3):
        fetch = next(each for each in step(one).fetches if each.node_id == 0)
        answered(one, fetch, batch(first))
    assert one.state(T1).is_asked
    assert not [each for each in step(one).fetches if each.node_id == 0]


def test_what_is_buffered_is_bounded():
    one = core(fetch_max_bytes=len(batch(0)))
    (fetch,) = step(one).fetches
    assert fetch.max_bytes == len(batch(0))
    answered(one, fetch, batch(0))
    assert not step(one).fetches
    assert offsets(one) == [0, 1, 2]
    assert step(one).fetches


def test_an_answer_from_before_a_seek_is_dropped():
    one = core()
    answered(one, step(one).fetches[0], batch(0))
    (fetch,) = step(one).fetches
    one.seek(T0, 1)
    answered(one, fetch, batch(3))
    assert offsets(one) == []
    assert step(one).fetches[0].parts[0].offset == 1


def test_an_answer_from_a_former_assignment_is_dropped():
    """Else the records between both positions were never read."""
    one = FetchCore(ConsumerSettings(), reader_class())
    one.view = view(0)
    one.assign([T0])
    one.seek(T0, 100)
    (fetch,) = step(one).fetches
    one.assign([])
    one.assign([T0])
    one.seek(T0, 5)
    answered(one, fetch, batch(100))
    assert one.state(T0).fetch_position == 5
    assert step(one).fetches[0].parts[0].offset == 5


def test_an_offset_for_a_former_assignment_is_dropped():
    """The member in between may have committed more."""
    one = FetchCore(ConsumerSettings(group_id="g"), reader_class())
    one.view = view(0)
    one.assign([T0])
    former = dict(step(one).finds)
    one.assign([])
    one.assign([T0])
    current = dict(step(one).finds)
    one.found(T0, former[T0], 5)
    one.found(T0, current[T0], 9)
    assert one.state(T0).position == 9


def test_an_answer_that_was_dropped_is_known():
    """A node tells where a partition ends once: not knowing it, a consumer of an idle topic never saw its end."""
    one = core()
    (fetch,) = step(one).fetches
    one.seek(T0, 3)
    answered(one, fetch, b"", high_watermark=3)
    assert not one.took_all(fetch)
    (fetch,) = step(one).fetches
    answered(one, fetch, b"", high_watermark=3)
    assert one.took_all(fetch)


def test_a_batch_is_handed_out_in_parts():
    one = core()
    answered(one, step(one).fetches[0], batch(0, 5))
    assert [offsets(one, 2) for _ in range(4)] == [[0, 1], [2, 3], [4], []]
    assert one.state(T0).position == 5


def test_records_before_the_position_are_left_out():
    one = core()
    one.seek(T0, 2)
    answered(one, step(one).fetches[0], batch(0, 5))
    assert offsets(one, 2) == [2, 3]
    assert offsets(one) == [4]


def test_nothing_of_a_paused_partition_is_handed_out():
    one = core(T0, T1)
    answered(one, step(one).fetches[0], batch(0), batch(10))
    one.state(T0).is_paused = True
    assert {record.partition for record in one.take(9)} == {1}
    assert [part.partition for part in step(one).fetches[0].parts] == [T1]
    one.state(T0).is_paused = False
    assert offsets(one) == [0, 1, 2]


def test_out_of_range_resets_by_policy():
    one = core(auto_offset_reset="earliest")
    answered(one, step(one).fetches[0], error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert step(one).lookups[0][0].timestamp_ms == EARLIEST_TIMESTAMP


def test_out_of_range_without_a_policy_says_the_way_out():
    one = core(auto_offset_reset="none")
    answered(one, step(one).fetches[0], error=ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(NoOffsetError, match=r"seek to another one, or set auto\.offset\.reset"):
        one.take(1)


def test_what_was_fetched_is_handed_out_before_a_reset():
    one = core(auto_offset_reset="latest")
    answered(one, step(one).fetches[0], batch(0))
    answered(one, step(one).fetches[0], error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert offsets(one) == [0, 1, 2]
    answered(one, step(one, 10_000).fetches[0], error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert one.state(T0).stage is Stage.RESET


def test_an_old_leader_makes_the_metadata_old():
    one = core()
    assert answered(one, step(one).fetches[0], error=ErrorCode.NOT_LEADER_OR_FOLLOWER) == [True]
    assert not step(one).fetches, "it pauses"
    assert step(one, 10_000).fetches


def test_a_new_leader_is_asked_whether_the_log_was_cut():
    one = core()
    answered(one, step(one).fetches[0], batch(0))
    one.view = view(1, epoch=2)
    found = step(one)
    ((check,),) = found.validations.values()
    assert (check.offset_epoch, check.leader_epoch) == (0, 2)
    one.validated(check, 0, 3)
    (fetch,) = step(one).fetches
    assert (fetch.node_id, fetch.parts[0].offset, fetch.parts[0].leader_epoch) == (1, 3, 2)


def test_after_a_cut_reading_goes_on_where_the_logs_part():
    one = core(auto_offset_reset="earliest")
    answered(one, step(one).fetches[0], batch(0))
    assert offsets(one) == [0, 1, 2]
    one.view = view(1, epoch=2)
    ((check,),) = step(one).validations.values()
    one.validated(check, 0, 1)
    assert step(one).fetches[0].parts[0].offset == 1


def test_a_cut_without_a_policy_is_told():
    one = core(auto_offset_reset="none")
    answered(one, step(one).fetches[0], batch(0))
    offsets(one)
    one.view = view(1, epoch=2)
    ((check,),) = step(one).validations.values()
    one.validated(check, 0, 1)
    with pytest.raises(NoOffsetError, match="truncated to offset 1, below the position 3"):
        one.take(1)


def test_a_refused_reader_is_told_and_asks_again():
    one = core()
    answered(one, step(one).fetches[0], error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError, match="needs READ"):
        one.take(1)
    answered(one, step(one, 10_000).fetches[0], batch(0))
    assert offsets(one) == [0, 1, 2]


def test_a_damaged_batch_is_told_after_what_is_before_it():
    one = core()
    damaged = bytearray(batch(3))
    damaged[-1] ^= 1
    answered(one, step(one).fetches[0], batch(0) + damaged)
    assert offsets(one) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(RefusedError, match="CRC-32C"):
            one.take(1)
    one.seek(T0, 6)
    assert step(one).fetches[0].parts[0].offset == 6


def test_without_check_crcs_nobody_looks_at_them():
    one = core(check_crcs=False)
    damaged = bytearray(batch(0))
    damaged[17] ^= 1
    answered(one, step(one).fetches[0], bytes(damaged))
    assert offsets(one) == [0, 1, 2]


def test_a_batch_above_the_limit_is_asked_for_with_more():
    one = core(max_partition_fetch_bytes=100)
    answered(one, step(one).fetches[0], batch(0)[:70])
    assert step(one).fetches[0].parts[0].max_bytes == 200


def test_a_header_that_is_no_utf_8_is_kept():
    one = core()
    records = [Record(b"k", b"v", 1, headers=(("\udcff", b"x"),)) for _ in range(3)]
    answered(one, step(one).fetches[0], bytes(encode_batch(records)))
    first, second = one.take(2)
    assert (first.headers, second.offset) == ((("\udcff", b"x"),), 1)
    assert offsets(one) == [2]


def test_a_replica_near_by_is_read_until_it_is_gone():
    one = core()
    answered(one, step(one).fetches[0], preferred_replica=2)
    (near,) = step(one).fetches
    assert near.node_id == 2
    one.fetch_lost(near, 0.0)
    assert step(one, 10_000).fetches[0].node_id == 0


def test_partitions_take_turns():
    one = core(T0, T1)
    answered(one, step(one).fetches[0], batch(0, 4), batch(10, 4))
    assert [record.partition for record in one.take(9)] == [0] * 4
    assert [record.partition for record in one.take(9)] == [1] * 4


def test_a_held_partition_has_a_position_and_is_not_fetched():
    """A program that is just being told of it may ask where reading begins."""
    one = FetchCore(ConsumerSettings(group_id="g"), reader_class())
    one.view = view(0)
    one.assign([T0], is_held=True)
    assert step(one).finds == ((T0, 0),)
    one.found(T0, 0, 5)
    assert one.state(T0).position == 5
    assert not step(one).fetches
    one.release()
    assert step(one).fetches


def test_a_record_that_cannot_be_deserialized_waits_for_a_seek():
    """What stands before it is handed out; then its error comes, each time, until the program moves on."""

    def number(raw):
        return int(raw[1:]) // (raw != b"k2")

    one = FetchCore(ConsumerSettings(), reader_class(), Deserializers(number, None))
    one.view = view(0)
    one.assign([T0])
    one.seek(T0, 0)
    for wanted in ([0, 1], None, None):
        (fetch,) = step(one).fetches
        answered(one, fetch, batch(fetch.parts[0].offset - fetch.parts[0].offset % 5, 5))
        if wanted is not None:
            assert [record.key for record in one.take(10)] == wanted
            continue
        with pytest.raises(SerializationError, match=r"key_deserializer failed at offset 2 of t-0"):
            one.take(10)
    one.seek(T0, 3)
    (fetch,) = step(one).fetches
    answered(one, fetch, batch(0, 5))
    assert [(record.key, record.value) for record in one.take(10)] == [(3, b"v"), (4, b"v")]


def view_with_id(topic_id):
    nodes = [Node(0, Address("h", 1), None)]
    return ClusterView().with_answer(nodes, [TopicView("t", topic_id, (Leader(0, 0),))], "c", 0)


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_a_position_ends_with_its_topic(policy):
    """The leader refuses the id, and the metadata has another one: either alone may be behind."""
    one = core(auto_offset_reset=policy)
    one.view = view_with_id(b"old")
    (fetch,) = step(one).fetches
    answered(one, fetch, batch(0))
    one.view = view_with_id(b"new")
    (fetch,) = step(one).fetches
    assert [part.topic_id for part in fetch.parts] == [b"old"]
    answered(one, fetch, error=ErrorCode.UNKNOWN_TOPIC_ID)
    assert one.take(10)[-1].offset == 2
    told = step(one, 1_000.0)
    if policy == "earliest":
        assert [look.timestamp_ms for look in told.lookups[0]] == [EARLIEST_TIMESTAMP]
        return
    assert told.has_failed
    with pytest.raises(NoOffsetError, match="was deleted and made again: offset 3 of t-0"):
        one.take(10)
    one.seek(T0, 1)
    (fetch,) = step(one, 1_000.0).fetches
    assert [(part.topic_id, part.offset) for part in fetch.parts] == [(b"new", 1)]


def test_nothing_new_of_a_partition_means_that_it_is_asked_again():
    """In a fetch session an answer leaves out what has no news (KIP-227)."""
    one = core(T0, T1)
    (fetch,) = step(one).fetches
    one.fetch_ended(fetch)
    assert [one.fetched(part, None, 0.0) for part in fetch.parts] == [False, False]
    (again,) = step(one).fetches
    assert again.parts == fetch.parts


@pytest.mark.parametrize(
    ("isolation", "left"), [("read_committed", [2, 0]), ("read_uncommitted", [5, 3])]
)
def test_the_lag_goes_to_where_reading_ends_now(isolation, left):
    one = core(isolation_level=isolation)
    state = one.state(T0)
    reads_committed = one.settings.reads_committed
    assert state.lag(state.position, reads_committed) is None
    (fetch,) = step(one).fetches
    answered(one, fetch, batch(0, 3), high_watermark=6, last_stable_offset=3)
    one.take(1)
    assert state.lag(state.position, reads_committed) == left[0]
    one.take(10)
    assert state.lag(state.position, reads_committed) == left[1]


def test_a_partition_tells_why_it_is_asked_again():
    one = core()
    state = one.state(T0)
    (fetch,) = step(one).fetches
    answered(one, fetch, error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert state.failing is ErrorCode.KAFKA_STORAGE_ERROR
    (fetch,) = step(one, now_ms=5_000.0).fetches
    answered(one, fetch, batch(0))
    assert state.failing is ErrorCode.NONE
    one.view = view(-1)
    step(one, now_ms=10_000.0)
    assert state.failing is ErrorCode.LEADER_NOT_AVAILABLE
