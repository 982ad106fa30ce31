"""The requests of a transactional producer that are answered in the same step of the event loop in which they arrive
(ADR 0048).

This works only if the coordinator is in this process, accepts the request, and has it committed in this step. Every
other request, a refused one above all, goes the ordinary way (`transactions.py`), and nothing has happened before.
"""

from collections.abc import Sequence
from typing import Final, Protocol, cast

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, Partition, shard_of
from oncelog.protocol.frames import Frame
from oncelog.protocol.small_transaction import (
    SmallAddition,
    SmallOffsets,
    SmallRequest,
    read_small_addition,
    read_small_end_txn,
    read_small_offsets,
    small_addition_answer,
    small_answer,
)
from oncelog.rpc import plain
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.metadata import TRANSACTION
from oncelog_listener.brokers import is_leaving
from oncelog_listener.call import Session
from oncelog_listener.cluster import Cluster

_ADD: Final = "AddPartitionsAtOnce"
_END: Final = "EndTxnAtOnce"


class _AtOnce(Protocol):
    """A coordinator in this process, which can commit a request without a wait. False: it did not."""

    def AddPartitionsAtOnce(self, request: plain.AddPartitionsRequest) -> bool: ...  # noqa: N802
    def EndTxnAtOnce(self, request: plain.EndTxnRequest) -> bool: ...  # noqa: N802


def add_partitions_at_a_glance(cluster: Cluster, session: Session, frame: Frame) -> bytes | None:
    """Handle a small AddPartitionsToTxn at once, and return the response's frame. None: nothing was done, and
    `add_partitions_to_txn` must answer."""
    asked = read_small_addition(frame)
    if asked is None or asked.topic in INTERNAL_TOPICS:
        return None
    partitions = [Partition(asked.topic, partition) for partition in asked.partitions]
    is_added = _are_added(cluster, session, asked, partitions)
    return small_addition_answer(asked) if is_added else None


def add_offsets_at_a_glance(cluster: Cluster, session: Session, frame: Frame) -> bytes | None:
    """Handle a small AddOffsetsToTxn at once, and return the response's frame. None: nothing was done, and
    `add_offsets_to_txn` must answer."""
    asked = read_small_offsets(frame)
    offsets = cluster.image.topics.get(CONSUMER_OFFSETS_TOPIC)
    if asked is None or offsets is None or not offsets.partitions:
        return None
    number = shard_of(asked.group_id, len(offsets.partitions))
    partitions = [Partition(CONSUMER_OFFSETS_TOPIC, number)]
    return small_answer(asked) if _are_added(cluster, session, asked, partitions) else None


def _are_added(
    cluster: Cluster,
    session: Session,
    asked: SmallAddition | SmallOffsets,
    partitions: Sequence[Partition],
) -> bool:
    coordinator = _coordinator(cluster, session, asked.request.transactional_id, _ADD)
    if coordinator is None:
        return False
    request = plain.AddPartitionsRequest(
        asked.request.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        partitions,
        _origin(cluster, session, asked.request),
    )
    return coordinator.AddPartitionsAtOnce(request)


def end_txn_at_a_glance(cluster: Cluster, session: Session, frame: Frame) -> bytes | None:
    """Handle a small EndTxn at once, and return the response's frame. None: nothing was done, and `end_txn` must
    answer."""
    asked = read_small_end_txn(frame)
    if asked is None:
        return None
    coordinator = _coordinator(cluster, session, asked.request.transactional_id, _END)
    if coordinator is None:
        return None
    request = plain.EndTxnRequest(
        asked.request.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        asked.commit,
        _origin(cluster, session, asked.request),
    )
    return small_answer(asked) if coordinator.EndTxnAtOnce(request) else None


def _coordinator(cluster: Cluster, session: Session, name: str, method: str) -> _AtOnce | None:
    """Return the transaction's coordinator in this process; None: there is none, or the request must go the ordinary
    way."""
    # One that was refused for its connection tells of that when it comes again.
    if cluster.access.is_checked or session.refusals or is_leaving(cluster):
        return None
    shard = cluster.image.shard_for(TRANSACTION, name)
    if shard is None or shard.coordinator < 0:
        return None
    try:
        stub = cluster.directory.coordinator(shard.coordinator)
    except KeyError:
        return None
    return cast(_AtOnce, stub) if takes_plain(stub, method) else None


def _origin(cluster: Cluster, session: Session, asked: SmallRequest) -> plain.RequestOrigin:
    """Return the origin of a request (listener, connection and number on that connection), by which the coordinator
    recognises delayed requests. This request is not counted yet, so its number is one more than the count.
    """
    return plain.RequestOrigin(
        cluster.listener_start,
        session.connection,
        session.request_count + 1,
        asked.client_id or "",
        session.peer,
    )
