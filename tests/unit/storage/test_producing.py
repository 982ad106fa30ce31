"""A Produce request stage by stage, and what a verification's answer makes a leader do (facts 9)."""

import pytest
from tests.worlds.storage.partitions import (
    HERE,
    ORDERS,
    OTHER,
    PAYMENTS,
    TRANSACTIONAL,
    Host,
    append,
    header,
    log_state,
    partition_of,
    with_followers,
)
from tests.worlds.storage.segments import NOW, batch

from oncelog.api.v1 import coordinator_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.ids import Partition
from oncelog.record.batch import Codec
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Appended, Leadership
from oncelog_storage.core.producing import ProducedBatch, Producing, Wanted
from oncelog_storage.core.verification_calls import (
    Codes,
    Limits,
    Pause,
    VerificationCall,
    VerificationMode,
    answer_to_producer,
    codes_of,
    same_code,
)

TXN = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


def producing(
    host: Host,
    *parts: tuple[Partition, bytes],
    adds_partition: bool = False,
    **fields: object,
) -> tuple[Producing[PartitionReplica], pb.ProduceResponse]:
    request = pb.ProduceRequest(**{"acks": -1, **fields})  # type: ignore[arg-type]
    for (topic, number), records in parts:
        request.partitions.add(topic=topic, partition=number, records=records)
    response = pb.ProduceResponse()
    work = Producing(request, response.partitions, host, adds_partition=adds_partition)
    return work, response


def codes(response: pb.ProduceResponse) -> list[int]:
    return [answer.error_code for answer in response.partitions]


# What is refused.


def test_a_sound_batch_passes():
    work, response = producing(Host(partition_of()), (ORDERS, batch(0)))
    assert work.check(NOW)
    assert codes(response) == [0]
    assert work.partitions == {ORDERS}
    assert work.unchecked() == work.to_recompress() == []


@pytest.mark.parametrize(("topic_id", "code"), [(bytes(16), 0), (b"", 0), (b"x" * 16, 100)])
def test_a_batch_for_a_deleted_topic_of_the_name_is_refused(topic_id, code):
    request = pb.ProduceRequest(acks=-1)
    request.partitions.add(topic=ORDERS.topic, records=batch(0), topic_id=topic_id)
    response = pb.ProduceResponse()
    work = Producing(request, response.partitions, Host(partition_of()), adds_partition=False)
    work.check(NOW)
    assert codes(response) == [code]
    assert bool(list(work.to_append())) == (code == 0)


@pytest.mark.parametrize("acks", [-2, 2])
def test_unknown_acks_refuse_all(acks):
    work, response = producing(Host(partition_of()), (ORDERS, batch(0)), acks=acks)
    assert not work.check(NOW)
    assert codes(response) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert response.partitions[0].base_offset == -1


