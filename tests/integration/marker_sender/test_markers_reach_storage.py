"""Controller, storage and marker sender together, as one process composes them: markers become control batches."""

import asyncio

from tests.integration.storage.storage_node import Calls

from oncelog.api.v1 import controller_pb2 as metadata_pb
from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog.rpc import plain
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import MetadataFollower
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller
from oncelog_marker_sender.settings import MarkerSenderSettings
from oncelog_marker_sender.wiring import build_marker_sender
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wiring import build_storage


def marker(producer_id, producer_epoch, *partitions, coordinator_epoch=0):
    return storage_pb2.TxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        commit=True,
        coordinator_epoch=coordinator_epoch,
        transaction_version=1,
        partitions=[types_pb2.TopicPartition(topic="orders", partition=p) for p in partitions],
    )


async def control_batches(storage, partition):
    """(producer id, producer epoch) of each control batch in the partition."""
    fetched = await Calls(storage).fetch("orders", 0, partition)
    assert fetched.error_code == 0
    found = [header for _, header in iter_headers(fetched.records) if header.is_control]
    return [(header.producer_id, header.producer_epoch) for header in found]


async def test_markers_become_control_batches_and_fence_zombies(
    tmp_path,
):
    url = f"sqlite:///{tmp_path / 'c.db'}"
    controller = build_controller(ControllerSettings(database_url=url))
    await controller.start()
    stub = DirectStub(controller.servicer)
    node = metadata_pb.Node(node_id=1, roles=[2, 3, 4], kafka_host="localhost")
    await stub.RegisterNode(metadata_pb.RegisterNodeRequest(node=node, incarnation_id="a"))
    follower = MetadataFollower(1, stub)
    following = asyncio.create_task(follower.run())
    storage = DirectStub()
    directory = LocalDirectory(
        storage=storage, coordinator=None, marker_sender=None, controller=stub
    )
    settings = StorageSettings(data_dir=tmp_path / "logs")
    await follower.wait_until(0)
    storage_role = build_storage(settings, 1, follower, directory)
    storage.bind(storage_role.servicer)
    await storage_role.start()
    sender_role = build_marker_sender(MarkerSenderSettings(), follower, directory)
    await sender_role.start()
    sender = DirectStub(sender_role.servicer)
    made = await stub.CreateTopics(
        metadata_pb.CreateTopicsRequest(
            topics=[metadata_pb.NewTopic(name="orders", partitions=2, replication_factor=-1)]
        )
    )
    await follower.wait_until(made.metadata_offset)

    batch = pb.DeliverMarkersRequest(
        shard=1, markers=[marker(7, 3, 0, 1), marker(8, 0, 0), marker(9, 0, 0, 1)]
    )
    for _ in range(2):  # the coordinator may repeat the call
        answer = await sender.DeliverMarkers(batch)
        assert (answer.outcome, list(answer.dropped)) == (pb.DELIVERED, [])
    assert (await control_batches(storage, 0))[:3] == [(7, 3), (8, 0), (9, 0)]
    assert (await control_batches(storage, 1))[:2] == [(7, 3), (9, 0)]
    zombie = pb.DeliverMarkersRequest(shard=1, markers=[marker(7, 2, 0)])
    assert (await sender.DeliverMarkers(zombie)).outcome == pb.FENCED

    markers = [
        plain.TxnMarker(producer_id, 0, True, 0, 1, 0, "", (Partition(topic, 1),), shard=1)
        for producer_id, topic in ((10, "orders"), (11, "gone"))
    ]
    at_once = plain.DeliverMarkersRequest(markers, made.metadata_offset)
    assert sender.DeliverAtOnce(at_once) == [True, False]
    assert (await control_batches(storage, 1))[-1] == (10, 0)
    of_later_metadata = plain.DeliverMarkersRequest(markers, made.metadata_offset + 99)
    assert sender.DeliverAtOnce(of_later_metadata) == [False, False]

    await sender_role.stop()
    await storage_role.stop()
    await controller.stop()
    await asyncio.wait_for(following, 30)
