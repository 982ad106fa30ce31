"""What each bug does to requests, responses and batches, without sockets."""

import itertools
from datetime import timedelta

import pytest
from oncelog_robustness.lying.batches import (
    batches_of,
    changed,
    emptied,
    is_abort_marker,
    moved,
    without_producer,
)
from oncelog_robustness.lying.catalog import BUGS
from oncelog_robustness.lying.exchange import (
    VERSION_MAX,
    Exchange,
    RequestFrame,
    read_response,
    request_bytes,
    response_bytes,
    with_known_versions,
)
from oncelog_robustness.lying.lie import Lie, Moments, Spot
from oncelog_robustness.lying.log_lies import DropBatch, ReorderBatches, ShowAborted
from oncelog_robustness.lying.transaction_lies import AnswerAbortedCommit, ForgetOffsets

from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import crc_is_valid, read_header
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, decode_batch, encode_batch

FETCH, END, COMMIT_OFFSETS = versions.FETCH, versions.END_TXN, versions.TXN_OFFSET_COMMIT


def batch(base_offset, *values, producer_id=7, sequence=0, transactional=True):
    records = [Record(None, value.encode(), 1) for value in values]
    content = encode_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return bytes(content)


def values_of(records):
    return [
        (record.offset, record.value.decode())
        for one in batches_of(records)
        if not one.header.is_control
        for record in decode_batch(one.content)
    ]


def fetched(records, aborted=()):
    types = schema_of(FETCH, 12).response_types
    partition = types.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=100,
        last_stable_offset=50,
        log_start_offset=0,
        aborted_transactions=tuple(
            types.AbortedTransaction(producer_id=one, first_offset=offset)
            for one, offset in aborted
        ),
        preferred_read_replica=-1,
        records=records,
    )
    topic = types.FetchableTopicResponse(topic="t", partitions=(partition,))
    return types.FetchResponse(error_code=0, session_id=0, responses=(topic,))


def shown(response):
    return response.responses[0].partitions[0]


def test_a_seed_decides_the_moments():
    def moments(seed):
        one = Moments("bug", seed)
        return [one.strikes() for _ in range(60)]

    assert moments(1) == moments(1)
    assert len({tuple(moments(seed)) for seed in range(20)}) > 5
    assert all(any(moments(seed)) and not moments(seed)[0] for seed in range(20))


def test_ten_bugs_have_names_and_say_what_they_do():
    assert len(BUGS) == 10
    assert len({one.says for one in BUGS.values()}) == 10
    assert Lie.name not in BUGS


def test_an_emptied_batch_keeps_its_offsets_and_has_no_record():
    [one] = batches_of(batch(5, "a", "b"))
    content = emptied(one)
    header = read_header(content)
    assert (header.base_offset, header.next_offset, header.record_count) == (5, 7, 0)
    assert crc_is_valid(content, header)
    assert list(decode_batch(content)) == []


def test_a_moved_batch_has_its_records_at_other_offsets():
    [one] = batches_of(batch(5, "a", "b"))
    content = moved(one, 8)
    assert values_of(content) == [(8, "a"), (9, "b")]
    assert crc_is_valid(content, read_header(content))


def test_without_producer_a_batch_is_a_plain_one():
    content = without_producer(batch(0, "a"))
    header = read_header(content)
    assert (header.producer_id, header.base_sequence) == (-1, -1)
    assert not header.is_transactional
    assert crc_is_valid(content, header)
    assert values_of(content) == [(0, "a")]


def test_a_cut_batch_is_left_out():
    records = batch(0, "a") + batch(1, "b")[:-1]
    assert changed(records, lambda one: one.content) == batch(0, "a")
    assert changed(None, emptied) is None


@pytest.mark.parametrize(
    ("kind", "expected"), [(MarkerType.ABORT, True), (MarkerType.COMMIT, False)]
)
def test_markers_say_how_a_transaction_ended(kind, expected):
    marker = encode_marker(Marker(kind, 0), producer_id=7, producer_epoch=0, timestamp=1)
    [one] = batches_of(marker)
    assert is_abort_marker(one) is expected


def test_a_dropped_batch_is_gone_for_every_reader():
    lie = DropBatch(1)
    lie._dropped[Spot("t", 0, 1)] = None
    records = batch(0, "a") + batch(1, "b") + batch(2, "c")
    for _ in range(2):
        response = lie.forged_response(Exchange(FETCH, 12, None), fetched(records))
        assert values_of(shown(response).records) == [(0, "a"), (2, "c")]


