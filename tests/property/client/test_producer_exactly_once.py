"""Whatever breaks, an idempotent producer writes each record once, in the order of its sends, and says what is true."""

import random

from tests.worlds.client.producer_bench import Bench, view_of

from oncelog.errors import ErrorCode

RETRIABLE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
PARTITIONS, NODES = 3, 2
RUNS, SENDS_MAX = 150, 80


def broken_run(draw, bench, sends):
    """Random faults; which deliveries there are of each partition, in the order of the sends."""
    deliveries = {number: [] for number in range(PARTITIONS)}
    for number in range(sends):
        partition = draw.randrange(PARTITIONS)
        value = b"%d/%d" % (partition, number)
        deliveries[partition].append((value, bench.send(value, partition=partition)))
        for _ in range(draw.randrange(3)):
            happen(draw, bench)
    return deliveries


def happen(draw, bench):
    bench.step(draw.choice((0, 0, 1, 6, 50, 400)))
    dice = draw.random()
    if bench.calls and dice < 0.6:
        bench.answer_call(draw.choice((ErrorCode.NONE, ErrorCode.NONE, *RETRIABLE)))
    node = draw.randrange(NODES)
    if not bench.wire.get(node):
        return
    if dice < 0.55:
        bench.receive(node)
    elif dice < 0.7:
        bench.receive(node, error=draw.choice(RETRIABLE))
    elif dice < 0.8:
        bench.receive(node, answer_is_lost=True)
    elif dice < 0.9:
        bench.break_connection(node, arrived=draw.randrange(len(bench.wire[node]) + 1))
    elif dice < 0.93:
        bench.step(2_000)


def check(bench, deliveries):
    for partition, sent in deliveries.items():
        log = bench.log(partition)
        assert len(set(log)) == len(log), f"doubled in {partition}"
        places = {value: offset for offset, value in enumerate(log)}
        order = [value for value, _ in sent if value in places]
        assert order == log, f"out of order in {partition}"
        for value, delivery in sent:
            assert delivery.done()
            error = delivery.exception()
            if error is None:
                assert places.get(value) == delivery.result().offset
            elif not error.may_be_done:
                assert value not in places


def run(seed, **more):
    draw = random.Random(seed)
    given = {
        "batch_size": draw.choice((1, 100, 400)),
        "linger_ms": draw.choice((0, 5)),
        "max_in_flight_requests_per_connection": draw.choice((1, 3, 5, 5, 5)),
    } | more
    bench = Bench(view_of(PARTITIONS, NODES), draw=draw.random, **given)
    deliveries = broken_run(draw, bench, draw.randrange(1, SENDS_MAX))
    bench.settle()
    check(bench, deliveries)
    for number in range(PARTITIONS):
        # Each has its time-out still to come, so one that is held up by what was before shows.
        later = bench.send(b"%d/later" % number, partition=number)
        bench.settle()
        assert later.exception() is None, f"partition {number} does not go on"
    assert bench.core.accumulator.free_bytes == bench.settings.buffer_memory
    return [one for sent in deliveries.values() for _, one in sent]


def test_each_record_is_written_once_and_in_order():
    for seed in range(RUNS):
        assert all(one.exception() is None for one in run(seed)), seed


def test_what_is_given_up_is_told_truly():
    failed = 0
    for seed in range(RUNS):
        sent = run(seed, request_timeout_ms=300, delivery_timeout_ms=600)
        failed += sum(one.exception() is not None for one in sent)
    assert failed > RUNS, "the time-out has hardly come to pass"
