"""Evacuates and balances storage nodes for REST, one step a request; every step is audited.

Each step plans anew from the metadata image, and begins as many moves as fit. Nothing is kept between two steps, so any
gateway may take the next one, even after a restart.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.rpc.metadata import MetadataImage
from oncelog.wording import counted
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.replica_moves import Move, Placement, StorageNode, balance, evacuation
from oncelog_gateway.node_resources import (
    MOVES_SHOWN_MAX,
    BalanceRequest,
    EvacuateRequest,
    MoveStep,
    ReplicaMove,
    reassignment_failure,
)
from oncelog_gateway.operators import Operator
from oncelog_gateway.roles import Roles

REORDERS_MAX: Final = 100
"""Partitions whose replicas are only reordered in one step: as many as the controller elects in one run of its
balance.
"""

Plan = Callable[[MetadataImage], list[Move]]


class ReplicaMoves:
    """Evacuates and balances storage nodes. It plans in a thread: a plan of 10,000 partitions takes seconds. Methods
    raise KafkaError.
    """

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def evacuate(self, operator: Operator, request: EvacuateRequest) -> MoveStep:
        """Take one step of evacuating nodes. They are drained first, so that nothing new is placed there."""
        leaving = frozenset(request.node_ids)

        def plan(image: MetadataImage) -> list[Move]:
            _raise_if_no_storage(image, request.node_ids)
            return evacuation(list(_placements(image)), _storage_nodes(image), leaving)

        def left(image: MetadataImage, moves: Sequence[Move]) -> int:
            return sum(not leaving.isdisjoint(one.replicas) for _, one in _partitions(image))

        if request.dry_run:
            return self._shown(await self._planned(plan), left)
        target = request.model_dump()
        async with self._audit.attempt(operator, "evacuate_nodes", target) as attempt:
            moves = await self._planned(plan)
            for node_id in sorted(leaving):
                node = self._roles.image.nodes.get(node_id)
                if node is not None and not node.fenced and not node.draining:
                    await self._roles.drain_node(node_id, cancel=False)
            begun, failures = await self._begin(moves, request.in_motion_max)
            attempt.detail = _summary(moves, begun, failures)
        return self._step(moves, begun, failures, left, attempt.audit_id)

    async def balance(self, operator: Operator, request: BalanceRequest) -> MoveStep:
        """Take one step of balancing. Nodes that are fenced or draining neither give nor get replicas."""

        def plan(image: MetadataImage) -> list[Move]:
            return balance(list(_placements(image)), _storage_nodes(image))

        def left(image: MetadataImage, moves: Sequence[Move]) -> int:
            begun = {
                Partition(name, one.partition)
                for name, one in _partitions(image)
                if _is_under_way(one)
            }
            return len(begun | {move.partition for move in moves})

        if request.dry_run:
            return self._shown(await self._planned(plan), left)
        target = request.model_dump()
        async with self._audit.attempt(operator, "balance_nodes", target) as attempt:
            moves = await self._planned(plan)
            begun, failures = await self._begin(moves, request.in_motion_max)
            attempt.detail = _summary(moves, begun, failures)
        return self._step(moves, begun, failures, left, attempt.audit_id)

    async def _planned(self, plan: Plan) -> list[Move]:
        return await asyncio.to_thread(plan, self._roles.image)

    async def _begin(
        self, moves: Sequence[Move], in_motion_max: int
    ) -> tuple[list[Move], dict[Partition, KafkaError]]:
        """Begin moves that copy data, so many that at most `in_motion_max` partitions are being reassigned. If there is
        no such move, reorder replicas, which decides the preferred leaders. Returns the moves that were begun, and the
        errors of those that failed.
        """
        copies = [move for move in moves if move.copies]
        room = max(0, in_motion_max - _under_way_count(self._roles.image))
        chosen = copies[:room] if copies else moves[:REORDERS_MAX]
        if not chosen:
            return [], {}
        failures = await self._roles.reassign({move.partition: move.target for move in chosen})
        if len(failures) == len(chosen):
            raise next(iter(failures.values()))
        return [move for move in chosen if move.partition not in failures], failures

    def _shown(self, moves: Sequence[Move], left: "Left") -> MoveStep:
        step = self._step(moves, moves[:MOVES_SHOWN_MAX], {}, left, None)
        return step.model_copy(update={"dry_run": True})

    def _step(
        self,
        moves: Sequence[Move],
        shown: Sequence[Move],
        failures: dict[Partition, KafkaError],
        left: "Left",
        audit_id: str | None,
    ) -> MoveStep:
        begun = set() if audit_id is None else {move.partition for move in shown}
        return MoveStep(
            dry_run=False,
            moves=[_resource(move) for move in shown],
            move_count=len(moves),
            copy_count=sum(move.copies for move in moves),
            left_count=left(
                self._roles.image, [move for move in moves if move.partition not in begun]
            ),
            under_way_count=_under_way_count(self._roles.image),
            failures=[reassignment_failure(one, error) for one, error in failures.items()],
            audit_id=audit_id,
        )


Left = Callable[[MetadataImage, Sequence[Move]], int]
"""Counts the partitions that are not yet where they should be, by an image and the moves that were not begun."""


def _partitions(image: MetadataImage) -> Iterator[tuple[str, pb.Partition]]:
    for name in sorted(image.topics):
        for one in image.topics[name].partitions:
            yield name, one


def _placements(image: MetadataImage) -> Iterator[Placement]:
    for name, one in _partitions(image):
        removing = frozenset(one.removing_replicas)
        replicas = tuple(node_id for node_id in one.replicas if node_id not in removing)
        yield Placement(Partition(name, one.partition), replicas, _is_under_way(one))


def _is_under_way(one: pb.Partition) -> bool:
    return bool(one.adding_replicas or one.removing_replicas)


def _under_way_count(image: MetadataImage) -> int:
    return sum(_is_under_way(one) for _, one in _partitions(image))


def _storage_nodes(image: MetadataImage) -> list[StorageNode]:
    return [
        StorageNode(node.node_id, node.rack, not node.fenced and not node.draining)
        for node in image.nodes.values()
        if pb.ROLE_STORAGE in node.roles
    ]


def _raise_if_no_storage(image: MetadataImage, node_ids: Sequence[int]) -> None:
    known = sorted(one.node_id for one in _storage_nodes(image))
    for node_id in node_ids:
        if node_id not in known:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"there is no storage node {node_id}; the storage nodes are {', '.join(map(str, known))}",
            )


def _resource(move: Move) -> ReplicaMove:
    return ReplicaMove(
        topic=move.partition.topic,
        partition=move.partition.partition,
        replicas=list(move.replicas),
        target_replicas=list(move.target),
        copy_count=move.copies,
    )


def _summary(
    moves: Sequence[Move], begun: Sequence[Move], failures: dict[Partition, KafkaError]
) -> str:
    text = f"began {len(begun)} of {counted(len(moves), 'move')}"
    return f"{text}; refused: {', '.join(map(str, failures))}" if failures else text
