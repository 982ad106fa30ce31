"""Node ids that the controller gives to processes without state of their own, and so without a name (ADR 0025).

Such a process registers with node id 0. It gets an id from FIRST_GIVEN_ID on and keeps it for its life: its incarnation
id, which is drawn at its start, tells a repeated request from that of another process. When its session ends the node
is removed, and not fenced: a process that is started again asks for an id again, so nobody would ever remove the old
node.

A process that was removed while it was frozen or cut off asks for the id that it has, because it is built with it. It
is registered again if no other process has that id by now. So ids go round in a ring that each registration of any node
turns by one: an id comes again after some thousand registrations, and not with the next process that starts.
"""

from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog_controller.core.events import RegisterNode
from oncelog_controller.core.image import ClusterImage

FIRST_GIVEN_ID: Final = 1001
"""The first id that is given. In Kafka generated ids begin above reserved.broker.max.id, which is 1000."""

GIVEN_IDS: Final = 9_000
"""The number of ids to give. A process that restarts each second does not reach a neighbour's id for two hours."""

NO_ID: Final = 0
STATELESS_ROLES: Final = ("marker_sender", "listener", "gateway")


def asks_for_id(event: RegisterNode) -> bool:
    return event.node_id == NO_ID or event.given


def with_id(image: ClusterImage, event: RegisterNode) -> RegisterNode:
    """Return the registration with the node id that the process gets.

    Raises KafkaError with INVALID_REGISTRATION or DUPLICATE_BROKER_REGISTRATION.
    """
    if not set(event.roles) <= set(STATELESS_ROLES):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"node id {event.node_id} asks for one that the controller gives, which it does for "
            f"{', '.join(STATELESS_ROLES)} only, not for {', '.join(event.roles)}: "
            "its state belongs to its node id; set one from 1 to 1000",
        )
    if not event.rpc_address:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            "a node without rpc_address keeps no session, so its id could never be given to another one; set a node id",
        )
    if event.node_id == NO_ID:
        known = [one.node_id for one in image.nodes.values() if _is_same(one.incarnation_id, event)]
        return replace(event, node_id=known[0] if known else _next_free(image), given=True)
    if event.node_id < FIRST_GIVEN_ID:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"node id {event.node_id} was never given: given ids begin at {FIRST_GIVEN_ID}",
        )
    holder = image.nodes.get(event.node_id)
    if holder is not None and not _is_same(holder.incarnation_id, event):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"node id {event.node_id} was given to another process meanwhile; ask for a new one",
        )
    return event


def _is_same(incarnation_id: str, event: RegisterNode) -> bool:
    return incarnation_id == event.incarnation_id


def _next_free(image: ClusterImage) -> int:
    """Return the next free node id of the ring. Raises KafkaError if all ids are taken.

    The ring starts at the next node epoch, which each registration raises and the journal keeps already.
    """
    for turn in range(GIVEN_IDS):
        node_id = FIRST_GIVEN_ID + (image.next_node_epoch + turn) % GIVEN_IDS
        if node_id not in image.nodes:
            return node_id
    raise KafkaError(
        ErrorCode.INVALID_REGISTRATION,
        f"all {GIVEN_IDS} node ids from {FIRST_GIVEN_ID} on are taken; set a node id by hand",
    )
