"""Asks every marker sender for its queues: markers of decided transactions that wait to be delivered to a node."""

from oncelog.api.v1 import controller_pb2, marker_sender_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.resources import MarkerQueue
from oncelog_gateway.roles import Roles, all_answers


async def marker_queues(roles: Roles) -> tuple[list[MarkerQueue], list[KafkaError]]:
    """Return the queues that are not empty, and the failures of the marker senders that did not answer."""

    async def queues_of(sender: int) -> list[MarkerQueue]:
        return [_queue(sender, one) for one in await roles.describe_marker_queues(sender)]

    image = roles.image
    senders = [
        node_id
        for node_id in sorted(image.nodes)
        if controller_pb2.ROLE_MARKER_SENDER in image.nodes[node_id].roles
    ]
    nobody = []
    if all(image.nodes[node_id].fenced for node_id in senders):
        text = "no marker sender is alive: start one"
        nobody.append(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text))
    found, failures = await all_answers(map(queues_of, senders))
    return [one for queues in found for one in queues], nobody + failures


def _queue(sender: int, queue: marker_sender_pb2.DescribeQueuesResponse.Queue) -> MarkerQueue:
    return MarkerQueue(
        marker_sender=sender,
        node=queue.node_id if queue.node_id >= 0 else None,
        marker_count=queue.depth,
        oldest_age_ms=queue.oldest_age_ms,
    )
