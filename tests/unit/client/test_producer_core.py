"""The rows S2-11 to S2-80 of the producer document that need no socket, by their numbers."""

import pytest
from tests.worlds.client.producer_bench import PLAIN, TOPIC, Bench, started, view_of

from oncelog.client.core.cluster_view import NO_NODE, ClusterView, Leader, TopicView
from oncelog.client.core.sticky import StickyPartitioner
from oncelog.client.errors import (
    BufferExhaustedError,
    RecordTooLargeError,
    RefusedError,
    RetriableError,
    TimedOutError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.record.batch import read_header

# ------------------------------------------------------------------------------------------------- metadata


def test_s2_11_a_topic_that_never_comes_times_out():
    bench = Bench(ClusterView(), max_block_ms=100, **PLAIN)
    sent = bench.send()
    assert bench.step().wants_metadata
    bench.step(99)
    assert not sent.done()
    bench.step(1)
    assert isinstance(sent.exception(), TimedOutError)
    assert "'payments' was not in the metadata within max.block.ms=100" in str(sent.exception())


def test_s2_12_a_record_waits_for_its_topic():
    bench = Bench(ClusterView(), **PLAIN)
    sent = bench.send()
    bench.step()
    bench.core.view = view_of()
    bench.settle()
    assert sent.result().offset == 0


def test_s2_13_an_old_leader_makes_it_ask_for_metadata():
    bench = started()
    bench.send()
    assert not bench.step().wants_metadata
    bench.receive(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.step().wants_metadata
    assert not bench.step().wants_metadata


def view_with_id(topic_id):
    return ClusterView().with_answer(
        view_of().nodes.values(), [TopicView(TOPIC, topic_id, (Leader(0, 0),))], "cluster", 0
    )


def test_s2_54_a_topic_made_again_ends_what_was_sent_before():
    """Leader and metadata must both say so: one of them may be behind."""
    bench = started(view_with_id(b"old"))
    stale = bench.send(b"stale")
    bench.core.view = view_with_id(b"new")
    (request,) = bench.step().requests
    assert [batch.topic_id for batch in request.batches] == [b"old"]
    bench.receive(error=ErrorCode.UNKNOWN_TOPIC_ID)
    bench.core.view = view_with_id(b"old")
    assert bench.step().wants_metadata
    assert not stale.done()
    bench.core.view = view_with_id(b"new")
    bench.step()
    assert isinstance(stale.exception(), RefusedError)
    bench.leaders.clear()
    fresh = bench.send(b"fresh")
    bench.settle()
    assert fresh.result().offset == 0
    assert bench.log() == [b"fresh"]


def test_s2_15_a_fresh_leader_is_not_waited_for():
    bench = Bench(view_of(nodes=2, leader={0: (0, 3)}), **PLAIN)
    bench.send()
    bench.step()
    bench.receive(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not bench.step().requests
    bench.core.view = bench.core.view.with_leader(Partition("payments", 0), Leader(1, 4), None)
    assert [one.node_id for one in bench.step().requests] == [1]


# ------------------------------------------------------------------------------------------------- size, partition


@pytest.mark.parametrize("name", ["max_request_size", "buffer_memory"])
def test_s2_16_a_record_above_a_limit_is_refused(name):
    bench = Bench(**PLAIN, **{name: 500})
    with pytest.raises(RecordTooLargeError, match=name.replace("_", ".")):
        bench.send(b"x" * 500)


def test_s2_17_a_given_partition_is_taken_as_it_is():
    bench = Bench(view_of(3), **PLAIN)
    bench.send(b"v", key=b"k", partition=2)
    bench.settle()
    assert bench.log(2) == [b"v"]
    with pytest.raises(RefusedError, match="has 3 partitions; there is no partition 3"):
        bench.send(partition=3)


def test_s2_18_a_key_chooses_by_murmur2():
    bench = Bench(view_of(100), **PLAIN)
    # Kafka's own table: murmur2 of "21" is -973932308, of "foobar" -790332482.
    bench.send(b"a", key=b"21")
    bench.send(b"b", key=b"foobar")
    bench.settle()
    assert bench.log((-973932308 & 0x7FFFFFFF) % 100) == [b"a"]
    assert bench.log((-790332482 & 0x7FFFFFFF) % 100) == [b"b"]


def test_s2_19_a_partitioner_of_its_own_is_asked_and_checked():
    bench = Bench(view_of(3), partitioner=lambda topic, key, value, count: len(value), **PLAIN)
    bench.send(b"vv")
    bench.settle()
    assert bench.log(2) == [b"vv"]
    for value in (b"vvv", b"vvvv"):
        with pytest.raises(RefusedError, match="the partitioner chose"):
            bench.send(value)


def test_s2_20_keys_are_left_alone_when_told_to():
    bench = Bench(view_of(8), partitioner_ignore_keys=True, **PLAIN)
    for number in range(20):
        bench.send(b"v", key=b"%d" % number)
    bench.settle()
    assert sum(bool(bench.log(number)) for number in range(8)) == 1


def test_s2_22_a_partition_is_kept_until_a_batch_is_full():
    draws = iter((0.0, 0.4, 0.9) * 20)
    bench = Bench(view_of(3), draw=lambda: next(draws), batch_size=300, **PLAIN)
    for _ in range(40):
        bench.send(b"x" * 20)
    bench.settle()
    sizes = [len(bench.log(number)) for number in range(3)]
    assert all(size >= 7 for size in sizes)
    assert sum(sizes) == 40


def test_s2_24_the_next_partition_has_a_leader():
    view = view_of(3, leader={0: (NO_NODE, 0), 2: (NO_NODE, 0)})
    for number in range(10):
        bench = Bench(view, draw=lambda number=number: number / 10, **PLAIN)
        bench.send()
        bench.settle()
        assert bench.log(1) == [b"v"]


def test_s2_25_a_slow_broker_gets_fewer_records():
    draws = iter(number / 97 % 1 for number in range(0, 97 * 1000, 37))
    bench = Bench(view_of(2, nodes=2), draw=lambda: next(draws), batch_size=100, **PLAIN)
    bench.reachable = lambda node_id: node_id == 0
    for _ in range(400):
        bench.send(b"x" * 40)
        bench.step(20)
        while bench.wire.get(0):
            bench.receive(0)
    waiting = sum(
        one.record_count for one in bench.core.accumulator.queued(Partition("payments", 1))
    )
    assert waiting < len(bench.log(0)) / 2


def test_s2_27_a_broker_that_takes_nothing_is_left_out():
    draws = iter(number / 10 for number in range(10) for _ in range(100))
    bench = Bench(
        view_of(2, nodes=2),
        draw=lambda: next(draws) % 1,
        batch_size=100,
        partitioner_availability_timeout_ms=200,
        **PLAIN,
    )
    bench.reachable = lambda node_id: node_id == 0
    for _ in range(60):
        bench.send(b"x" * 40)
        bench.step(20)
        while bench.wire.get(0):
            bench.receive(0)
    queued = len(list(bench.core.accumulator.queued(Partition("payments", 1))))
    for _ in range(60):
        bench.send(b"x" * 40)
        bench.step(20)
        while bench.wire.get(0):
            bench.receive(0)
    assert len(list(bench.core.accumulator.queued(Partition("payments", 1)))) == queued


def test_s2_28_leaders_of_its_own_rack_are_preferred():
    draws = iter(number / 10 % 1 for number in range(1000))
    bench = Bench(
        view_of(4, nodes=4),
        draw=lambda: next(draws),
        batch_size=60,
        partitioner_rack_aware=True,
        client_rack="rack-2",
        **PLAIN,
    )
    for number in range(4):
        bench.send(partition=number)
    for _ in range(30):
        bench.send(b"x" * 40)
        bench.step(20)
        for node in range(4):
            while bench.wire.get(node):
                bench.receive(node)
    assert len(bench.log(2)) > 25


# ------------------------------------------------------------------------------------------------- accumulator


def test_s2_29_partitions_are_alike_until_each_has_had_a_batch():
    draws = iter([0.0, 0.4, 0.9, 0.0, 0.4, 0.9])
    sticky = StickyPartitioner(1, lambda: next(draws))
    leaders = tuple(Leader(one, 0) for one in range(3))

    def three():
        found = []
        for _ in range(3):
            found.append(sticky.partition(leaders))
            sticky._partition = -1
        return found

    sticky.update_loads({0: 9, 1: 0}, 3, lambda number: True)
    assert three() == [0, 1, 2]
    sticky.update_loads({0: 9, 1: 0, 2: 0}, 3, lambda number: True)
    assert three() == [0, 1, 2]
    # Weights of 1, 10 and 10: a draw of 0.4 is with the second, and only one of 0.04 with the first.
    draws = iter([0.04, 0.05, 0.6])
    sticky._draw = lambda: next(draws)
    assert three() == [0, 1, 2]


def test_s2_40_many_may_wait_for_one_delivery():
    bench, told = started(), []
    sent = [bench.send() for _ in range(3)]
    for one in sent:
        one.watch(lambda: told.append(sent[0].done()))
        one.watch(lambda: told.append(sent[0].done()))
    bench.settle()
    assert told == [True] * 6
    assert [one.result().offset for one in sent] == [1, 2, 3]
    sent[1].watch(lambda: told.append("at once"))
    assert told[-1] == "at once"


def test_s2_32_a_large_record_has_a_batch_of_its_own():
    bench = Bench(batch_size=100, **PLAIN)
    for value in (b"a", b"x" * 5_000, b"b"):
        bench.send(value)
    bench.step()
    counts = []
    while bench.wire.get(0):
        counts += [batch.record_count for one in bench.requests() for batch in one.batches]
        bench.receive()
        bench.step()
    assert b"".join(bench.log()) == b"a" + b"x" * 5_000 + b"b"
    assert counts[:2] == [1, 1]


def test_s2_34_a_batch_waits_for_linger_or_to_be_full():
    bench = Bench(linger_ms=10, batch_size=200, enable_idempotence=False)
    bench.send()
    assert not bench.step().requests
    assert bench.next_ms == 10
    assert bench.step(10).requests
    for _ in range(30):
        bench.send(b"x" * 20)
    assert bench.step().requests, "a full one goes at once"


def test_s2_34_a_flush_or_a_close_lets_everything_go():
    for flag in ("is_flushing", "is_closed"):
        bench = Bench(linger_ms=1_000, enable_idempotence=False)
        bench.send()
        setattr(bench.core.accumulator, flag, True)
        assert bench.step().requests


def test_s2_36_memory_is_bounded_and_comes_back():
    bench = Bench(buffer_memory=1_000, batch_size=400, max_block_ms=50, **PLAIN)
    bench.reachable = lambda node_id: False
    sent = [bench.send(b"x" * 300) for _ in range(3)]
    assert bench.core.accumulator.free_bytes < 400
    assert bench.core.line
    bench.reachable = lambda node_id: True
    bench.settle()
    assert [one.result().offset for one in sent] == [0, 1, 2]
    assert bench.core.accumulator.free_bytes == 1_000


def test_s2_38_who_waits_for_memory_is_served_in_order():
    bench = Bench(buffer_memory=4_000, batch_size=2_000, **PLAIN)
    for number in range(20):
        bench.send(b"%02d" % number + b"x" * 200)
    assert bench.core.line
    bench.settle()
    assert [value[:2] for value in bench.log()] == [b"%02d" % number for number in range(20)]


def test_s2_38_who_waits_too_long_is_told_so():
    bench = Bench(buffer_memory=800, batch_size=400, max_block_ms=50, **PLAIN)
    bench.reachable = lambda node_id: False
    sent = [bench.send(b"x" * 300) for _ in range(3)]
    bench.step(50)
    assert isinstance(sent[2].exception(), BufferExhaustedError)
    assert "no room in buffer.memory=800 within max.block.ms=50" in str(sent[2].exception())
    assert bench.core.line.exhausted_count == 1


def test_a_line_has_an_end():
    bench = Bench(buffer_memory=10_000, batch_size=400, **PLAIN)
    bench.reachable = lambda node_id: False

    def send_for_ever():
        while True:
            bench.send(b"x" * 300)

    with pytest.raises(BufferExhaustedError, match="await ready"):
        send_for_ever()
    assert bench.core.line.size_bytes <= 10_000 // 4


# ------------------------------------------------------------------------------------------------- sender


def test_s2_41_an_answer_after_the_end_changes_nothing():
    bench = Bench(request_timeout_ms=50, delivery_timeout_ms=100, **PLAIN)
    sent = bench.send()
    bench.step()
    bench.step(100)
    assert isinstance(sent.exception(), TimedOutError)
    assert sent.exception().may_be_done
    assert bench.core.accumulator.free_bytes < bench.settings.buffer_memory, "S2-80: still in use"
    bench.receive()
    assert bench.core.accumulator.free_bytes == bench.settings.buffer_memory
    assert isinstance(sent.exception(), TimedOutError)


def test_s2_42_attempts_are_counted():
    bench = Bench(retries=2, **PLAIN)
    sent = bench.send()
    for _ in range(3):
        bench.step(2_000)
        bench.receive(error=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert isinstance(sent.exception(), RetriableError)
    assert not sent.exception().may_be_done


def test_s2_44_a_request_takes_a_batch_of_each_partition():
    bench = Bench(view_of(3), **PLAIN)
    for number in range(3):
        bench.send(partition=number)
    (request,) = bench.step().requests
    assert [batch.partition.partition for batch in request.batches] == [0, 1, 2]


def test_s2_45_46_partitions_take_turns_in_a_requests_size():
    bench = Bench(view_of(3), batch_size=1, max_request_size=250, **PLAIN)
    for _ in range(2):
        for number in range(3):
            bench.send(b"x" * 50, partition=number)
    seen = []
    for _ in range(3):
        seen += [
            [batch.partition.partition for batch in request.batches]
            for request in bench.step().requests
        ]
    assert seen == [[0, 1], [2, 0], [1, 2]]


def test_s2_47_sequences_advance_by_records():
    bench = started()
    for size in (3, 2):
        for _ in range(size):
            bench.send(partition=0)
        bench.step()
    headers = [read_header(records) for _, frames in bench.wire[0] for _, records in frames]
    assert [one.base_sequence for one in headers] == [1, 4]
    assert {one.producer_id for one in headers} == {1}


def test_s2_49_one_in_flight_mutes_its_partition():
    bench = Bench(
        view_of(1, nodes=2, leader={0: (0, 0)}),
        max_in_flight_requests_per_connection=1,
        **PLAIN,
    )
    bench.send(b"a")
    bench.step()
    bench.core.view = view_of(1, nodes=2, leader={0: (1, 1)})
    bench.send(b"b")
    assert not bench.step().requests, (
        "it would overtake the one that is under way to the old leader"
    )
    bench.receive(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.settle()
    assert bench.log() == [b"a", b"b"]


def test_s2_50_a_connection_has_so_many_requests_at_a_time():
    bench = Bench(view_of(9), batch_size=1, max_request_size=200, **PLAIN)
    for number in range(9):
        bench.send(b"x" * 100, partition=number)
        bench.step()
    assert len(bench.requests()) == 5


def test_s2_51_what_waits_too_long_is_given_up_and_not_written():
    bench = Bench(request_timeout_ms=50, delivery_timeout_ms=100, **PLAIN)
    bench.reachable = lambda node_id: False
    sent = bench.send()
    bench.step(100)
    assert "were not delivered within delivery.timeout.ms=100" in str(sent.exception())
    assert not sent.exception().may_be_done
