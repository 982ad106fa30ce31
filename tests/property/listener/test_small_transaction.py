"""Small requests of a transaction are read and answered without kio: as kio reads and writes them, or not at all."""

from datetime import timedelta

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
from oncelog.protocol.small_transaction import (
    PARTITIONS_MAX,
    VERSIONS,
    SmallRequest,
    read_small_addition,
    read_small_end_txn,
    read_small_offsets,
    small_addition_answer,
    small_answer,
)

ADD, OFFSETS, END = 24, 25, 26
FIELDS = ("transactional_id", "producer_id", "producer_epoch")
HEAD = st.tuples(
    st.sampled_from(VERSIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=40),
    st.text(max_size=30),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**15), 2**15 - 1),
)
TOPICS = st.lists(
    st.tuples(
        st.text(max_size=20),
        st.lists(st.integers(-(2**31), 2**31 - 1), max_size=PARTITIONS_MAX + 1),
    ),
    max_size=2,
)


def frame_of(api_key, head, request):
    version, correlation_id, client_id = head[:3]
    start = write_request_head(api_key, version, correlation_id, client_id, False)
    return b"".join([start, *schema_of(api_key, version).write_request(request)])


def end_of(head, commit):
    schema = schema_of(END, head[0])
    fields = dict(zip(FIELDS, head[3:], strict=True))
    return frame_of(END, head, schema.request(**fields, committed=commit))


def offsets_of(head, group_id):
    schema = schema_of(OFFSETS, head[0])
    fields = dict(zip(FIELDS, head[3:], strict=True))
    return frame_of(OFFSETS, head, schema.request(**fields, group_id=group_id))


def addition_of(head, topics):
    schema = schema_of(ADD, head[0])
    fields = {f"v3_and_below_{name}": value for name, value in zip(FIELDS, head[3:], strict=True)}
    named = tuple(
        schema.request_types.AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics
    )
    return frame_of(ADD, head, schema.request(**fields, v3_and_below_topics=named))


def read_by_kio(api_key, frame):
    try:
        prefix = read_request_prefix(frame)
        if prefix.api_version not in VERSIONS:
            return None
        _, position = read_client_id(frame, is_flexible=False)
        return schema_of(api_key, prefix.api_version).read_request(frame, position)
    except FrameError:
        return None


def answer_of_kio(api_key, head, **fields):
    schema = schema_of(api_key, head[0])
    response = schema.response_types
    names = {
        ADD: "AddPartitionsToTxnResponse",
        OFFSETS: "AddOffsetsToTxnResponse",
        END: "EndTxnResponse",
    }
    made = getattr(response, names[api_key])
    written = schema.write_response(made(throttle_time=timedelta(0), **fields))
    return framed_response(head[1], False, written)


@given(HEAD, st.booleans())
def test_an_end_is_read_and_answered_as_by_kio(head, commit):
    asked = read_small_end_txn(end_of(head, commit))
    if not head[3]:
        assert asked is None, "an empty name is refused by the long way"
        return
    _, correlation_id, client_id, name, producer_id, epoch = head
    assert asked.request == SmallRequest(correlation_id, client_id, name, asked.request.rest)
    assert asked[1:] == (producer_id, epoch, commit)
    assert small_answer(asked) == answer_of_kio(END, head, error_code=0)


@given(HEAD, st.text(max_size=30))
def test_added_offsets_are_read_and_answered_as_by_kio(head, group_id):
    asked = read_small_offsets(offsets_of(head, group_id))
    if not head[3]:
        assert asked is None
        return
    _, correlation_id, client_id, name, producer_id, epoch = head
    assert asked.request == SmallRequest(correlation_id, client_id, name, asked.request.rest)
    assert asked[1:] == (producer_id, epoch, group_id)
    assert small_answer(asked) == answer_of_kio(OFFSETS, head, error_code=0)


@given(HEAD, TOPICS)
def test_an_addition_is_read_and_answered_as_by_kio(head, topics):
    asked = read_small_addition(addition_of(head, topics))
    is_usual = len(topics) == 1 and 0 < len(topics[0][1]) <= PARTITIONS_MAX
    if not head[3] or not is_usual or len(set(topics[0][1])) < len(topics[0][1]):
        assert asked is None
        return
    ((topic, partitions),) = topics
    _, correlation_id, client_id, name, producer_id, epoch = head
    assert asked.request == SmallRequest(correlation_id, client_id, name, asked.request.rest)
    assert asked[1:] == (producer_id, epoch, topic, tuple(partitions))
    types = schema_of(ADD, head[0]).response_types
    results = tuple(
        types.AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=0)
        for one in partitions
    )
    topic_result = types.AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
    assert small_addition_answer(asked) == answer_of_kio(
        ADD, head, results_by_topic_v3_and_below=(topic_result,)
    )


@given(HEAD, TOPICS, st.booleans(), st.data())
def test_what_is_read_of_damage_is_what_kio_reads(head, topics, commit, data):
    for api_key, frame, read in (
        (ADD, addition_of(head, topics), read_small_addition),
        (END, end_of(head, commit), read_small_end_txn),
        (OFFSETS, offsets_of(head, head[3]), read_small_offsets),
    ):
        damaged = bytearray(frame)
        at = data.draw(st.integers(0, len(frame) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
        asked = read(bytes(damaged[: data.draw(st.integers(0, len(frame)))]) or b"\0")
        whole = read(bytes(damaged))
        assert asked is None or asked == whole
        if whole is None:
            continue
        found = read_by_kio(api_key, bytes(damaged))
        prefix = "v3_and_below_" if api_key == ADD else ""
        assert [getattr(found, prefix + name) for name in FIELDS] == [
            whole.request.transactional_id,
            whole.producer_id,
            whole.producer_epoch,
        ]