@pytest.mark.parametrize(
    ("partition", "records", "code"),
    [
        (Partition("__consumer_offsets", 0), batch(0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (PAYMENTS, batch(0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ORDERS, b"no batch", ErrorCode.INVALID_RECORD),
    ],
)
def test_a_batch_is_refused_by_itself(partition, records, code):
    work, response = producing(Host(partition_of()), (partition, records), (ORDERS, batch(0)))
    assert work.check(NOW)
    assert codes(response) == [code, 0]
    is_elsewhere = code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = response.partitions[0]
    assert (answer.leader, answer.leader_epoch) == ((OTHER, 9) if is_elsewhere else (0, 0))
    assert work.partitions == {ORDERS}


SOUND = batch(0)
WITHOUT_SEQUENCE = {"producer_id": 1, "producer_epoch": 0}


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(SOUND + SOUND, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(SOUND[:-1], ErrorCode.INVALID_RECORD, id="cut"),
        pytest.param(SOUND[:16] + b"\1" + SOUND[17:], ErrorCode.INVALID_RECORD, id="old magic"),
        pytest.param(SOUND[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE, id="CRC"),
        pytest.param(batch(0, value=b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(
            batch(0, extra_attributes=0x30, **WITHOUT_SEQUENCE),
            ErrorCode.INVALID_RECORD,
            id="control",
        ),
        pytest.param(batch(0, **WITHOUT_SEQUENCE), ErrorCode.INVALID_RECORD, id="no sequence"),
        pytest.param(
            batch(0, timestamp=NOW + 3_600_001), ErrorCode.INVALID_TIMESTAMP, id="from the future"
        ),
        pytest.param(
            batch(0, extra_attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec"
        ),
    ],
)
def test_what_no_leader_takes_is_refused(records, code):
    partition = partition_of(log_state(max_message_bytes=1000))
    work, response = producing(Host(partition), (ORDERS, records))
    work.check(NOW)
    assert codes(response) == [code]
    assert response.partitions[0].base_offset == -1


def test_a_refused_batch_takes_no_part_in_what_follows():
    """Its header and its leader need not be known."""
    gzip = partition_of(log_state(codec=Codec.GZIP))
    work, response = producing(
        Host(gzip), (PAYMENTS, batch(0)), (ORDERS, batch(0, **TXN)), transactional_id="pay"
    )
    assert work.check(NOW)
    refused, taken = work.batches
    assert (refused.is_refused, taken.is_refused) == (True, False)
    assert work.to_recompress() == [taken]
    assert work.needs_verification(is_verification_on=True)
    (question,) = work.questions(NOW)
    assert question.batches == [taken]
    taken.refuse(KafkaError(ErrorCode.INVALID_TXN_STATE))
    assert not work.needs_verification(is_verification_on=True)
    assert work.to_recompress() == work.unchecked() == work.questions(NOW) == []
    assert list(work.to_append()) == []
    assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_TXN_STATE]


@pytest.mark.parametrize(("acks", "code"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, 0), (0, 0)])
def test_only_acks_all_needs_enough_replicas(acks, code):
    partition = with_followers(log_state(min_insync_replicas=2), isr=(HERE,))
    work, response = producing(Host(partition), (ORDERS, batch(0)), acks=acks)
    assert work.check(NOW)
    assert codes(response) == [code]


def test_transactional_batches_need_a_transactional_id():
    parts = (ORDERS, batch(0, **TXN)), (ORDERS, batch(0))
    work, response = producing(Host(partition_of()), *parts)
    assert not work.check(NOW)
    assert codes(response) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


def test_one_request_has_one_transactional_producer():
    parts = (ORDERS, batch(0, **TXN)), (ORDERS, batch(0, **TXN | {"producer_id": 8}))
    work, response = producing(Host(partition_of()), *parts, transactional_id="pay")
    assert not work.check(NOW)
    assert codes(response) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_each_record_at_fault_is_named():
    answer = pb.PartitionProduced()
    one = ProducedBatch[PartitionReplica](pb.PartitionRecords(), answer)
    one.refuse(RecordsRefused(ErrorCode.INVALID_RECORD, "no", [(1, "no key"), (2, "no key")]))
    assert [(each.index, each.message) for each in answer.record_errors] == [
        (1, "no key"),
        (2, "no key"),
    ]
    assert one.is_refused


# What a thread does.


def test_a_long_check_is_left_to_a_thread():
    large = batch(0, count=20_001, value=b"v")
    work, _ = producing(Host(partition_of()), (ORDERS, large))
    assert work.check(NOW)
    assert work.unchecked() == work.batches
    work.batches[0].refuse(KafkaError(ErrorCode.CORRUPT_MESSAGE))
    assert work.unchecked() == []


def test_a_batch_gets_the_codec_of_its_topic():
    partition = partition_of(log_state(codec=Codec.GZIP))
    work, _ = producing(Host(partition), (ORDERS, batch(0)))
    work.check(NOW)
    (one,) = work.to_recompress()
    one.change_to(partition.recompressed(one.records))
    assert one.header.codec == Codec.GZIP
    assert work.to_recompress() == []


# Verification.


@pytest.mark.parametrize(
    ("transactional_id", "adds", "is_on", "is_needed"),
    [
        ("pay", True, False, True),
        ("pay", False, True, True),
        ("pay", False, False, False),
        ("", True, True, False),
    ],
)
def test_who_opens_a_transaction_is_verified(transactional_id, adds, is_on, is_needed):
    work, _ = producing(
        Host(partition_of()),
        (ORDERS, batch(0, **TXN)),
        transactional_id=transactional_id,
        adds_partition=adds,
    )
    work.check(NOW)
    for one in work.batches:
        one.answer.error_code = 0
    assert work.needs_verification(is_verification_on=is_on) is is_needed
    assert work.needs_guard(is_verification_on=is_on) is (adds or is_on)


def test_an_open_transaction_is_not_verified_again():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    again = batch(0, **TXN | {"base_sequence": 1})
    work, _ = producing(
        Host(partition), (ORDERS, again), (ORDERS, batch(0)), transactional_id="pay"
    )
    work.check(NOW)
    assert not work.needs_verification(is_verification_on=True)
    assert work.questions(NOW) == []


def question_to(host: Host, *names: Partition):
    work, response = producing(
        host, *((name, batch(0, **TXN)) for name in names), transactional_id="pay"
    )
    assert work.check(NOW)
    (question,) = work.questions(NOW)
    return work, response, question


def test_one_question_names_all_partitions():
    orders, payments = partition_of(), partition_of(log_state(PAYMENTS))
    work, response, question = question_to(Host(orders, payments), ORDERS, PAYMENTS)
    assert (question.producer_id, question.producer_epoch) == (7, 0)
    assert question.partitions == [ORDERS, PAYMENTS]
    work.verified(question, [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE], 500, NOW)
    assert codes(response) == [0, ErrorCode.INVALID_TXN_STATE]
    known = orders.verifications.known_start(7)
    assert known is not None
    assert known[0] == 500
    assert payments.verifications.known_start(7) is None
    assert [one.led for one in work.to_append()] == [orders]


def test_a_repeated_batch_is_not_asked_about():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    partition.log.producers.apply_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=True,
        marker_offset=1,
        timestamp=NOW,
    )
    work, _ = producing(
        Host(partition), (ORDERS, batch(0, **TXN)), (ORDERS, batch(0)), transactional_id="pay"
    )
    work.check(NOW)
    assert work.needs_verification(is_verification_on=True)
    assert work.questions(NOW) == []


def test_a_stale_producer_epoch_is_not_asked_about():
    partition = partition_of()
    append(partition, header(epoch=3))
    work, response = producing(Host(partition), (ORDERS, batch(0, **TXN)), transactional_id="pay")
    work.check(NOW)
    assert work.questions(NOW) == []
    assert codes(response) == [ErrorCode.INVALID_PRODUCER_EPOCH]


# The append, and the wait.


def appended(host: Host, **fields: object):
    work, response = producing(host, (ORDERS, batch(0)), **fields)
    assert work.check(NOW)
    (one,) = work.to_append()
    one.led.log.log_end_offset = 1
    one.written(Appended(0, 0, 55))
    return work, response, one


def test_leadership_may_go_while_the_coordinator_is_asked():
    partition = partition_of()
    work, response = producing(Host(partition), (ORDERS, batch(0)))
    work.check(NOW)
    partition.leadership = Leadership(OTHER, 6, False, 1, 1)
    assert list(work.to_append()) == []
    assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert response.partitions[0].leader == OTHER
    assert work.wanted(work.batches[0]) is Wanted.NOTHING


@pytest.mark.parametrize(("acks", "wanted"), [(-1, Wanted.COMMITTED), (1, Wanted.WRITTEN)])
def test_acks_say_what_is_waited_for(acks, wanted):
    work, response, one = appended(Host(with_followers()), acks=acks)
    answer = response.partitions[0]
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (0, 55, 0)
    assert work.is_awaited
    assert work.wanted(one) is wanted
    one.led.high_watermark = 1
    assert not work.is_awaited
    assert work.wanted(one) is Wanted.NOTHING
    assert codes(response) == [0]


def test_a_leader_epoch_that_is_over_commits_nothing():
    work, response, one = appended(Host(with_followers()))
    one.led.high_watermark = 1
    one.led.leadership = Leadership(HERE, 6, True, 3, 3)
    assert work.wanted(one) is Wanted.NOTHING
    assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert "offset 0" in response.partitions[0].error_message


@pytest.mark.parametrize(("timeout_ms", "timeout_s"), [(0, 30), (500, 0.5), (2**31 - 1, 3600)])
def test_a_wait_has_a_bound(timeout_ms, timeout_s):
    work, _ = producing(Host(), timeout_ms=timeout_ms)
    assert work.timeout_s == timeout_s


# Verification: what the coordinator says.


def test_modes_have_the_numbers_of_the_messages():
    assert {each.name: each.value for each in VerificationMode} == dict(pb.VerificationMode.items())


LEGACY, ABORTABLE, ADD = VerificationMode


@pytest.mark.parametrize(
    ("code", "mode", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, ADD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, ADD, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, LEGACY, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADD, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ADD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ADD, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, LEGACY, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, ADD, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_a_producer_is_told(code, mode, expected):
    assert answer_to_producer(code, mode) is expected


def test_a_code_for_each_partition():
    answer = coordinator_pb2.AddPartitionsToTxnResponse()
    both = [ORDERS, PAYMENTS]
    away = same_code(ErrorCode.NETWORK_EXCEPTION, both)
    assert codes_of(answer.results, both) == away == ([ErrorCode.NETWORK_EXCEPTION] * 2, 0)
    result = answer.results.add(transaction_start_ms=500)
    result.partitions.add(topic="payments", partition=0, error_code=53)
    found = codes_of(answer.results, both)
    assert found == ([ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED], 500)
    result.error_code = ErrorCode.PRODUCER_FENCED
    assert codes_of(answer.results, both) == ([ErrorCode.PRODUCER_FENCED] * 2, 500)


def call(mode: VerificationMode = ADD) -> VerificationCall:
    return VerificationCall(mode, Limits(30.0, 0.1, 0.02, 5.0), 100.0)


def step(one: VerificationCall, code: ErrorCode, now_s: float) -> Codes | Pause:
    return one.codes_or_pause(Codes([code, ErrorCode.NONE], 500), now_s, lambda: 0.5)


@pytest.mark.parametrize(("now_s", "left_s"), [(100.0, 30.0), (129.0, 1.0), (140.0, 0.001)])
def test_a_try_has_what_is_left(now_s, left_s):
    assert call().left_s(now_s) == pytest.approx(left_s)


@pytest.mark.parametrize(
    ("code", "mode", "now_s", "found"),
    [
        (ErrorCode.NONE, ADD, 100.0, Codes([ErrorCode.NONE] * 2, 0)),
        (ErrorCode.NONE, ABORTABLE, 100.0, Codes([ErrorCode.NONE] * 2, 500)),
        (ErrorCode.NOT_COORDINATOR, ADD, 100.0, Pause(0.025, True)),
        (ErrorCode.NOT_COORDINATOR, ADD, 104.99, Pause(pytest.approx(0.01), True)),
        (
            ErrorCode.NOT_COORDINATOR,
            ADD,
            105.0,
            Codes([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE], 0),
        ),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADD, 100.0, Pause(0.02, False)),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ADD,
            100.09,
            Codes([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE], 0),
        ),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            LEGACY,
            100.0,
            Codes([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE], 500),
        ),
    ],
)
def test_an_answer_is_told_on_or_asked_for_again(code, mode, now_s, found):
    assert step(call(mode), code, now_s) == found
