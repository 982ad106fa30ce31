"""Partition reassignments as REST shows, begins and cancels them."""

from collections.abc import Mapping, Sequence

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.node_resources import (
    Reassignment,
    ReassignmentPage,
    ReassignRequest,
    ReassignResult,
    reassignment_failure,
)
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import paged, resource_of
from oncelog_gateway.roles import Roles


class Reassignments:
    """Lists reassignments from the metadata image, and changes them through the controller. Every change is audited.
    Methods raise KafkaError.
    """

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    def page(self, paging: PageRequest) -> ReassignmentPage:
        """Return a page of the reassignments under way, in order of topic and partition."""
        topics = self._roles.image.topics
        rows = [
            resource_of(Reassignment, one, topic=name)
            for name in sorted(topics)
            for one in topics[name].partitions
            if _is_under_way(one)
        ]
        page, about = paged(rows, lambda row: (row.topic, row.partition), paging)
        return ReassignmentPage(reassignments=page, **about)

    async def begin(self, operator: Operator, request: ReassignRequest) -> ReassignResult:
        """Begin a reassignment. It replaces one that is under way."""
        target = request.model_dump()
        async with self._audit.attempt(operator, "reassign_partitions", target) as attempt:
            wanted = {
                Partition(request.topic, one.partition): _rotated(request.replicas, one.partition)
                if request.partition is None
                else request.replicas
                for one in self._chosen(request.topic, request.partition)
            }
            failures = await self._ask(wanted)
            attempt.detail = _summary(f"replicas {request.replicas}", wanted, failures)
        return self._result(wanted, failures, attempt.audit_id)

    async def cancel(self, operator: Operator, topic: str, partition: int | None) -> ReassignResult:
        """Cancel the reassignment of a partition, or of all partitions of a topic if `partition` is None. The replicas
        that were being added are dropped; the others stay.
        """
        target = {"topic": topic, "partition": partition}
        async with self._audit.attempt(operator, "cancel_reassignment", target) as attempt:
            wanted: dict[Partition, Sequence[int]] = {
                Partition(topic, one.partition): ()
                for one in self._chosen(topic, partition)
                if _is_under_way(one)
            }
            if not wanted:
                raise KafkaError(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                    f"no reassignment of {_name(topic, partition)} is under way; "
                    "GET /v1/reassignments lists those that are",
                )
            failures = await self._ask(wanted)
            attempt.detail = _summary("cancelled", wanted, failures)
        return self._result(wanted, failures, attempt.audit_id)

    def _chosen(self, topic: str, partition: int | None) -> Sequence[pb.Partition]:
        found = self._roles.image.topics.get(topic)
        partitions = [] if found is None else list(found.partitions)
        chosen = [one for one in partitions if partition in (None, one.partition)]
        if not chosen:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no {_name(topic, partition)}; GET /v1/topics lists all",
            )
        return chosen

    async def _ask(self, wanted: Mapping[Partition, Sequence[int]]) -> dict[Partition, KafkaError]:
        """Reassign the partitions, and return the error of each that failed. Raises the first one when all failed."""
        failures = await self._roles.reassign(wanted)
        if len(failures) == len(wanted):
            raise next(iter(failures.values()))
        return failures

    def _result(
        self,
        wanted: Mapping[Partition, Sequence[int]],
        failures: Mapping[Partition, KafkaError],
        audit_id: str,
    ) -> ReassignResult:
        image = self._roles.image
        return ReassignResult(
            partitions=[
                resource_of(Reassignment, found, topic=partition.topic)
                for partition in wanted
                if partition not in failures and (found := image.partition(partition)) is not None
            ],
            failures=[
                reassignment_failure(partition, error) for partition, error in failures.items()
            ],
            audit_id=audit_id,
        )


def _rotated(replicas: Sequence[int], partition: int) -> Sequence[int]:
    """Return the replicas rotated by the partition's number, so that each partition has another preferred leader."""
    first = partition % len(replicas)
    return [*replicas[first:], *replicas[:first]]


def _is_under_way(one: pb.Partition) -> bool:
    return bool(one.adding_replicas or one.removing_replicas)


def _name(topic: str, partition: int | None) -> str:
    if partition is None:
        return f"topic {topic!r}"
    return f"partition {partition} of topic {topic!r}"


def _summary(
    what: str, wanted: Mapping[Partition, object], failures: Mapping[Partition, object]
) -> str:
    text = f"{what}: {counted(len(wanted) - len(failures), 'partition')}"
    return f"{text}; refused: {', '.join(map(str, failures))}" if failures else text
