"""Spark sinks as REST shows them: who owns each, what it committed last, and what is open."""

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.paging import PageRequest, page_of
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import (
    Sink,
    SinkAttempt,
    SinkBranch,
    SinkDecision,
    SinkPage,
    SinkSummary,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import failure_of, known_or_none


class Sinks:
    """Every method raises KafkaError."""

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def page(self, paging: PageRequest) -> SinkPage:
        """In order of name. A silent coordinator is a failure in the page, unless all are silent."""
        found, failures = await self._roles.list_sinks()
        if failures and not found:
            raise failures[0]
        rows, next_cursor = page_of(found, lambda one: (one.sink,), paging)
        return SinkPage(
            sinks=[
                SinkSummary(
                    sink=one.sink,
                    kind="job" if one.is_job else "stream",
                    query_id=one.query_id,
                    last_committed_batch_id=known_or_none(one.last_committed_batch_id),
                    last_used_time_ms=known_or_none(one.last_used_ms),
                    attempt_count=one.attempt_count,
                )
                for one in rows
            ],
            total=len(found),
            next_cursor=next_cursor,
            incomplete=[failure_of(failure) for failure in failures],
        )

    async def describe(self, sink: str) -> Sink:
        """Its attempts, their branches, and the batches decided last."""
        answer = await self._roles.describe_sink(sink)
        return Sink(
            sink=answer.sink,
            query_id=answer.query_id,
            sink_epoch=answer.sink_epoch,
            last_committed_batch_id=known_or_none(answer.last_committed_batch_id),
            attempts=[_attempt(attempt) for attempt in answer.attempts],
            decisions=[
                SinkDecision(
                    batch_id=decision.batch_id,
                    nonce=decision.nonce.hex(),
                    branch_count=decision.branch_count,
                    row_count=decision.row_count,
                    row_checksum=f"{decision.row_checksum:016x}"
                    if decision.HasField("row_checksum")
                    else None,
                    decided_time_ms=decision.decided_time_ms,
                )
                for decision in answer.decisions
            ],
        )

    async def delete(self, operator: Operator, sink: str) -> None:
        async with self._audit.attempt(operator, "delete_sink", {"sink": sink}) as attempt:
            await self._roles.delete_sink(sink)
            attempt.detail = f"sink {sink!r} is forgotten"


def _attempt(attempt: pb.DescribeSinkResponse.Attempt) -> SinkAttempt:
    return SinkAttempt(
        nonce=attempt.nonce.hex(),
        batch_id=known_or_none(attempt.batch_id),
        state=attempt.state,
        opened_time_ms=attempt.opened_time_ms,
        deadline_ms=attempt.deadline_ms,
        branches=[
            SinkBranch(
                task_partition=branch.task_partition,
                task_attempt_id=branch.task_attempt_id,
                producer_id=branch.producer_id,
                producer_epoch=branch.producer_epoch,
                sealed=branch.sealed,
                row_count=branch.row_count,
            )
            for branch in attempt.branches
        ],
    )
