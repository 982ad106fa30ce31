"""No request makes kio's native reader reserve memory for more than its bytes can hold."""

import struct

import pytest
from tests.worlds.listener.many_elements import ACROSS, LARGE, WITHIN, large_request

from oncelog.protocol.frames import FrameError
from oncelog.protocol.messages import drained, schema_of
from oncelog.protocol.shape import ELEMENTS_MAX


def test_an_array_of_two_billion_elements_is_refused_unread():
    frame = struct.pack(">ii", -1, 2_000_000_000) + bytes(20)
    with pytest.raises(FrameError, match="2000000000 elements"):
        schema_of(2, 1).read_request(frame, 0)


def test_a_compact_array_of_four_billion_elements_is_refused():
    frame = b"\xff\xff\xff\xff\x0f" + bytes(20)
    with pytest.raises(FrameError, match="4294967294 elements"):
        schema_of(3, 12).read_request(frame, 0)


def test_an_inner_array_that_claims_too_much_is_refused():
    frame = struct.pack(">ii", -1, 1) + b"\0\1t" + struct.pack(">i", 50_000_000) + bytes(100)
    with pytest.raises(FrameError, match="50000000 elements"):
        schema_of(2, 1).read_request(frame, 0)


def test_elements_are_counted_over_all_arrays_of_a_request():
    topics = [("t", tuple(range(ELEMENTS_MAX // 2)))] * 2
    schema = schema_of(24, 0)
    request = schema.request(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=tuple(
            schema.request_types.AddPartitionsToTxnTopic(name=name, partitions=partitions)
            for name, partitions in topics
        ),
    )
    with pytest.raises(FrameError, match="elements in the arrays"):
        schema.read_request(b"".join(schema.write_request(request)), 0)


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_truncated_request_is_refused_at_every_byte(cut):
    schema = schema_of(26, 3)
    request = schema.request(
        transactional_id="payments", producer_id=1, producer_epoch=2, committed=True
    )
    frame = b"".join(schema.write_request(request))
    assert schema.read_request(frame, 0) == request
    with pytest.raises(FrameError):
        schema.read_request(frame[: max(0, len(frame) - cut)], 0)


def test_bytes_behind_a_request_are_ignored():
    schema = schema_of(10, 0)
    frame = b"".join(schema.write_request(schema.request(key="g"))) + b"tail"
    assert schema.read_request(frame, 0).key == "g"


def test_a_nullable_struct_is_walked_over():
    schema = schema_of(75, 0)
    types = schema.request_types
    for cursor in (None, types.Cursor(topic_name="a", partition_index=7)):
        request = schema.request(
            topics=(types.TopicRequest(name="a"),), response_partition_limit=5, cursor=cursor
        )
        frame = b"".join(schema.write_request(request))
        assert schema.read_request(frame, 0) == request


def test_constructors_drop_fields_of_other_versions_only():
    types = schema_of(10, 0).response_types
    answer = types.FindCoordinatorResponse(
        throttle_time=None, error_code=0, error_message="x", node_id=1, host="h", port=2
    )
    assert (answer.node_id, answer.host) == (1, "h")
    with pytest.raises(TypeError):
        types.FindCoordinatorResponse(node_id=1)


HOSTILE = struct.pack(">i", 2_000_000_000)
HOSTILE_COMPACT = b"\xff\xff\xff\xff\x07"


@pytest.mark.parametrize(
    ("key", "version", "head"),
    [
        (8, 2, b"\0\1g" + struct.pack(">i", 3) + b"\0\1m" + struct.pack(">q", -1)),
        (8, 10, b"\x02g" + struct.pack(">i", 3) + b"\x02m\x00"),
        (9, 5, b"\0\1g"),
        (9, 10, b""),
        (11, 5, b"\0\1g" + struct.pack(">ii", 1, 1) + b"\0\0\xff\xff\0\1c"),
        (11, 9, b"\x02g" + struct.pack(">ii", 1, 1) + b"\x01\x00\x02c"),
        (13, 3, b"\0\1g"),
        (14, 3, b"\0\1g" + struct.pack(">i", 3) + b"\0\1m\xff\xff"),
        (14, 5, b"\x02g" + struct.pack(">i", 3) + b"\x02m\x00\x00\x00"),
        (15, 4, b""),
        (16, 5, b""),
        (28, 2, b"\0\1t\0\1g" + struct.pack(">qh", 1, 0)),
        (28, 5, b"\x02t\x02g" + struct.pack(">qhi", 1, 0, -1) + b"\x01\x00"),
        (42, 1, b""),
        (47, 0, b"\0\1g"),
    ],
)
def test_no_request_about_groups_claims_more_than_it_brings(key, version, head):
    schema = schema_of(key, version)
    claim = HOSTILE_COMPACT if schema.request.__flexible__ else HOSTILE
    with pytest.raises(FrameError, match="an array claims"):
        schema.read_request(head + claim + bytes(50), 0)


def checked_in_steps(check, frame):
    """(elements or the refusal, steps)."""
    steps, running = 0, check.in_steps(frame, 0)
    try:
        while True:
            next(running)
            steps += 1
    except StopIteration as end:
        return end.value, steps
    except FrameError as error:
        return str(error), steps


def checked_at_once(check, frame):
    try:
        return check(frame, 0)
    except FrameError as error:
        return str(error)


@pytest.mark.parametrize("shape", [ACROSS, WITHIN])
@pytest.mark.parametrize("name", LARGE)
def test_a_check_in_steps_says_what_the_check_says(name, shape):
    api_key, version, request = large_request(name, 40, shape)
    schema = schema_of(api_key, version)
    frame = b"".join(schema.write_request(request))
    found, _ = checked_in_steps(schema.check_request, frame)
    assert found == schema.check_request(frame, 0) >= 38
    for end in range(len(frame)):
        cut = frame[:end]
        found, _ = checked_in_steps(schema.check_request, cut)
        assert found == checked_at_once(schema.check_request, cut)


def test_a_check_in_steps_stops_behind_each_element():
    api_key, version, request = large_request("ListOffsets", 400, ACROSS)
    schema = schema_of(api_key, version)
    frame = b"".join(schema.write_request(request))
    assert checked_in_steps(schema.check_request, frame) == (400, 400)


REST = {"allow_auto_topic_creation": True, "include_topic_authorized_operations": False}


@pytest.mark.parametrize("place", ["request", "element", "large"])
def test_a_tagged_field_of_a_newer_client_is_ignored(place):
    """KIP-482. Found by the fuzzer: kio's reader raises KeyError for it."""
    schema, tag = schema_of(3, 11), b"\x01\x63\x02no"
    topic = schema.request_types.MetadataRequestTopic
    topics = tuple(topic(topic_id=None, name=name) for name in ("a", "b"))
    frame = b"".join(schema.write_request(schema.request(topics=topics, **REST)))
    if place == "request":
        assert frame.endswith(b"\0")
        frame = frame[:-1] + tag
    else:
        assert frame.count(b"\x02b\0") == 1
        frame = frame.replace(b"\x02b\0", b"\x02b" + tag)
    schema.check_request(frame, 0)
    read = schema.read_checked
    if place == "large":
        read = lambda *at: drained(schema.reading_checked(*at))  # noqa: E731
    assert read(frame, 0).topics == topics


def test_a_nullable_struct_has_unknown_tags_too():
    schema = schema_of(75, 0)
    types = schema.request_types
    for cursor in (None, types.Cursor(topic_name="a", partition_index=7)):
        request = schema.request(
            topics=(types.TopicRequest(name="t"),), response_partition_limit=5, cursor=cursor
        )
        frame = b"".join(schema.write_request(request))[:-1] + b"\x01\x63\x02no"
        assert schema.read_request(frame, 0) == request


@pytest.mark.parametrize("there", [b"\x01", b"\x9b"])
def test_a_struct_is_checked_where_kio_reads_it(there):
    """Kafka takes any negative byte for no structure, kio -1 alone."""
    schema = schema_of(75, 0)
    types = schema.request_types
    topics, cursor = (
        (types.TopicRequest(name="t"),),
        types.Cursor(topic_name="a", partition_index=7),
    )
    request = schema.request(topics=topics, response_partition_limit=5, cursor=cursor)
    frame = b"".join(schema.write_request(request))
    head, tail = frame[: -len(CURSOR)], frame[-len(CURSOR) :]
    assert tail == CURSOR
    frame = head + there + tail[1:]
    assert schema.read_request(frame, 0) == request
    assert drained(schema.reading_checked(frame, 0)) == request
    with pytest.raises(FrameError, match="ends before"):
        schema.check_request(frame[:-3], 0)


CURSOR = b"\x01\x02a\0\0\0\x07\0\0"
