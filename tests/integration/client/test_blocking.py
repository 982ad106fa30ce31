"""The client for threads against a running log. What it does is asyncio's; here is what threads add to that."""

import inspect
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.integration.client.writers import fresh, new_topic

from oncelog import client
from oncelog.client import (
    AbortableError,
    FatalError,
    FencedError,
    IllegalStateError,
    NewTopic,
    Partition,
    RecordTooLargeError,
    RefusedError,
    SerializationError,
    TimedOutError,
    blocking,
)
from oncelog.client.blocking import Admin, Consumer, Producer

WAIT_S = 90
BY_ITSELF = ("Delivery", "Transaction")
"""A delivery is waited for with a time-out; a transaction takes `send` from its producer."""
OF_THE_SHELL = {"accept", "take", "send_each", "check_may_send", "line", "next_in_hand"}
"""What the blocking client itself uses of the other one."""


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


def read(bootstrap, topic, count, partition=0):
    found = []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, partition)])
        while len(found) < count:
            found += consumer.poll(WAIT_S)
        found += consumer.poll(0.1)
    return [record.value for record in found]


def io_threads():
    return [one for one in threading.enumerate() if one.name.startswith("oncelog ")]


# ---------------------------------------------------------------------------------------------- one face


@pytest.mark.parametrize("name", blocking.__all__)
def test_both_clients_have_the_same_calls(name):
    ours, other = getattr(blocking, name), getattr(client, name)
    for word, found in vars(other).items():
        if word.startswith("_") or word in OF_THE_SHELL or name in BY_ITSELF:
            continue
        assert hasattr(ours, word), word
        if inspect.isfunction(found) and word != "subscribe":
            wanted = list(inspect.signature(found).parameters.values())[1:]
            there = list(inspect.signature(getattr(ours, word)).parameters.values())[1:]
            assert [one.name for one in there] == [one.name for one in wanted], word
            assert [one.kind for one in there] == [one.kind for one in wanted], word


def test_s2_01_a_record_is_sent_and_read(bootstrap):
    topic = fresh("blocking")
    with Admin(bootstrap) as admin:
        admin.create_topic(NewTopic(topic, partitions=2))
        assert topic in admin.list_topics()
    with Producer(bootstrap) as producer:
        assert producer.partitions_for(topic) == 2
        now = int(time.time() * 1000)
        sent = producer.send(topic, "v", b"k", partition=1, timestamp_ms=now, headers=[("h", b"x")])
        assert sent.result(WAIT_S) == (topic, 1, 0, now, 1, 1)
        assert sent.done()
        assert sent.exception() is None
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, 1)])
        assert consumer.assignment == {Partition(topic, 1)}
        record = next(consumer)
        assert (record.value, record.headers) == (b"v", (("h", b"x"),))
        assert consumer.position(Partition(topic, 1)) == 1
        consumer.seek_to_beginning()
        assert next(consumer.batches()) == [record]
        assert consumer.end_offsets([Partition(topic, 1)]) == {Partition(topic, 1): 1}
        consumer.seek(Partition(topic, 1), 0)
        assert list(consumer.read_until_decided()) == [[record]]
        consumer.pause(Partition(topic, 1))
        assert consumer.paused == {Partition(topic, 1)}


# ---------------------------------------------------------------------------------------------- threads


def test_s2_02_the_order_of_each_thread_is_kept(bootstrap):
    topic = new_topic(bootstrap)
    with Producer(bootstrap, linger_ms=1, batch_size=500) as producer:

        def send_all(thread):
            return [producer.send(topic, b"%d %d" % (thread, one)) for one in range(500)]

        with ThreadPoolExecutor(8) as pool:
            sent = list(pool.map(send_all, range(8)))
        producer.flush()
        offsets = [[one.result(0).offset for one in of_thread] for of_thread in sent]
    assert all(of_thread == sorted(of_thread) for of_thread in offsets)
    assert sorted(one for of_thread in offsets for one in of_thread) == list(range(4_000))
    values = read(bootstrap, topic, 4_000)
    for thread in range(8):
        mine = [one for one in values if one.split()[0] == b"%d" % thread]
        assert mine == [b"%d %d" % (thread, one) for one in range(500)]


