"""Markers that wait for a node, as each marker sender has them."""

import asyncio

from oncelog.api.v1 import controller_pb2, marker_sender_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.resources import MarkerQueue
from oncelog_gateway.roles import Roles


async def marker_queues(roles: Roles) -> tuple[list[MarkerQueue], list[KafkaError]]:
    """Those that are not empty, and the marker senders that did not answer."""
    found: list[MarkerQueue] = []
    failures: list[KafkaError] = []

    async def ask(sender: int) -> None:
        try:
            queues = await roles.describe_marker_queues(sender)
        except KafkaError as error:
            failures.append(error)
            return
        found.extend(_queue(sender, one) for one in queues)

    image = roles.image
    senders = [
        node_id
        for node_id in sorted(image.nodes)
        if controller_pb2.ROLE_MARKER_SENDER in image.nodes[node_id].roles
    ]
    if all(image.nodes[node_id].fenced for node_id in senders):
        failures.append(
            KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no marker sender is alive: start one")
        )
    async with asyncio.TaskGroup() as group:
        for node_id in senders:
            group.create_task(ask(node_id))
    return found, failures


def _queue(sender: int, queue: marker_sender_pb2.DescribeQueuesResponse.Queue) -> MarkerQueue:
    return MarkerQueue(
        marker_sender=sender,
        node=queue.node_id if queue.node_id >= 0 else None,
        marker_count=queue.depth,
        oldest_age_ms=queue.oldest_age_ms,
    )
