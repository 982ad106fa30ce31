"""A small Produce is read and answered without kio: as kio reads and writes it, or not at all."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.frames import (
    FrameError,
    framed_response,
    read_client_id,
    read_request_prefix,
    write_request_head,
)
from oncelog.protocol.messages import schema_of
from oncelog.protocol.small_produce import (
    VERSIONS,
    SmallProduce,
    read_small_produce,
    small_produce_answer,
)

PRODUCE = 0
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSET = st.integers(-1, 2**63 - 1)
SMALL = st.builds(
    SmallProduce,
    version=st.sampled_from(VERSIONS),
    correlation_id=INT32,
    client_id=st.none() | st.text(max_size=200),
    transactional_id=st.none() | st.text(max_size=30),
    acks=INT16,
    timeout_ms=INT32,
    topic=st.text(min_size=1, max_size=30),
    partition=INT32,
    records=st.binary(min_size=1, max_size=300),
)


def written(*batches, topics=1):
    """A frame: each batch in a partition of each of so many topics of its name."""
    first = batches[0]
    schema = schema_of(PRODUCE, first.version)
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
    head = write_request_head(PRODUCE, first.version, first.correlation_id, first.client_id, True)
    return b"".join([head, *schema.write_request(request)])


def read_by_kio(frame):
    """None: it is not one batch for one partition, or no request."""
    try:
        prefix = read_request_prefix(frame)
        if prefix.api_version not in VERSIONS:
            return None
        client_id, position = read_client_id(frame, is_flexible=True)
        request = schema_of(PRODUCE, prefix.api_version).read_request(frame, position)
    except FrameError:
        return None
    batches = [(topic, one) for topic in request.topic_data for one in topic.partition_data]
    if len(request.topic_data) != 1 or len(batches) != 1 or batches[0][1].records is None:
        return None
    ((topic, one),) = batches
    timeout_ms = request.timeout // timedelta(milliseconds=1)
    return SmallProduce(
        *(prefix.api_version, prefix.correlation_id, client_id, request.transactional_id),
        *(request.acks, timeout_ms, topic.name, one.index, one.records),
    )


@given(SMALL)
def test_one_batch_is_read_as_kio_reads_it(small):
    frame = written(small)
    assert read_small_produce(frame) == small == read_by_kio(frame)


@given(SMALL, SMALL)
def test_more_than_one_batch_is_left_to_kio(one, other):
    assert read_small_produce(written(one, other)) is None
    assert read_small_produce(written(one, topics=2)) is None


@given(SMALL, st.data())
def test_damaged_bytes_are_read_as_by_kio_or_not(small, data):
    frame = bytearray(written(small))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(2, len(frame) - 1))] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(2, len(frame))) :]
    frame += data.draw(st.binary(max_size=3))
    found = read_small_produce(memoryview(frame))
    assert found is None or found == read_by_kio(memoryview(frame))


@given(SMALL, OFFSET, st.none() | st.integers(0, 2**40), OFFSET)
def test_an_answer_is_written_as_by_kio(small, base_offset, append_time_ms, log_start_offset):
    schema = schema_of(PRODUCE, small.version)
    types = schema.response_types
    time = None
    if append_time_ms is not None:
        time = datetime.fromtimestamp(append_time_ms / 1000, UTC)
    partition = types.PartitionProduceResponse(
        index=small.partition,
        error_code=0,
        base_offset=base_offset,
        log_append_time=time,
        log_start_offset=log_start_offset,
        record_errors=(),
        error_message=None,
    )
    topic = types.TopicProduceResponse(name=small.topic, partition_responses=(partition,))
    by_kio = types.ProduceResponse(responses=(topic,), node_endpoints=())
    wanted = framed_response(small.correlation_id, True, schema.write_response(by_kio))
    append_time_ms = -1 if append_time_ms is None else append_time_ms
    assert small_produce_answer(small, base_offset, append_time_ms, log_start_offset) == wanted
