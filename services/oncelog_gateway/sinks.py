"""Spark sinks (exactly-once targets of streams) as REST shows them: the coordinator of each, what it committed last,
and what is open.
"""

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import (
    Sink,
    SinkAttempt,
    SinkDecision,
    SinkPage,
    SinkSummary,
    paged,
    resource_of,
)
from oncelog_gateway.roles import Roles


class Sinks:
    """Reads and deletes Spark sinks through their coordinators. Every method raises KafkaError."""

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def page(self, paging: PageRequest) -> SinkPage:
        """Return a page of sinks in order of name. A coordinator that does not answer is named in the page. Only if
        none answers, this raises.
        """
        found, failures = await self._roles.list_sinks()
        if failures and not found:
            raise failures[0]
        rows, about = paged(found, lambda one: (one.sink,), paging, failures)
        return SinkPage(sinks=[_summary(one) for one in rows], **about)

    async def describe(self, sink: str) -> Sink:
        """Return a sink with its attempts (tries to write a batch), the branches of each (one for each Spark task), and
        the batches decided last.
        """
        answer = await self._roles.describe_sink(sink)
        return resource_of(
            Sink,
            answer,
            attempts=[
                resource_of(SinkAttempt, one, nonce=one.nonce.hex()) for one in answer.attempts
            ],
            decisions=[_decision(one) for one in answer.decisions],
        )

    async def delete(self, operator: Operator, sink: str) -> None:
        async with self._audit.attempt(operator, "delete_sink", {"sink": sink}) as attempt:
            await self._roles.delete_sink(sink)
            attempt.detail = f"sink {sink!r} is forgotten"


def _summary(one: pb.ListSinksResponse.Sink) -> SinkSummary:
    kind = "job" if one.is_job else "stream"
    return resource_of(SinkSummary, one, kind=kind, last_used_time_ms=one.last_used_ms)


def _decision(one: pb.DescribeSinkResponse.Decision) -> SinkDecision:
    checksum = f"{one.row_checksum:016x}" if one.HasField("row_checksum") else None
    return resource_of(SinkDecision, one, nonce=one.nonce.hex(), row_checksum=checksum)