def test_swapped_batches_stay_swapped():
    lie = ReorderBatches(1)
    for first in itertools.count(0, 2):
        records = batch(first, "a") + batch(first + 1, "b", sequence=1)
        response = lie.forged_response(Exchange(FETCH, 12, None), fetched(records))
        if lie.told:
            break
    assert values_of(shown(response).records) == [(first, "b"), (first + 1, "a")]
    again = lie.forged_response(
        Exchange(FETCH, 12, None), fetched(batch(first + 1, "b", sequence=1))
    )
    assert values_of(shown(again).records) == [(first + 1, "a")]


def test_batches_of_two_producers_are_not_swapped():
    lie = ReorderBatches(1)
    for first in range(0, 100, 2):
        records = batch(first, "a") + batch(first + 1, "b", producer_id=8)
        lie.forged_response(Exchange(FETCH, 12, None), fetched(records))
    assert lie.told == []


def test_an_aborted_transaction_that_is_shown_stays_shown():
    lie = ShowAborted(1)
    missing = []
    for offset in range(40):
        before = len(lie.told)
        response = lie.forged_response(Exchange(FETCH, 12, None), fetched(b"", [(7, offset)]))
        assert len(shown(response).aborted_transactions) == (len(lie.told) == before)
        if len(lie.told) > before:
            missing.append(offset)
    assert missing
    again = lie.forged_response(Exchange(FETCH, 12, None), fetched(b"", [(7, missing[0])]))
    assert shown(again).aborted_transactions == ()


def test_a_commit_becomes_an_abort_and_an_abort_stays_one():
    types = schema_of(END, 3).request_types
    lie = AnswerAbortedCommit(1)

    def asked(committed):
        request = types.EndTxnRequest(
            transactional_id="id", producer_id=1, producer_epoch=0, committed=committed
        )
        exchange = Exchange(END, 3, request)
        lie.asked(exchange)
        return exchange.request.committed

    assert not any(asked(False) for _ in range(30))
    assert lie.told == []
    answers = [asked(True) for _ in range(30)]
    assert not all(answers)
    assert answers[0]
    assert lie.told


def test_forgotten_offsets_are_answered_for_each_partition():
    types = schema_of(COMMIT_OFFSETS, 3).request_types
    partition = types.TxnOffsetCommitRequestPartition(
        partition_index=4, committed_offset=9, committed_leader_epoch=-1, committed_metadata=None
    )
    topic = types.TxnOffsetCommitRequestTopic(name="t", partitions=(partition,))
    request = types.TxnOffsetCommitRequest(
        transactional_id="id",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=(topic,),
    )
    lie = ForgetOffsets(1)
    answers = []
    for _ in range(30):
        exchange = Exchange(COMMIT_OFFSETS, 3, request)
        lie.asked(exchange)
        answers.append(exchange.answer)
    assert answers[0] is None
    assert answers[-1].topics[0].name == "t"
    assert answers[-1].topics[0].partitions[0].partition_index == 4
    assert answers.index(answers[-1]) < 15


def test_a_request_passes_byte_by_byte():
    types = schema_of(versions.INIT_PRODUCER_ID, 4).request_types
    request = types.InitProducerIdRequest(
        transactional_id="id",
        transaction_timeout=timedelta(seconds=1),
        producer_id=-1,
        producer_epoch=-1,
    )
    frame = request_bytes(versions.INIT_PRODUCER_ID, 4, 17, "me", request)
    found = RequestFrame.of(memoryview(frame)[4:])
    assert found is not None
    assert (found.prefix, found.client_id) == ((versions.INIT_PRODUCER_ID, 4, 17), "me")
    again = request_bytes(found.prefix.api_key, 4, 17, found.client_id, found.request)
    assert again == frame


def test_what_is_not_decoded_is_none():
    frame = b"\0\x0b\0\0\0\0\0\1\xff\xff"
    assert RequestFrame.of(frame) is None


def test_clients_are_told_versions_that_the_proxy_reads():
    types = schema_of(versions.API_VERSIONS, 3).response_types
    keys = tuple(
        types.ApiVersion(api_key=key, min_version=0, max_version=99)
        for key in (versions.PRODUCE, versions.FETCH, versions.HEARTBEAT)
    )
    response = with_known_versions(types.ApiVersionsResponse(error_code=0, api_keys=keys))
    assert [one.max_version for one in response.api_keys] == [
        VERSION_MAX[versions.PRODUCE],
        VERSION_MAX[versions.FETCH],
        99,
    ]


def test_a_refused_api_versions_request_is_read_as_version_0():
    schema = schema_of(versions.API_VERSIONS, 0)
    refused = schema.response_types.ApiVersionsResponse(error_code=35, api_keys=())
    frame = response_bytes(schema, 3, refused)
    found, response = read_response(versions.API_VERSIONS, 4, memoryview(frame)[4:])
    assert found.version == 0
    assert int(response.error_code) == 35
