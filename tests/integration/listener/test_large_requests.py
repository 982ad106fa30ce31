"""A request of tens of thousands of elements is answered whole, and no step of it holds up the event loop."""

import asyncio
import gc
import struct
import time
from dataclasses import replace

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import each, in_words, produce_request
from tests.worlds.listener.listener_world import World
from tests.worlds.listener.many_elements import ACROSS, AGAIN, LARGE, WITHIN, large_request
from tests.worlds.listener.wire_client import WireClient, is_alive

from oncelog.api.v1 import controller_pb2
from oncelog.process.garbage import collect_seldom
from oncelog.protocol import versions
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.shape import ELEMENTS_MAX
from oncelog.protocol.versions import APIS
from oncelog.protocol.writing import write_uvarint
from oncelog_listener.pieces import levels_of

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
STEP_MAX_S = 0.1
"""Twice what is wanted (50 ms): these tests share two processors with three others. What is quadratic takes seconds."""
ATTEMPTS = 5
"""The shortest counts: on a busy machine the same work takes twice the processor time."""


def names(count, end):
    return b"".join(b"\x07%06d" % number + end for number in range(count))


def find_coordinator_frame(count):
    head = write_request_head(FIND_COORDINATOR, 4, 1, "large", True)
    return framed([head, b"\0", write_uvarint(count + 1), names(count, b""), b"\0"])


def metadata_frame(count):
    head = write_request_head(METADATA, 9, 1, "large", True)
    return framed([head, write_uvarint(count + 1), names(count, b"\0"), bytes(4)])


def topic_partitions_frame(count):
    head = write_request_head(versions.DESCRIBE_TOPIC_PARTITIONS, 0, 1, "large", True)
    topics = write_uvarint(count + 1) + names(count, b"\0")
    return framed([head, topics, struct.pack(">ib", 10, -1), b"\0"])


def fetch_frame(count, name=b"orders", partition=None):
    head = write_request_head(FETCH, 11, 1, "large", False)
    fixed = struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1)  # waits for nothing
    topics = struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", count)
    partitions = b"".join(
        struct.pack(">iiqqi", number if partition is None else partition, -1, 0, -1, 1 << 20)
        for number in range(count)
    )
    return framed([head, fixed, topics, partitions, struct.pack(">ih", 0, 0)])


@pytest.fixture
def no_old_garbage():
    """As `oncelog up` does: what was there at the start is not looked at again."""
    before = gc.get_threshold()
    collect_seldom()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


async def longest_step(until):
    """Processor time of the longest step of the event loop, all its tasks together."""
    longest = 0.0
    while not until.done():
        before = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
    return longest


async def answered(client, frame):
    client.writer.write(frame)
    return await asyncio.wait_for(client.frame(), 30)


async def answered_in_short_steps(role, small, large, step_max_s=STEP_MAX_S):
    """The answer to the large frame. The small one comes before it: the first of its kind loads what it needs."""
    client = await WireClient.connect(role.port)
    await answered(client, small)
    steps = []
    while len(steps) < ATTEMPTS and min(steps, default=1) > step_max_s:
        task = asyncio.create_task(answered(client, large))
        steps.append(await longest_step(task))
    assert min(steps) <= step_max_s, steps
    return await task


CASES = [
    (FIND_COORDINATOR, 4, find_coordinator_frame, lambda answer: len(answer.coordinators)),
    (METADATA, 9, metadata_frame, lambda answer: len(answer.topics)),
    (versions.DESCRIBE_TOPIC_PARTITIONS, 0, topic_partitions_frame, lambda one: len(one.topics)),
    (FETCH, 11, fetch_frame, lambda answer: len(answer.responses[0].partitions)),
]


@pytest.mark.usefixtures("no_old_garbage")
@pytest.mark.parametrize("authorizer", ["none", "acl"])
@pytest.mark.parametrize(("api_key", "version", "frame_of", "count_of"), CASES)
async def test_no_step_of_a_large_request_is_long(api_key, version, frame_of, count_of, authorizer):
    count = ELEMENTS_MAX - 10
    world = World(topic("orders", 1), auto_create_topics=False, authorizer=authorizer)
    async with world.listening() as role:
        frame = await answered_in_short_steps(role, frame_of(10), frame_of(count))
        position = 5 if api_key != FETCH else 4
        answer = schema_of(api_key, version).read_response(frame, position)
        assert count_of(answer) == count


# Where the answers stand of APIs whose requests are not cut.
IN_TURNS = {
    versions.OFFSET_COMMIT: ("topics", "partitions"),
    versions.TXN_OFFSET_COMMIT: ("topics", "partitions"),
    versions.ADD_PARTITIONS_TO_TXN: ("results_by_topic_v3_and_below", "results_by_partition"),
    versions.DESCRIBE_CONFIGS: ("results",),
    versions.INCREMENTAL_ALTER_CONFIGS: ("responses",),
    versions.DESCRIBE_TOPIC_PARTITIONS: ("topics",),
    versions.ALTER_REPLICA_LOG_DIRS: ("results", "partitions"),
}
NOTHING_MOVES = "ListPartitionReassignments"
WITH_AN_INNER_ARRAY = [
    "Produce",
    "ListOffsets",
    "OffsetFetch of a group",
    "WriteTxnMarkers",
    "DescribeLogDirs",
]
SHAPES = [(name, shape) for name in LARGE for shape in (ACROSS, AGAIN)]
SHAPES += [(name, WITHIN) for name in WITH_AN_INNER_ARRAY]


def frame_of(name, count, shape):
    api_key, version, request = large_request(name, count, shape)
    head = write_request_head(api_key, version, 1, "large", APIS[api_key].is_flexible(version))
    return api_key, version, framed([head, *schema_of(api_key, version).write_request(request)])


