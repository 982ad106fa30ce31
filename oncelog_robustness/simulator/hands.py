"""The actions of a workload (a set of test clients with a plan) on the simulated cluster itself: kill a process at a
moment that the workload chooses, or act as the operator."""

import random

from oncelog.api.v1 import coordinator_pb2
from oncelog_robustness.clients.transaction_calls import Identity
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.simulator.cluster import SimCluster
from oncelog_robustness.simulator.injector import SimInjector
from oncelog_robustness.simulator.lab import SimLab
from oncelog_robustness.simulator.operators import Operator
from oncelog_robustness.simulator.world import World

_WITHOUT_STEP: float = 0.0
"""The `strength` of a planned kill that comes at once. A kill with a high strength comes between two operations on a
disk."""


class SimHands:
    """Lets the workload `prepared` act on the simulated cluster: it kills processes while prepared
    transactions (KIP-939) are open, and completes such transactions as an operator does."""

    def __init__(
        self, world: World, cluster: SimCluster, injector: SimInjector, lab: SimLab
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._injector = injector
        self._operator: Operator = injector.operator
        self._lab = lab
        self._draw: random.Random = world.streams.stream("hands of workloads")

    async def kill_one_of(self, role: str, lasts_ms: int) -> None:
        """Kill one process of the role, chosen by a draw, and start it again after `lasts_ms`."""
        target = self._draw.choice(self._cluster.names(role))
        fault = PlannedFault(self._lab.now_ms(), lasts_ms, FaultKind.KILL, target, _WITHOUT_STEP)
        self._lab.note_fault(fault)
        await self._injector.begin(fault)
        self._world.loop.call_later(
            lasts_ms / 1000, self._end, fault, context=self._world.own_context
        )

    def _end(self, fault: PlannedFault) -> None:
        self._world.loop.create_task(self._injector.end(fault), context=self._world.own_context)

    async def open_transaction(self, transactional_id: str) -> Identity | None:
        """Return the producer id and epoch of the transactional id's open transaction; None if it has none,
        or no coordinator answered."""
        request = coordinator_pb2.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        for name in self._cluster.names("coordinator"):
            answer = await self._operator.ask_coordinator(name, "DescribeTransactions", request)
            for one in () if answer is None else answer.transactions:
                if not one.error_code:
                    is_open = one.state == "Ongoing"
                    return Identity(one.producer_id, one.producer_epoch) if is_open else None
        return None

    async def complete_prepared(
        self, transactional_id: str, transaction: Identity, *, is_commit: bool
    ) -> bool:
        """Ask the coordinators in turn to commit or abort the prepared transaction. True if one has done it;
        False if each refused or did not answer."""
        request = coordinator_pb2.CompletePreparedTransactionRequest(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=is_commit,
        )
        for name in self._cluster.names("coordinator"):
            answer = await self._operator.ask_coordinator(
                name, "CompletePreparedTransaction", request
            )
            if answer is not None and not answer.error_code:
                return True
        return False
