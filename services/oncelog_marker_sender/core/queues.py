"""The queues of the marker sender, without its calls: which marker waits for which node, and what an answer means for
it.

A delivery is one DeliverMarkers request: the transaction markers that one decision of a coordinator asks for. It is
split by partition: an entry is everything one delivery has for one partition, in order. An entry travels as a whole,
because the leader appends it in one write. It is always in exactly one place: the queue of its leader's node, the
holding queue while it has no leader, or the request in flight to a node.
There is one request in flight per node, and it carries what that node's queue holds.

```
add ──▶ queue[leader] ──take──▶ in flight ──answer──▶ written, dropped, or refused as fenced
            ▲   └── reroute ──▶ queue[other]   └── retry: to the current leader, after a backoff
         holding (leader unknown)
```

A delivery ends once: when nothing of it is queued any more, or when it is cancelled. A marker that a leader refuses as
fenced holds up no other one: the delivery goes on, and its end names what was refused. Answers for a delivery that has
ended find nothing and change nothing. Codes and what they mean: docs/kafka-facts.md, 8.11.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode
from oncelog.ids import CoordinatorEpoch, Millis, NodeId, Partition

HOLDING: Final = NodeId(-1)
"""The node id of the queue of entries whose leader is unknown."""

LeaderOf = Callable[[Partition], NodeId | None]
"""A function that returns the node that leads a partition, HOLDING while it has none, None when the partition does
not exist."""

_RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
_DROPPED: Final = frozenset(
    {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)


class Outcome(Enum):
    DELIVERED = "delivered"
    FENCED = "fenced"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of the marker queues and of one request. `retry_*` bound the backoff of an entry (the markers for one
    partition) and of an unreachable node; it doubles, and half of it is jitter.
    """

    queued_markers_max: int = 100_000
    request_markers_max: int = 10_000
    retry_backoff_ms: Millis = Millis(20)
    retry_backoff_max_ms: Millis = Millis(1000)

    def backoff_ms(self, attempt_count: int, jitter: float) -> Millis:
        """Return the backoff after the `attempt_count`-th failure in a row, in milliseconds; `jitter` is drawn from
        0 to 1."""
        full_ms = min(
            self.retry_backoff_max_ms, self.retry_backoff_ms << min(attempt_count - 1, 20)
        )
        return Millis(max(1, int(full_ms * (0.5 + jitter / 2))))


@dataclass(slots=True)
class Entry:
    """All markers that one delivery (one DeliverMarkers request) has for one partition; they go to its leader together.

    `markers` are their positions in the delivery, ascending.
    """

    delivery_id: int
    partition: Partition
    markers: tuple[int, ...]
    node_id: NodeId = HOLDING
    attempt_count: int = 0
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """One WriteTxnMarkers request: the markers that go to one node, by partition. Entries of one delivery (one
    DeliverMarkers request) stand together.
    """

    node_id: NodeId
    entries: tuple[Entry, ...]


