"""Asks the controllers of a cluster about it, as a test or a command outside of it, with plain gRPC."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

import grpc

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.channel import PlainStub, open_blocking_channel
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.metadata import MetadataImage
from oncelog.rpc.sessions import PeerTls
from oncelog_server.cluster.os_process import POLL_S

ASK_TIMEOUT_S: Final = 2.0


def describe_controller(
    address: str, tls: PeerTls | None = None
) -> pb.DescribeControllerResponse | None:
    """Return what a controller answers about itself; None when it does not answer."""
    request = pb.DescribeControllerRequest()
    with open_blocking_channel(address, tls) as channel:
        controller = PlainStub(channel, CONTROLLER)
        try:
            answer: pb.DescribeControllerResponse = controller.DescribeController(
                request, timeout=ASK_TIMEOUT_S
            )
        except grpc.RpcError:
            return None
        return answer


def is_active(address: str, tls: PeerTls | None = None) -> bool:
    answer = describe_controller(address, tls)
    return answer is not None and answer.active


def read_image(addresses: Iterable[str], tls: PeerTls | None = None) -> MetadataImage | None:
    """Return the metadata image (the cluster's metadata) of the first of these controllers that gives one; None if none
    does.
    """
    request = pb.WatchMetadataRequest(from_metadata_offset=-1)
    for address in addresses:
        with open_blocking_channel(address, tls) as channel:
            controller = PlainStub(channel, CONTROLLER)
            updates = controller.WatchMetadata(request, timeout=ASK_TIMEOUT_S)
            try:
                for update in updates:
                    return MetadataImage().updated(update)
            except grpc.RpcError:
                continue
            finally:
                updates.cancel()
    return None


def await_whole(
    controllers: Sequence[str], node_ids: Sequence[int], timeout_s: float, tls: PeerTls | None
) -> str:
    """Wait until every node is in service and every partition and shard is led and owned. Returns what is still
    missing at the deadline; empty: nothing.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        image = read_image([one for one in controllers if is_active(one, tls)], tls)
        missing = "no controller is active" if image is None else what_is_missing(image, node_ids)
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(POLL_S)


def what_is_missing(image: MetadataImage, node_ids: Iterable[int]) -> str:
    """Return in words what is still missing: a node in service, a partition's leader, or a shard's coordinator. Empty
    when nothing is.
    """
    for node_id in node_ids:
        node = image.nodes.get(node_id)
        if node is None or node.fenced:
            return f"node {node_id} is not in service"
    if not image.shards:
        return "the internal topics are not there"
    for (_, number), shard in image.shards.items():
        if shard.coordinator < 0:
            return f"shard {number} has no coordinator"
    for topic in image.topics.values():
        for one in topic.partitions:
            if one.leader < 0:
                return f"{topic.name}-{one.partition} has no leader"
    return ""
