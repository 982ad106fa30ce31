"""What changes topics: asked of the controller, seen in this process's image, recorded in the audit log."""

from typing import Any

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import CreateTopicRequest
from oncelog_gateway.roles import Roles, raise_for


class TopicChanges:
    """Every method raises KafkaError, and returns once this gateway's image shows the change."""

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def create(self, operator: Operator, body: CreateTopicRequest) -> pb.TopicResult:
        topic = pb.NewTopic(
            name=body.name,
            partitions=body.partitions,
            replication_factor=-1 if body.replication_factor is None else body.replication_factor,
            configs=body.configs,
        )
        request = pb.CreateTopicsRequest(topics=[topic], validate_only=body.validate_only)
        if body.validate_only:
            return await self._ask("CreateTopics", request, body.name, is_seen=False)
        async with self._audit.attempt(operator, "create_topic", body.model_dump()) as attempt:
            result = await self._ask("CreateTopics", request, body.name)
            attempt.detail = f"topic {body.name!r} has {result.partitions} partitions"
        return result

    async def delete(self, operator: Operator, name: str) -> None:
        request = pb.DeleteTopicsRequest(names=[name])
        async with self._audit.attempt(operator, "delete_topic", {"name": name}) as attempt:
            await self._ask("DeleteTopics", request, name)
            attempt.detail = f"topic {name!r} is deleted with its records"

    async def _ask(
        self, method: str, request: Any, name: str, *, is_seen: bool = True
    ) -> pb.TopicResult:
        answer = await self._roles.ask_controller(method, request)
        if len(answer.results) != 1:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller did not answer for topic {name!r}"
            )
        result: pb.TopicResult = answer.results[0]
        raise_for(result.error_code, result.error_message or f"topic {name!r}")
        if is_seen:
            await self._roles.seen(answer.metadata_offset)
        return result
