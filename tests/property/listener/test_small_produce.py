"""A small Produce is read and answered without kio: as kio reads and writes it, or not at all."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.frames import FrameError
from oncelog.protocol.messages import schema_of
from oncelog.protocol.small_produce import (
    VERSIONS,
    SmallProduce,
    read_small_produce,
    small_produce_response,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSET = st.integers(-1, 2**63 - 1)
SMALL = st.builds(
    SmallProduce,
    transactional_id=st.none() | st.text(max_size=30),
    acks=INT16,
    timeout_ms=INT32,
    topic=st.text(min_size=1, max_size=30),
    partition=INT32,
    records=st.binary(min_size=1, max_size=300),
)


def written(version, *batches, topics=1):
    """Each batch in a partition of each of so many topics of its name."""
    schema, (first, *_) = schema_of(0, version), batches
    types = schema.request_types
    data = tuple(
        types.PartitionProduceData(index=one.partition, records=one.records) for one in batches
    )
    request = schema.request(
        transactional_id=first.transactional_id,
        acks=first.acks,
        timeout=timedelta(milliseconds=first.timeout_ms),
        topic_data=(types.TopicProduceData(name=first.topic, partition_data=data),) * topics,
    )
    return b"".join(schema.write_request(request))


def read_by_kio(version, message):
    """None: it is not one batch for one partition, or no request."""
    try:
        request = schema_of(0, version).read_request(message, 0)
    except FrameError:
        return None
    batches = [(topic, one) for topic in request.topic_data for one in topic.partition_data]
    if len(request.topic_data) != 1 or len(batches) != 1 or batches[0][1].records is None:
        return None
    ((topic, one),) = batches
    timeout_ms = request.timeout // timedelta(milliseconds=1)
    return SmallProduce(
        *(request.transactional_id, request.acks, timeout_ms, topic.name, one.index, one.records)
    )


@given(st.sampled_from(VERSIONS), SMALL)
def test_one_batch_is_read_as_kio_reads_it(version, small):
    message = written(version, small)
    assert read_small_produce(b"head" + message, 4) == small == read_by_kio(version, message)


@given(st.sampled_from(VERSIONS), SMALL, SMALL)
def test_more_than_one_batch_is_left_to_kio(version, one, other):
    assert read_small_produce(written(version, one, other), 0) is None
    assert read_small_produce(written(version, one, topics=2), 0) is None


@given(st.sampled_from(VERSIONS), SMALL, st.data())
def test_damaged_bytes_are_read_as_by_kio_or_not(version, small, data):
    message = bytearray(written(version, small))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    del message[data.draw(st.integers(0, len(message))) :]
    message += data.draw(st.binary(max_size=3))
    found = read_small_produce(bytes(message), 0)
    assert found is None or found == read_by_kio(version, bytes(message))


@given(
    st.sampled_from(VERSIONS),
    SMALL,
    st.tuples(OFFSET, st.none() | st.integers(0, 2**40), OFFSET),
)
def test_an_answer_is_written_as_by_kio(version, small, offsets):
    base_offset, append_time_ms, log_start_offset = offsets
    schema = schema_of(0, version)
    types = schema.response_types
    time = append_time_ms and datetime.fromtimestamp(append_time_ms / 1000, UTC)
    partition = types.PartitionProduceResponse(
        index=small.partition,
        error_code=0,
        base_offset=base_offset,
        log_append_time=None if append_time_ms is None else time or datetime.fromtimestamp(0, UTC),
        log_start_offset=log_start_offset,
        record_errors=(),
        error_message=None,
    )
    topic = types.TopicProduceResponse(name=small.topic, partition_responses=(partition,))
    by_kio = schema.write_response(types.ProduceResponse(responses=(topic,), node_endpoints=()))
    append_time_ms = -1 if append_time_ms is None else append_time_ms
    found = small_produce_response(
        small.topic, small.partition, base_offset, append_time_ms, log_start_offset
    )
    assert b"".join(found) == b"".join(by_kio)
