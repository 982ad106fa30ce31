"""A client with a fetch session learns what one without it learns, in fewer bytes (KIP-227, KIP-516)."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import (
    batch,
    fetch_request,
    produce_request,
)
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2, storage_pb2
from oncelog.protocol.messages import schema_of

PRODUCE, FETCH = 0, 1
UNKNOWN_TOPIC, NOT_FOUND, BAD_EPOCH, UNKNOWN_ID, OTHER_ID, ID_ERROR = 3, 70, 71, 100, 103, 106
NAMES, IDS = 12, 17


def id_of(world, name="orders"):
    return UUID(bytes=world.metadata.image.topics[name].topic_id)


def request(world, version, partitions=(), session=(0, 0), forgotten=(), offset=0, **words):
    """A Fetch of these partitions of `orders`, in a session of (id, epoch)."""
    words = {"fetch_offset": offset, "current_leader_epoch": -1, **words}
    words |= {"session_id": session[0], "session_epoch": session[1], "rack_id": ""}
    if "topic_id" not in words:
        words["topic_id"] = id_of(world)
    made = fetch_request(version, partitions, max_wait_ms=0, **words)
    types = schema_of(FETCH, version).request_types
    gone = types.ForgottenTopic(
        topic="orders", topic_id=words["topic_id"], partitions=tuple(forgotten)
    )
    return replace(
        made,
        topics=made.topics if partitions else (),
        forgotten_topics_data=(gone,) if forgotten else (),
    )


class Reader:
    """A client that goes on with its session."""

    def __init__(self, world, client, version):
        self.world, self.client, self.version = world, client, version
        self.session = (0, 0)

    async def fetch(self, partitions=(), **fields):
        made = request(self.world, self.version, partitions, self.session, **fields)
        answer = await self.client.call(FETCH, self.version, request=made)
        self.session = (answer.session_id, self.session[1] + 1)
        return answer

    async def told(self, partitions=(), **fields):
        """partition → (error, high watermark, has records)."""
        answer = await self.fetch(partitions, **fields)
        assert answer.error_code == 0
        return {
            one.partition_index: (int(one.error_code), one.high_watermark, bool(one.records))
            for each in answer.responses
            for one in each.partitions
        }


async def produce(client, *partitions):
    records = [batch() if number in partitions else None for number in range(max(partitions) + 1)]
    made = produce_request(7, records=records)
    of_topic = made.topic_data[0]
    kept = tuple(one for one in of_topic.partition_data if one.index in partitions)
    made = replace(made, topic_data=(replace(of_topic, partition_data=kept),))
    await client.call(PRODUCE, 7, request=made)


def change(world, **delta):
    update = controller_pb2.MetadataUpdate(
        metadata_offset=world.metadata.image.metadata_offset + 1,
        delta=controller_pb2.MetadataDelta(**delta),
    )
    world.metadata.apply_update(update)


def deleted(world, name="orders"):
    change(world, removed_topics=[name])


def remade(world, name="orders", letter=b"z"):
    """The topic is deleted, and made again under its name."""
    deleted(world, name)
    new = topic(name, 2)
    new.topic_id = letter * 16
    change(world, topics=[new])


@pytest.mark.parametrize("version", [7, NAMES, 13, 18])
async def test_a_session_is_told_only_what_is_news(version):
    world = World(topic("orders", 3))
    async with world.connected() as (_, client):
        reader = Reader(world, client, version)
        assert await reader.told((0, 1, 2)) == dict.fromkeys(range(3), (0, 0, False))
        assert reader.session[0] > 0
        assert await reader.told() == {}
        await produce(client, 1)
        assert await reader.told() == {1: (0, 1, True)}
        assert await reader.told((1,), offset=1) == {}
        assert await reader.told(forgotten=(1,)) == {}
        await produce(client, 1, 2)
        assert await reader.told() == {2: (0, 1, True)}
        assert await reader.told((1,), offset=2) == {1: (0, 2, False), 2: (0, 1, True)}


@pytest.mark.parametrize("version", [NAMES, IDS])
async def test_leaders_are_asked_for_changes_of_the_whole_session(version):
    world = World(topic("orders", 2))
    async with world.connected() as (_, client):
        reader = Reader(world, client, version)
        await reader.told((0, 1))
        await reader.told()
    full, changes = world.storage.received("Fetch")
    assert (full.changes_only, changes.changes_only) == (False, True)
    assert [one.partition for one in changes.partitions] == [0, 1]
    assert {one.topic_id for one in (*full.partitions, *changes.partitions)} == {id_of(world).bytes}
    assert {one.known_high_watermark for one in changes.partitions} == {0}


@pytest.mark.parametrize(
    ("session", "version", "code"),
    [
        ((5, 1), NAMES, NOT_FOUND),
        (("own", 2), NAMES, BAD_EPOCH),
        (("own", 1), IDS, ID_ERROR),
    ],
)
async def test_a_session_that_cannot_go_on_is_refused(session, version, code):
    world = World(topic("orders", 2))
    async with world.connected() as (_, client):
        reader = Reader(world, client, NAMES)
        await reader.fetch((0, 1))
        own, epoch = session
        made = request(world, version, (0,), (reader.session[0] if own == "own" else own, epoch))
        answer = await client.call(FETCH, version, request=made)
        assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, ())
        reader.session = (reader.session[0], 0)
        assert (await reader.fetch((0,))).session_id > 0, "everything is named anew"


async def test_a_session_ends_with_its_connection_or_by_request():
    world = World(topic("orders", 2))
    async with world.connected() as (role, client):
        sessions = role.dispatcher._cluster.fetch_sessions
        reader = Reader(world, client, IDS)
        await reader.fetch((0, 1))
        other = await WireClient.connect(role.port)
        made = request(world, IDS, (0,), reader.session)
        assert (await other.call(FETCH, IDS, request=made)).error_code == NOT_FOUND
        reader.session = (reader.session[0], -1)
        answer = await reader.fetch((0,))
        assert (answer.session_id, len(answer.responses), len(sessions)) == (0, 1, 0)
        reader.session = (0, 0)
        await reader.fetch((0,))
        assert len(sessions) == 1
        client.close()
        await eventually(lambda: len(sessions) == sessions.partition_count == 0)


@pytest.mark.parametrize("session", [(0, -1), (0, 0)])
async def test_without_room_all_partitions_are_told(session):
    world = World(topic("orders", 2), fetch_sessions_max=0)
    async with world.connected() as (_, client):
        for _ in range(2):
            made = request(world, IDS, (0, 1), session)
            answer = await client.call(FETCH, IDS, request=made)
            assert (answer.session_id, answer.error_code) == (0, 0)
            assert len(answer.responses[0].partitions) == 2


async def test_a_session_that_is_too_large_ends_with_its_answer():
    world = World(topic("orders", 3), fetch_session_partitions_max=2)
    async with world.connected() as (_, client):
        reader = Reader(world, client, IDS)
        await reader.fetch((0, 1))
        answer = await reader.fetch((2,))
        assert answer.session_id == 0
        assert [one.partition_index for one in answer.responses[0].partitions] == [2]


# Topic ids.


@pytest.mark.parametrize("version", [13, 18])
async def test_a_reader_of_a_deleted_topic_is_told_so(version):
    """Of a name that is in use again, it gets nothing; nor does it stop those partitions that are there."""
    world = World(topic("orders", 2))
    async with world.connected() as (role, client):
        old_id, full = id_of(world), Reader(world, client, version)
        reader = Reader(world, await WireClient.connect(role.port), version)
        await reader.told((0, 1))
        remade(world)
        await produce(client, 0)
        assert await reader.told(topic_id=old_id) == dict.fromkeys((0, 1), (OTHER_ID, -1, False))
        assert await full.told((0,), topic_id=old_id) == {0: (UNKNOWN_ID, -1, False)}
        deleted(world)
        full.session = (0, 0)
        assert await full.told((0,), topic_id=old_id) == {0: (UNKNOWN_ID, -1, False)}


async def test_a_session_of_a_deleted_topic_is_told_so():
    world = World(topic("orders", 1))
    async with world.connected() as (_, client):
        reader, old_id = Reader(world, client, IDS), id_of(world)
        await reader.told((0,))
        deleted(world)
        assert await reader.told(topic_id=old_id) == {0: (UNKNOWN_TOPIC, -1, False)}


async def test_an_id_that_is_known_later_is_read_then():
    """This listener may hear of a new topic later than the client, by way of another one."""
    world = World(topic("orders", 1))
    async with world.connected() as (_, client):
        reader, new_id = Reader(world, client, IDS), UUID(bytes=b"z" * 16)
        assert await reader.told((0,), topic_id=new_id) == {0: (UNKNOWN_ID, -1, False)}
        assert await reader.told(topic_id=new_id) == {0: (UNKNOWN_ID, -1, False)}
        remade(world)
        assert await reader.told(topic_id=new_id) == {0: (0, 0, False)}


@pytest.mark.parametrize(("version", "code"), [(NAMES, UNKNOWN_TOPIC), (IDS, OTHER_ID)])
async def test_a_leader_that_knows_another_topic_is_believed(version, code):
    """Its node heard of the deletion before this one. Who names topics does not know the code."""
    world = World(topic("orders", 1))
    world.storage.canned["Fetch"] = _refused(OTHER_ID)
    async with world.connected() as (_, client):
        assert await Reader(world, client, version).told((0,)) == {0: (code, -1, False)}


def _refused(code):
    one = storage_pb2.FetchedPartition(
        topic="orders", error_code=code, high_watermark=-1, last_stable_offset=-1
    )
    return storage_pb2.FetchResponse(partitions=[one])


@pytest.mark.parametrize(("version", "code"), [(15, 6), (16, 6), (18, 74), (18, 56)])
async def test_a_reader_learns_where_a_lost_leader_is_now(version, code):
    """KIP-951: from Fetch 16 on, and with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH only."""
    world = World(topic("orders", 1))
    world.metadata.image.topics["orders"].partitions[0].leader_epoch = 9
    world.storage.canned["Fetch"] = _refused(code)
    async with world.connected() as (role, client):
        answer = await Reader(world, client, version).fetch((0,))
        (one,) = answer.responses[0].partitions
        leader = (one.current_leader.leader_id, one.current_leader.leader_epoch)
        if version < 16 or code == 56:
            assert (leader, getattr(answer, "node_endpoints", ())) == ((-1, -1), ())
            return
        (found,) = answer.node_endpoints
        assert leader == (found.node_id, 9) == (1, 9)
        assert (found.host, found.port) == ("127.0.0.1", role.port)