def test_s2_03_a_thread_of_the_program_touches_no_socket(bootstrap, monkeypatch):
    """Each socket of the process says who uses it; asyncio's and uvloop's are opened on the I/O thread."""
    topic, users = new_topic(bootstrap), set()
    connect = socket.socket.connect

    def noted(self, *arguments):
        users.add(threading.current_thread().name)
        return connect(self, *arguments)

    monkeypatch.setattr(socket.socket, "connect", noted)
    with Producer(bootstrap) as producer:
        assert [one.name for one in io_threads()] == ["oncelog producer"]
        seen = []
        producer.send(
            topic, b"v", on_delivery=lambda *_: seen.append(threading.current_thread().name)
        ).result(WAIT_S)
    assert seen == ["oncelog producer"]
    assert threading.current_thread().name not in users
    assert not io_threads()


def test_s2_05_callbacks_come_once_and_in_order_to_threads(bootstrap):
    topic, seen = new_topic(bootstrap), []

    def note(metadata, error):
        seen.append((metadata.offset, error))
        raise ValueError("a callback's trouble is its own")

    with Producer(bootstrap) as producer:
        for _ in range(20):
            producer.send(topic, b"v", on_delivery=note)
        producer.flush()
    assert seen == [(number, None) for number in range(20)]


def test_s2_10_a_callback_may_send_and_close_but_not_wait(bootstrap):
    topic, told, closed = new_topic(bootstrap), [], threading.Event()
    producer = Producer(bootstrap).start()

    def first(metadata, error):
        told.append(producer.send(topic, b"second"))
        for wait in (producer.flush, told[0].result, lambda: producer.partitions_for(topic)):
            with pytest.raises(IllegalStateError, match="would wait for itself"):
                wait()
        told.append("refused")

    producer.send(topic, b"first", on_delivery=first).result(WAIT_S)
    producer.flush()
    assert told[0].result(WAIT_S).offset == 1
    assert told[1] == "refused"

    def last(metadata, error):
        producer.close()
        closed.set()

    producer.send(topic, b"last", on_delivery=last)
    assert closed.wait(WAIT_S)
    producer.close()
    assert not io_threads()


def test_a_close_by_another_thread_ends_what_waits(bootstrap):
    topic = new_topic(bootstrap)
    consumer = Consumer(bootstrap).start()
    consumer.assign([Partition(topic, 0)])
    waits = threading.Event()

    def wait_for_ever():
        waits.set()
        with pytest.raises(IllegalStateError, match="closed"):
            consumer.poll()
        return True

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_for_ever)
        assert waits.wait(WAIT_S)
        consumer.close()
        assert waiting.result(WAIT_S)
    with pytest.raises(IllegalStateError, match="the consumer is closed"):
        consumer.poll()
    assert not io_threads()


def test_closing_twice_and_from_many_threads_is_one_close(bootstrap):
    topic = new_topic(bootstrap)
    producer = Producer(bootstrap, linger_ms=10_000).start()
    sent = producer.send(topic, b"v")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: producer.close(), range(8)))
    assert sent.result(0).offset == 0
    with pytest.raises(IllegalStateError, match="the producer is closed"):
        producer.send(topic, b"v")
    assert not io_threads()


def test_s2_78_a_close_in_no_time_fails_what_is_left(bootstrap):
    topic = new_topic(bootstrap)
    producer = Producer(bootstrap, linger_ms=10_000).start()
    sent = producer.send(topic, b"v")
    with pytest.raises(TimedOutError, match="is not known after 0 s"):
        sent.result(0)
    producer.close(0)
    with pytest.raises(FatalError, match="the producer is closed"):
        sent.result()


