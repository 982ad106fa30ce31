"""What the controllers of a cluster say about it, asked from outside with plain gRPC."""

from collections.abc import Iterable
from typing import Any, Final

import grpc

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.contract import CONTROLLER, SERVICES
from oncelog.rpc.metadata import MetadataImage

ASK_TIMEOUT_S: Final = 2.0
_METHODS: Final = SERVICES[CONTROLLER].methods


def describe_controller(address: str) -> pb.DescribeControllerResponse | None:
    """None when it does not answer."""
    method = _METHODS["DescribeController"]
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(
            method.path, pb.DescribeControllerRequest.SerializeToString, method.response_from_string
        )
        try:
            answer: pb.DescribeControllerResponse = call(
                pb.DescribeControllerRequest(), timeout=ASK_TIMEOUT_S
            )
        except grpc.RpcError:
            return None
        return answer


def is_active(address: str) -> bool:
    answer = describe_controller(address)
    return answer is not None and answer.active


def read_image(addresses: Iterable[str]) -> MetadataImage | None:
    """The image of the first of these controllers that shows one."""
    method = _METHODS["WatchMetadata"]
    for address in addresses:
        with grpc.insecure_channel(address) as channel:
            watch: Any = channel.unary_stream(
                method.path, pb.WatchMetadataRequest.SerializeToString, method.response_from_string
            )
            updates = watch(pb.WatchMetadataRequest(from_metadata_offset=-1), timeout=ASK_TIMEOUT_S)
            try:
                for update in updates:
                    return MetadataImage().updated(update)
            except grpc.RpcError:
                continue
            finally:
                updates.cancel()
    return None


def what_is_missing(image: MetadataImage, node_ids: Iterable[int]) -> str:
    """What is missing for all of a cluster to be at work; empty when nothing is."""
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
