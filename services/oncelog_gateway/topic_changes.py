"""Changes topics for REST: the controller makes the change, this process's metadata image must show it, and the audit
log records it.
"""

from collections.abc import Callable
from typing import TypeVar

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.stubs import ControllerStub, Unary
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.operators import Operator
from oncelog_gateway.roles import Roles, raise_for
from oncelog_gateway.topic_resources import (
    AddPartitionsRequest,
    AlterConfigsRequest,
    CreateTopicRequest,
)

RequestT = TypeVar("RequestT")
TopicsAnswerT = TypeVar(
    "TopicsAnswerT", pb.CreateTopicsResponse, pb.DeleteTopicsResponse, pb.CreatePartitionsResponse
)


class TopicChanges:
    """Changes topics. Every method raises KafkaError, and returns once this gateway's metadata image shows the change.

    A dry run is sent to the controller like the change itself. It is not in the audit log, because it changes nothing.
    """

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def create(self, operator: Operator, body: CreateTopicRequest) -> pb.TopicResult:
        topic = pb.NewTopic(
            name=body.name,
            partitions=body.partition_count,
            replication_factor=-1 if body.replication_factor is None else body.replication_factor,
            configs=body.configs,
        )
        request = pb.CreateTopicsRequest(topics=[topic], validate_only=body.dry_run)
        if body.dry_run:
            return await self._ask(lambda controller: controller.CreateTopics, request, body.name)
        async with self._audit.attempt(operator, "create_topic", body.model_dump()) as attempt:
            result = await self._ask(
                lambda controller: controller.CreateTopics, request, body.name, is_seen=True
            )
            attempt.detail = f"topic {body.name!r} has {result.partitions} partitions"
        return result

    async def delete(self, operator: Operator, name: str) -> None:
        request = pb.DeleteTopicsRequest(names=[name])
        async with self._audit.attempt(operator, "delete_topic", {"name": name}) as attempt:
            await self._ask(lambda controller: controller.DeleteTopics, request, name, is_seen=True)
            attempt.detail = f"topic {name!r} is deleted with its records"

    async def add_partitions(
        self, operator: Operator, name: str, body: AddPartitionsRequest
    ) -> str | None:
        """Add partitions and return the audit id; None for a dry run."""
        wanted = pb.NewPartitions(name=name, count=body.partition_count)
        request = pb.CreatePartitionsRequest(topics=[wanted], validate_only=body.dry_run)
        if body.dry_run:
            await self._ask(lambda controller: controller.CreatePartitions, request, name)
            return None
        target = {"name": name, **body.model_dump()}
        async with self._audit.attempt(operator, "add_partitions", target) as attempt:
            await self._ask(
                lambda controller: controller.CreatePartitions, request, name, is_seen=True
            )
            attempt.detail = f"topic {name!r} has {body.partition_count} partitions"
        return attempt.audit_id

    async def alter_configs(
        self, operator: Operator, name: str, body: AlterConfigsRequest
    ) -> str | None:
        """Change configs of a topic and return the audit id; None for a dry run."""
        request = pb.AlterConfigsRequest(
            name=name,
            set={key: value for key, value in body.configs.items() if value is not None},
            remove=[key for key, value in body.configs.items() if value is None],
            validate_only=body.dry_run,
        )
        if body.dry_run:
            await self._alter(request)
            return None
        target = {"name": name, **body.model_dump()}
        async with self._audit.attempt(operator, "alter_topic_configs", target) as attempt:
            await self._roles.seen(await self._alter(request))
            attempt.detail = f"topic {name!r}: {', '.join(body.configs)} changed"
        return attempt.audit_id

    async def _alter(self, request: pb.AlterConfigsRequest) -> int:
        """Send a change of configs to the controller, and return the metadata offset at which it is visible."""
        answer = await self._roles.ask_controller(
            lambda controller: controller.AlterConfigs, request
        )
        status = answer.status
        raise_for(status.error_code, status.error_message or f"topic {request.name!r}")
        return answer.metadata_offset

    async def _ask(
        self,
        method: Callable[[ControllerStub], Unary[RequestT, TopicsAnswerT]],
        request: RequestT,
        name: str,
        *,
        is_seen: bool = False,
    ) -> pb.TopicResult:
        answer = await self._roles.ask_controller(method, request)
        if len(answer.results) != 1:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller did not answer for topic {name!r}"
            )
        result = answer.results[0]
        raise_for(result.error_code, result.error_message or f"topic {name!r}")
        if is_seen:
            await self._roles.seen(answer.metadata_offset)
        return result