def answers_in(api_key, version, frame):
    position = 5 if APIS[api_key].response_has_tags(version) else 4
    nodes = [schema_of(api_key, version).read_response(frame, position)]
    levels = [level.answered for level in levels_of(api_key, version)]
    if levels == ["groups", "topics", "partitions"]:
        del levels[1:]  # All offsets of each group are asked for, and none has any.
    for field in levels or IN_TURNS[api_key]:
        nodes = [element for node in nodes for element in getattr(node, field)]
    return nodes


def answers_expected(name, shape, count):
    if name == NOTHING_MOVES or (name == "DescribeLogDirs" and shape == ACROSS):
        return 0
    if name in ("OffsetCommit", "TxnOffsetCommit") and shape == AGAIN:
        return count - 1  # Kafka answers each of them, too.
    if shape == AGAIN or name == "CreateTopics with configs":
        return 1
    if name == "WriteTxnMarkers, many":
        return count // 3
    if name in ("WriteTxnMarkers", "AlterReplicaLogDirs"):
        count -= 1
    if shape == WITHIN:
        return count - 1
    return count // 2 if levels_named_by_topic(name) else count


def levels_named_by_topic(name):
    """Its requests name partitions, each in its topic."""
    api_key, version = LARGE[name][:2]
    return len(levels_of(api_key, version) or IN_TURNS[api_key]) > 1 and name != "OffsetFetch"


@pytest.mark.usefixtures("no_old_garbage")
@pytest.mark.parametrize(("name", "shape"), SHAPES)
async def test_every_api_answers_many_elements_in_short_steps(name, shape):
    count = ELEMENTS_MAX // 2
    partitions = count if shape == WITHIN else 1
    world = World(topic("orders", partitions), auto_create_topics=False)
    world.controller.canned["CreateTopics"] = controller_pb2.CreateTopicsResponse()
    async with world.listening() as role:
        api_key, version, large = frame_of(name, count, shape)
        _, _, small = frame_of(name, 5, shape)
        # Half of the elements: what takes all of them in one step is as long as with all.
        frame = await answered_in_short_steps(role, small, large, STEP_MAX_S / 2)
        answers = answers_in(api_key, version, frame)
        assert len(answers) == answers_expected(name, shape, count)


async def test_others_are_answered_while_large_requests_are(world):
    async with world.listening() as role:
        large = [await WireClient.connect(role.port) for _ in range(3)]
        frame = find_coordinator_frame(20_000)
        waiting = [asyncio.create_task(answered(one, frame)) for one in large]
        other = await WireClient.connect(role.port)
        for offset in range(10):
            produced = await other.call(PRODUCE, 7, request=produce_request())
            assert produced.responses[0].partition_responses[0].base_offset == offset
        assert not any(one.done() for one in waiting)
        for one in asyncio.as_completed(waiting):
            assert len(await one) > 20_000


async def test_more_elements_than_any_client_sends_cut_it_off(world):
    async with world.connected() as (role, client):
        client.writer.write(find_coordinator_frame(ELEMENTS_MAX + 1))
        assert await client.is_closed_by_peer()
        assert await is_alive(role)


async def test_a_partition_that_is_named_many_times_is_answered_once():
    """Its records would be sent again for each time."""
    world = World(topic("orders", 2))
    async with world.connected() as (_, client):
        await client.call(PRODUCE, 7, request=produce_request())
        frame = await answered(client, fetch_frame(5_000, partition=0))
        (answer,) = schema_of(FETCH, 11).read_response(frame, 4).responses
        (partition,) = answer.partitions
        assert (partition.partition_index, partition.error_code) == (0, 0)
        assert len(partition.records) < 200


async def test_a_topic_that_is_named_many_times_is_answered_once():
    world = World(topic("orders", 3))
    async with world.connected() as (_, client):
        request = in_words(METADATA, 9, name="orders")
        request = replace(request, topics=request.topics * 50)
        answer = await client.call(METADATA, 9, request=request)
        assert [len(one.partitions) for one in answer.topics] == [3]


async def test_a_topic_that_is_cut_is_answered_as_one():
    world = World(topic("orders", 1_500))
    async with world.connected() as (_, client):
        api_key, version, frame = frame_of("ListOffsets", 1_501, WITHIN)
        found = await answered(client, frame)
        (answer,) = schema_of(api_key, version).read_response(found, 5).topics
        assert [one.partition_index for one in answer.partitions] == list(range(1_500))
        assert {one.error_code for one in answer.partitions} == {0}
        assert max(len(one.partitions) for one in world.storage.received("ListOffsets")) <= 500


async def test_namings_far_apart_in_a_large_request_are_refused(world):
    async with world.connected() as (_, client):
        api_key, version, request = large_request("CreateTopics", 1_200, ACROSS)
        new = [replace(one, num_partitions=1) for one in request.topics]
        wanted = replace(request, topics=(*new, new[0]))
        answer = await client.call(api_key, version, request=wanted)
        codes = {one.name: one.error_code for one in answer.topics}
        assert (len(answer.topics), codes.pop(new[0].name)) == (1_200, 42)
        assert set(codes.values()) == {0}
        assert new[0].name not in world.metadata.image.topics


async def test_a_description_of_too_many_configs_cuts_its_client_off():
    world = World(*(topic(f"t{number:05d}", 1) for number in range(12_500)))
    async with world.connected() as (role, client):
        request = in_words(32, 4, resource_type=2, configuration_keys=None)
        wanted = each(request.resources, "resource_name", world.metadata.image.topics)
        client.send(32, 4, request=replace(request, resources=wanted))
        assert await asyncio.wait_for(client.reader.read(1), 30) == b""
        assert await is_alive(role)