class Refused(NamedTuple):
    """A marker that a leader refused as fenced, because the leader knows a newer epoch.

    `marker` is its position in the delivery, which is one DeliverMarkers request.
    """

    marker: int
    partition: Partition
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a delivery (one DeliverMarkers request), returned exactly once for each.

    `dropped` are the partitions that need no marker, because they were deleted or cannot hold one.
    """

    delivery_id: int
    outcome: Outcome
    dropped: tuple[Partition, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The effect of a node's answer: the deliveries that it ended, and `bugs`.

    `bugs` are messages about codes that no leader should give; their markers are sent again.
    """

    ended: tuple[Ended, ...] = ()
    bugs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of markers that wait for one node, those in flight too, and the age of the oldest in ms."""

    node_id: NodeId
    depth: int
    oldest_age_ms: int


@dataclass(slots=True)
class _Delivery:
    shard: int
    coordinator_epoch: CoordinatorEpoch
    added_ms: int
    pending: dict[Partition, Entry]
    dropped: list[Partition] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


_EntryKey = tuple[int, Partition]


class MarkerQueues:
    """The transaction markers that are not written yet, in a queue for each node that leads their partitions.

    The marker sender asks it for the next request to a node, and tells it each answer. Times are milliseconds of one
    monotonic clock.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deliveries: dict[int, _Delivery] = {}
        self._queues: dict[NodeId, dict[_EntryKey, Entry]] = {}
        self._in_flight: dict[NodeId, NodeRequest] = {}
        self._unreachable: dict[NodeId, tuple[int, int]] = {}  # (failures in a row, not before)
        self._next_delivery_id = 0
        self.marker_count = 0
        """The number of markers (each counted once per partition) of deliveries that have not ended."""

    def add(
        self,
        shard: int,
        coordinator_epoch: CoordinatorEpoch,
        markers: Sequence[Sequence[Partition]],
        leader_of: LeaderOf,
        now_ms: int,
    ) -> tuple[int, tuple[Ended, ...]] | None:
        """Queue the markers of one decision, each given as its partitions. Return (delivery id, its end if there is
        nothing to send).

        None means that there is no room. A delivery larger than all room is let in while half of the room is free. It
        would hang if it had to wait until nothing else is queued: the markers for a partition without a leader may be
        queued for long.
        """
        positions: dict[Partition, list[int]] = {}
        count = 0
        for position, partitions in enumerate(markers):
            for partition in dict.fromkeys(partitions):
                positions.setdefault(partition, []).append(position)
                count += 1
        most = self._limits.queued_markers_max
        wanted = count if count <= most else most - most // 2
        if self.marker_count and self.marker_count + wanted > most:
            return None
        delivery_id = self._next_delivery_id
        self._next_delivery_id += 1
        pending = {
            partition: Entry(delivery_id, partition, tuple(found))
            for partition, found in positions.items()
        }
        self._deliveries[delivery_id] = _Delivery(shard, coordinator_epoch, now_ms, pending)
        self.marker_count += count
        for entry in tuple(pending.values()):
            self._route(entry, leader_of)
        return delivery_id, self._ended_if_empty(delivery_id)

    def missing(self, delivery_id: int) -> Iterator[tuple[int, Partition]]:
        """Yield (position of marker, partition) of each marker of this delivery that is not written yet, or was
        refused.
        """
        delivery = self._deliveries.get(delivery_id)
        if delivery is not None:
            for entry in delivery.pending.values():
                yield from ((marker, entry.partition) for marker in entry.markers)
            yield from ((one.marker, one.partition) for one in delivery.refused)

    def nodes_of(self, delivery_id: int) -> list[NodeId]:
        """Return the nodes that hold entries of this delivery in their queues, in order of first appearance."""
        delivery = self._deliveries.get(delivery_id)
        entries = delivery.pending.values() if delivery else ()
        return list(dict.fromkeys(entry.node_id for entry in entries if entry.node_id != HOLDING))

    def request_for_node(self, node_id: NodeId, now_ms: int) -> NodeRequest | None:
        """Take the next request to this node out of its queue: from now on it is in flight. None when one is in flight
        already, nothing is ready, or the node is backing off.
        """
        queue = self._queues.get(node_id)
        if not queue or node_id in self._in_flight or node_id == HOLDING:
            return None
        if node_id in self._unreachable and now_ms < self._unreachable[node_id][1]:
            return None
        entries: list[Entry] = []
        marker_count = 0
        for entry in queue.values():
            if entry.not_before_ms > now_ms:
                continue
            marker_count += len(entry.markers)
            if entries and marker_count > self._limits.request_markers_max:
                break
            entries.append(entry)
        if not entries:
            return None
        for entry in entries:
            del queue[entry.delivery_id, entry.partition]
        # A retried entry may have fallen behind others: what one delivery has for one node goes side by side.
        entries.sort(key=lambda entry: entry.delivery_id)
        request = NodeRequest(node_id, tuple(entries))
        self._in_flight[node_id] = request
        return request

    def next_ready_ms(self, node_id: NodeId) -> int | None:
        """Return when `request_for_node` may return a request again. None: only an answer, a new delivery or new
        metadata makes one ready.
        """
        queue = self._queues.get(node_id)
        if not queue or node_id in self._in_flight or node_id == HOLDING:
            return None
        entry_ms = min(entry.not_before_ms for entry in queue.values())
        return max(entry_ms, self._unreachable.get(node_id, (0, 0))[1])

    def settle_request(
        self,
        request: NodeRequest,
        codes: Mapping[tuple[int, int, Partition], ErrorCode],
        leader_of: LeaderOf,
        now_ms: int,
        jitter: float,
    ) -> Answered:
        """Apply a node's answer to its request in flight, and return what that ended.

        Markers that are written or refused leave the queues; the rest is queued again, after a backoff. `codes` has a
        code for each (delivery, position of marker, partition).
        """
        self._landed(request)
        self._unreachable.pop(request.node_id, None)
        ended: list[Ended] = []
        bugs: list[str] = []
        for entry in request.entries:
            delivery = self._deliveries.get(entry.delivery_id)
            if delivery is None:
                continue
            found = [
                codes.get((entry.delivery_id, marker, entry.partition)) for marker in entry.markers
            ]
            if any(code in _DROPPED for code in found):
                self._drop(entry)
            else:
                self._settle(entry, found)
                if entry.markers:
                    bugs += _bugs(request.node_id, entry, found)
                    self._retry(entry, leader_of, now_ms, jitter)
            ended += self._ended_if_empty(entry.delivery_id)
        return Answered(tuple(ended), tuple(bugs))

    def unanswered(
        self, request: NodeRequest, leader_of: LeaderOf, now_ms: int, jitter: float
    ) -> tuple[Ended, ...]:
        """Queue the entries of a failed request again, after a backoff: nobody knows which of its markers are written.

        Return the deliveries that ended because their partitions are deleted.
        """
        failure_count = self._unreachable.get(request.node_id, (0, 0))[0] + 1
        backoff_ms = self._limits.backoff_ms(failure_count, jitter)
        self._unreachable[request.node_id] = (failure_count, now_ms + backoff_ms)
        return self.given_up(request, leader_of)

    def given_up(self, request: NodeRequest, leader_of: LeaderOf) -> tuple[Ended, ...]:
        """Queue the entries of a request again without a backoff, because the task that sent it was cancelled.

        Return the deliveries that ended because their partitions are deleted.
        """
        self._landed(request)
        ended: list[Ended] = []
        for entry in request.entries:
            if entry.delivery_id in self._deliveries:
                self._route(entry, leader_of)
                ended += self._ended_if_empty(entry.delivery_id)
        return tuple(ended)

    def reroute(self, leader_of: LeaderOf) -> tuple[Ended, ...]:
        """Move queued entries to the current leaders after a change of the metadata, and end every backoff.

        Return the deliveries that ended because their partitions are deleted.
        """
        self._unreachable.clear()
        queued = [entry for queue in self._queues.values() for entry in queue.values()]
        self._queues.clear()
        ended: list[Ended] = []
        for entry in queued:
            entry.not_before_ms = 0
            self._route(entry, leader_of)
            ended += self._ended_if_empty(entry.delivery_id)
        return tuple(ended)

    def cancel_shard(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> tuple[Ended, ...]:
        """End, as cancelled, the deliveries that this shard's coordinators up to `coordinator_epoch` asked for.

        Return their results. A shard is a partition of `__transaction_state`.
        """
        found = [
            delivery_id
            for delivery_id, delivery in self._deliveries.items()
            if delivery.shard == shard and delivery.coordinator_epoch <= coordinator_epoch
        ]
        return tuple(self._end(delivery_id, Outcome.CANCELLED) for delivery_id in found)

    def cancel(self, delivery_id: int) -> tuple[Ended, ...]:
        """End one delivery as cancelled, because nobody waits for it. Return its result; () if it had ended before."""
        if delivery_id not in self._deliveries:
            return ()
        return (self._end(delivery_id, Outcome.CANCELLED),)

    def nodes(self) -> list[NodeId]:
        """Return the ids of the nodes for which markers are queued, ascending. HOLDING, the queue of markers without a
        known leader, is not among them.
        """
        return sorted(node_id for node_id, queue in self._queues.items() if queue and node_id >= 0)

    def depths(self, now_ms: int) -> tuple[QueueDepth, ...]:
        """Return the depth of every queue that is not empty: HOLDING (the leader is unknown) first, then by node."""
        entries: dict[NodeId, list[Entry]] = {}
        for node_id, queue in self._queues.items():
            entries.setdefault(node_id, []).extend(queue.values())
        for node_id, request in self._in_flight.items():
            entries.setdefault(node_id, []).extend(
                entry for entry in request.entries if entry.delivery_id in self._deliveries
            )
        return tuple(
            QueueDepth(
                node_id,
                sum(len(entry.markers) for entry in found),
                max(now_ms - self._deliveries[entry.delivery_id].added_ms for entry in found),
            )
            for node_id, found in sorted(entries.items())
            if found
        )

    # ------------------------------------------------------------------------------------------- one entry

    def _route(self, entry: Entry, leader_of: LeaderOf) -> None:
        """Move the entry to the queue of its partition's leader, or drop it if the partition is gone."""
        leader = leader_of(entry.partition)
        if leader is None:
            self._drop(entry)
            return
        entry.node_id = leader
        self._queues.setdefault(leader, {})[entry.delivery_id, entry.partition] = entry

    def _retry(self, entry: Entry, leader_of: LeaderOf, now_ms: int, jitter: float) -> None:
        refusing_node_id = entry.node_id
        entry.attempt_count += 1
        entry.not_before_ms = now_ms + self._limits.backoff_ms(entry.attempt_count, jitter)
        self._route(entry, leader_of)
        if entry.node_id != refusing_node_id:
            entry.not_before_ms = 0  # another node has not refused it

    def _settle(self, entry: Entry, codes: Sequence[ErrorCode | None]) -> None:
        """Apply the codes of an entry's markers: those that are written or refused as fenced are done, and the entry
        keeps the rest. A code of None: the answer says nothing of that marker.
        """
        refused = self._deliveries[entry.delivery_id].refused
        left: list[int] = []
        for marker, code in zip(entry.markers, codes, strict=True):
            if code is not None and code in _FENCED:
                refused.append(Refused(marker, entry.partition, code))
            elif code is not ErrorCode.NONE:
                left.append(marker)
        self.marker_count -= len(entry.markers) - len(left)
        entry.markers = tuple(left)
        if not left:
            self._remove(entry)

    def _drop(self, entry: Entry) -> None:
        self._deliveries[entry.delivery_id].dropped.append(entry.partition)
        self._remove(entry)

    def _remove(self, entry: Entry) -> None:
        del self._deliveries[entry.delivery_id].pending[entry.partition]
        self.marker_count -= len(entry.markers)

    # ---------------------------------------------------------------------------------------- one delivery

    def _landed(self, request: NodeRequest) -> None:
        in_flight = self._in_flight.pop(request.node_id, None)
        assert in_flight is request, (in_flight, request)

    def _ended_if_empty(self, delivery_id: int) -> tuple[Ended, ...]:
        delivery = self._deliveries[delivery_id]
        if delivery.pending:
            return ()
        outcome = Outcome.FENCED if delivery.refused else Outcome.DELIVERED
        return (self._end(delivery_id, outcome),)

    def _end(self, delivery_id: int, outcome: Outcome) -> Ended:
        delivery = self._deliveries.pop(delivery_id)
        for entry in delivery.pending.values():
            self._queues.get(entry.node_id, {}).pop((delivery_id, entry.partition), None)
            self.marker_count -= len(entry.markers)
        return Ended(delivery_id, outcome, tuple(delivery.dropped), tuple(delivery.refused))


def _bugs(node_id: NodeId, entry: Entry, codes: Sequence[ErrorCode | None]) -> list[str]:
    return [
        f"node {node_id} answered {code.name if code else 'nothing'} for a marker of {entry.partition}"
        for code in codes
        if code is not ErrorCode.NONE and code not in _RETRIED
    ]