def test_an_interruption_ends_a_poll_and_loses_nothing(bootstrap):
    topic = new_topic(bootstrap)
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, 0)])
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
        with Producer(bootstrap) as producer:
            producer.send(topic, b"after")
        assert [one.value for one in consumer.poll()] == [b"after"]


def test_after_a_fork_the_child_is_told_to_make_its_own(bootstrap):
    topic = new_topic(bootstrap)
    with Producer(bootstrap) as producer:
        inside, outside = os.pipe()
        child = os.fork()
        if not child:
            try:
                for call in (lambda: producer.send(topic, b"v"), producer.flush):
                    try:
                        call()
                    except IllegalStateError as error:
                        os.write(outside, str(error).encode() + b"\n")
                producer.close()
                os.write(outside, b"closed\n")
            finally:
                os._exit(0)
        os.close(outside)
        os.waitpid(child, 0)
        with os.fdopen(inside) as told:
            lines = told.read().splitlines()
        assert len(lines) == 3
        assert all("a fork takes no thread along" in one for one in lines[:2])
        assert lines[2] == "closed"
        assert producer.send(topic, b"mine").result(WAIT_S).offset == 0


# ---------------------------------------------------------------------------------------------- memory


def test_s2_36_and_38_many_threads_share_a_small_buffer(bootstrap):
    """All of them wait for room most of the time, and each record comes through once."""
    topic = new_topic(bootstrap)
    with Producer(bootstrap, buffer_memory=60_000, batch_size=2_000, linger_ms=1) as producer:

        def send_all(thread):
            for one in range(100):
                producer.send(topic, b"%d %03d" % (thread, one) + b"." * 1_000)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(send_all, range(8)))
    values = [one.rstrip(b".") for one in read(bootstrap, topic, 800)]
    for thread in range(8):
        mine = [one for one in values if one.startswith(b"%d " % thread)]
        assert mine == [b"%d %03d" % (thread, one) for one in range(100)]


def test_a_list_is_sent_behind_what_the_thread_sent_before(bootstrap):
    topic = new_topic(bootstrap)
    records = [(b"key %d" % (number % 7), b"%d" % number) for number in range(3_000)]
    with Producer(bootstrap, buffer_memory=65_536, batch_size=1_024) as producer:
        producer.send(topic, b"first", partition=0)
        sent = producer.send_all(topic, records, partition=0, headers=[("h", b"x")])
        assert [one.result(WAIT_S).offset for one in sent] == list(range(1, 3_001))
        (large,) = producer.send_all(topic, [(None, b"x" * 2_000_000)])
        with pytest.raises(RecordTooLargeError):
            large.result(WAIT_S)
        taken = []
        with pytest.raises(SerializationError):
            producer.send_all(topic, [(None, b"last"), (None, 7)], partition=0, into=taken)
        assert [one.result(WAIT_S).offset for one in taken] == [3_001]
    found = read(bootstrap, topic, 3_002)
    assert found == [b"first", *(value for _, value in records), b"last"]


def test_threads_that_wait_for_room_are_told_of_a_close(bootstrap):
    producer = Producer(bootstrap, buffer_memory=40_000, batch_size=1_000).start()
    producer.send("nowhere", b"x" * 9_000)

    def send():
        with pytest.raises(IllegalStateError, match="the producer is closed"):
            producer.send("nowhere", b"x" * 9_000)
        return True

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(send) for _ in range(3)]
        while len(producer._intake._waiting) < 3:
            time.sleep(0.01)
        producer.close(0)
        assert all(one.result(WAIT_S) for one in waiting)


# ---------------------------------------------------------------------------------------------- errors


