"""The metadata image behind a listener: one node that leads and owns everything."""

from oncelog.api.v1 import controller_pb2
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower

NODE_ID = 1


def topic(name, partitions, configs=None, leader=NODE_ID, internal=False):
    return controller_pb2.Topic(
        name=name,
        topic_id=name.encode().ljust(16, b"\1")[:16],
        internal=internal,
        configs=configs or {},
        partitions=[
            controller_pb2.Partition(
                partition=number, leader=leader, replicas=[leader], isr=[leader]
            )
            for number in range(partitions)
        ],
    )


def follower(*topics, shards=50, transaction_version=2):
    """A metadata follower whose image holds these topics."""
    metadata = MetadataFollower(NODE_ID, None)
    metadata.apply_update(
        controller_pb2.MetadataUpdate(
            metadata_offset=0,
            snapshot=controller_pb2.MetadataSnapshot(
                cluster_id="test-cluster",
                controller=NODE_ID,
                nodes=[controller_pb2.Node(node_id=NODE_ID)],
                topics=topics,
                shards=[
                    controller_pb2.Shard(kind=kind, shard=number, coordinator=NODE_ID)
                    for kind in (TRANSACTION, GROUP)
                    for number in range(shards)
                ],
                features=controller_pb2.Features(
                    features_epoch=4, levels={"transaction.version": transaction_version}
                ),
            ),
        )
    )
    return metadata
