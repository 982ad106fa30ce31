"""The rows S2-58 to S2-80 of the producer document: what an answer means."""

import pytest
from tests.worlds.client.producer_bench import PLAIN, Bench, started

from oncelog.client.core.sequences import Identity
from oncelog.client.errors import (
    AuthorizationError,
    FatalError,
    RecordTooLargeError,
    RefusedError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import PRODUCER_EPOCH_MAX
from oncelog.record.batch import Codec, read_header
from oncelog.record.records import decode_batch


def test_s2_58_the_leaders_time_is_told():
    bench = Bench(**PLAIN)
    bench.send()
    sent = bench.send()
    bench.settle()
    assert (sent.result().offset, sent.result().timestamp_ms) == (1, 0)


def test_s2_59_a_batch_that_is_too_large_goes_in_parts():
    bench = started(batch_size=10_000)
    sent = [bench.send(b"%d" % number, partition=0) for number in range(9)]
    bench.step()
    behind = bench.send(b"behind", partition=0)
    bench.step()
    bench.receive(error=ErrorCode.MESSAGE_TOO_LARGE)
    bench.settle()
    assert bench.log() == [b"first", *[b"%d" % number for number in range(9)], b"behind"]
    assert [one.result().offset for one in sent] == list(range(1, 10))
    assert behind.result().offset == 10


def test_s2_59_parts_may_be_too_large_again():
    bench = started(batch_size=10_000)
    sent = [bench.send(b"%d" % number, partition=0) for number in range(8)]
    bench.step()
    bench.receive(error=ErrorCode.MESSAGE_TOO_LARGE)
    bench.step()
    bench.receive(error=ErrorCode.MESSAGE_TOO_LARGE)
    bench.settle()
    assert [one.result().offset for one in sent] == list(range(1, 9))


def test_s2_62_a_duplicate_is_delivered_without_its_offset():
    bench = started()
    sent = bench.send(partition=0)
    bench.step()
    bench.receive(error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert sent.result().offset == -1


def test_s2_63_a_single_record_that_is_too_large_fails_alone():
    bench = started()
    sent = bench.send(partition=0)
    bench.step()
    bench.receive(error=ErrorCode.MESSAGE_TOO_LARGE)
    assert isinstance(sent.exception(), RecordTooLargeError)
    assert bench.send(partition=0) is not None
    bench.settle()
    assert len(bench.log()) == 2


def test_s2_65_an_identity_is_asked_for_with_the_first_record():
    bench = Bench()
    assert bench.step().call is None
    bench.send()
    assert bench.step().call.known == Identity()


def test_s2_67_nothing_new_goes_behind_what_was_given_up():
    bench = started(request_timeout_ms=50, delivery_timeout_ms=100)
    bench.send(b"lost", partition=0)
    bench.step()
    bench.break_connection()
    bench.step(60)
    bench.send(b"behind", partition=0)
    bench.step(50)
    assert bench.core.sequences.identity == Identity(1, 1), "S2-68: a new epoch behind the hole"
    bench.settle()
    assert bench.log() == [b"first", b"behind"]


def test_s2_68_lost_state_makes_a_new_epoch_and_nothing_is_lost():
    bench = started()
    bench.leader().producers.clear()
    sent = bench.send(b"v", partition=0)
    bench.step()
    bench.receive()
    assert not sent.done()
    bench.settle()
    assert bench.core.sequences.identity == Identity(1, 1)
    assert bench.log() == [b"first", b"v"]


def test_s2_69_the_last_epoch_is_followed_by_another_id():
    bench = started()
    bench.core.sequences.start(Identity(1, PRODUCER_EPOCH_MAX))
    bench.leader().producers[1] = {"epoch": PRODUCER_EPOCH_MAX, "next": 7, "batches": []}
    bench.send(b"v", partition=0)
    bench.step()
    bench.receive()
    bench.settle()
    assert bench.core.sequences.identity == Identity(2, 0)
    assert bench.log() == [b"first", b"v"]


def test_s2_71_an_unknown_producer_begins_again():
    bench = started()
    sent = bench.send(b"v", partition=0)
    bench.step()
    bench.receive(error=ErrorCode.UNKNOWN_PRODUCER_ID)
    bench.settle()
    assert sent.result().offset == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_RECORD, RefusedError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, RefusedError),
    ],
)
def test_s2_72_a_final_refusal_ends_its_batch_alone(code, kind):
    bench = started()
    sent = bench.send(partition=0)
    bench.step()
    bench.receive(error=code)
    assert isinstance(sent.exception(), kind)
    later = bench.send(partition=0)
    bench.settle()
    assert later.exception() is None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_s2_75_each_codec_compresses_what_is_read_again(codec):
    bench = Bench(compression_type=codec, **PLAIN)
    values = [b"the same again " * 20 for _ in range(20)]
    for value in values:
        bench.send(value)
    bench.step()
    ((_, records),) = bench.wire[0][0][1]
    assert read_header(records).codec == Codec[codec.upper()]
    assert len(records) < 1_000
    assert [one.value for one in decode_batch(records)] == values


def test_s2_76_batches_grow_with_what_compression_saves():
    bench = Bench(
        compression_type="gzip", batch_size=1_000, linger_ms=100_000, enable_idempotence=False
    )
    counts = []
    for _ in range(20):
        for _ in range(400):
            bench.send(b"the same again " * 4)
        bench.step()
        while bench.wire.get(0):
            counts += [batch.record_count for one in bench.requests() for batch in one.batches]
            bench.receive()
            bench.step(10)
    assert max(counts) > 3 * counts[0]


def test_s2_79_a_forced_end_fails_what_is_left():
    bench = started()
    under_way = bench.send(partition=0)
    bench.step()
    waiting = bench.send(partition=0)
    bench.core.end(FatalError("the producer is closed"))
    assert under_way.exception().may_be_done
    assert not waiting.exception().may_be_done
