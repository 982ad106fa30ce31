"""A batch that met no leader is told where to go next (KIP-951). Produce does so from version 10, Fetch from 16."""

import pytest
import uvloop
from tests.unit.listener.listener_image import NODE_ID, topic
from tests.unit.listener.listener_requests import produce_request
from tests.unit.listener.listener_world import World
from tests.unit.listener.wire_client import WireClient

from oncelog.api.v1 import storage_pb2

PRODUCE = 0
NOT_LEADER, UNKNOWN_TOPIC_OR_PARTITION = 6, 3


def answered(version, error_code, name="orders"):
    world = World(topic("orders", 1))
    response = storage_pb2.ProduceResponse()
    response.partitions.add(topic=name, partition=0, error_code=error_code, base_offset=-1)
    world.storage.canned["Produce"] = response

    async def scenario():
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            answer = await client.call(PRODUCE, version, request=produce_request(version, name))
            return answer, role.port

    answer, port = uvloop.run(scenario())
    return answer, answer.responses[0].partition_responses[0], port, world


@pytest.mark.parametrize("version", [10, 11, 12])
def test_the_listener_of_metadata_is_told_with_the_newest_epoch(version):
    answer, partition, port, world = answered(version, NOT_LEADER)
    assert partition.error_code == NOT_LEADER
    epoch = world.metadata.image.topics["orders"].partitions[0].leader_epoch
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (
        NODE_ID,
        epoch,
    )
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (NODE_ID, "127.0.0.1", port)


@pytest.mark.parametrize("error_code", [0, UNKNOWN_TOPIC_OR_PARTITION])
def test_nothing_is_told_with_any_other_answer(error_code):
    answer, partition, _, _ = answered(10, error_code)
    assert partition.current_leader.leader_id == -1
    assert answer.node_endpoints == ()


def test_older_versions_have_no_room_for_it():
    _, partition, _, _ = answered(9, NOT_LEADER)
    assert partition.error_code == NOT_LEADER
    assert not hasattr(partition, "current_leader")