def test_errors_are_those_of_the_other_client(bootstrap):
    topic = new_topic(bootstrap)
    with pytest.raises(client.ConfigError, match=r"did you mean linger\.ms"):
        Producer(bootstrap, {"linger.mss": 5})
    with pytest.raises(IllegalStateError, match="closed, or was not started"):
        Producer(bootstrap).send(topic, b"v")
    with Producer(bootstrap, max_request_size=5_000) as producer:
        with pytest.raises(SerializationError):
            producer.send(topic, 12)
        with pytest.raises(RecordTooLargeError):
            producer.send(topic, b"x" * 9_000).result(WAIT_S)
        with pytest.raises(RefusedError, match="there is no partition 7"):
            producer.send(topic, b"v", partition=7).result(WAIT_S)
        with pytest.raises(IllegalStateError, match="no transactional_id"):
            producer.begin_transaction()


def test_a_cluster_that_is_not_there_leaves_no_thread():
    producer = Producer("127.0.0.1:1", transactional_id="pay", max_block_ms=500)
    with pytest.raises(TimedOutError, match="reaching the cluster did not succeed in 500 ms"):
        producer.start()
    producer.close()
    assert not io_threads()


# ---------------------------------------------------------------------------------------------- transactions, groups


def test_a_block_of_a_thread_commits_all_or_nothing(bootstrap):
    topic, group = new_topic(bootstrap), fresh("group")
    with Producer(bootstrap, transactional_id=fresh("id")) as producer:
        with producer.transaction() as tx:
            tx.send(topic, b"a")
            tx.send_offsets({Partition(topic, 0): 5}, group)
        with pytest.raises(KeyError), producer.transaction() as tx:  # noqa: PT012
            tx.send(topic, b"b").result(WAIT_S)
            raise KeyError
        with pytest.raises(IllegalStateError, match=r"begin\(\) first"):
            producer.send(topic, b"c")
        producer.begin_transaction()
        producer.send(topic, b"d")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"e").result(WAIT_S)
        producer.abort_transaction()
    with Admin(bootstrap) as admin:
        assert admin.list_group_offsets(group)[Partition(topic, 0)].offset == 5
    assert read(bootstrap, topic, 2) == [b"a", b"d"]


def test_a_fenced_producer_raises_in_the_thread(bootstrap):
    topic, mine = new_topic(bootstrap), fresh("id")
    with Producer(bootstrap, transactional_id=mine) as older:
        older.begin_transaction()
        older.send(topic, b"old").result(WAIT_S)
        with Producer(bootstrap, transactional_id=mine):
            late = older.send(topic, b"late")
            with pytest.raises((FencedError, AbortableError)):
                older.commit_transaction()
            assert isinstance(late.exception(WAIT_S), FencedError | AbortableError)


def test_callbacks_of_a_rebalance_run_in_the_thread_that_reads(bootstrap):
    topic, seen = new_topic(bootstrap), []
    here = threading.current_thread().name
    with Producer(bootstrap) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number)

    def revoked(partitions):
        consumer.commit()
        seen.append(("revoked", partitions, threading.current_thread().name))

    def assigned(partitions):
        seen.append(("assigned", partitions, threading.current_thread().name))
        assert consumer.position(Partition(topic, 0), WAIT_S) == 0

    group = fresh("group")
    mine = frozenset({Partition(topic, 0)})
    with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
        assert [next(consumer).value for _ in range(2)] == [b"0", b"1"]
        assert consumer.group_metadata().group_id == group
    assert seen == [("assigned", mine, here), ("revoked", mine, here)]
    with Admin(bootstrap) as admin:
        assert admin.list_group_offsets(group)[Partition(topic, 0)].offset == 2


def test_an_error_of_such_a_callback_is_raised_by_the_call(bootstrap):
    topic = new_topic(bootstrap)

    def assigned(partitions):
        raise LookupError("mine")

    with Consumer(bootstrap, group_id=fresh("group")) as consumer:
        consumer.subscribe([topic], on_assigned=assigned)
        with pytest.raises(LookupError, match="mine"):
            consumer.poll(WAIT_S)
