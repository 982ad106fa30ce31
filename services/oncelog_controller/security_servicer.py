"""The part of the `Controller` service that changes ACLs, SCRAM credentials, client quotas, API tokens and logouts."""

import secrets
from abc import abstractmethod
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2 as types
from oncelog.errors import ErrorCode
from oncelog.rpc.security_image import api_token_of
from oncelog.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    enum_of,
)
from oncelog_controller.core.events import (
    AlterApiTokens,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CreateAcls,
    CreateToken,
    DeleteAcls,
    EndConsoleSession,
    FilterResult,
    MetadataEvent,
    RevokeToken,
    SecurityAnswer,
    TokenChange,
    UseToken,
)
from oncelog_controller.messages import acl_message, credential_row


class SecurityServicer:
    """Answers as gRPC handlers do; `context` is None on a direct call."""

    @abstractmethod
    async def _ask(self, event: Callable[[int], MetadataEvent]) -> Any:
        """The machine's answer, or the code of why there is none."""

    @staticmethod
    @abstractmethod
    def _refused(error_code: ErrorCode) -> types.Status:
        """What a caller is told that got no answer of the machine."""

    async def CreateAcls(
        self, request: pb.CreateAclsRequest, context: object
    ) -> pb.CreateAclsResponse:
        acls = tuple(_acl(acl) for acl in request.acls)
        answer = await self._ask(lambda request_id: CreateAcls(request_id, acls))
        return pb.CreateAclsResponse(
            results=self._statuses(answer, len(acls)), metadata_offset=_offset_of(answer)
        )

    async def DeleteAcls(
        self, request: pb.DeleteAclsRequest, context: object
    ) -> pb.DeleteAclsResponse:
        filters = tuple(_filter(one) for one in request.filters)
        answer = await self._ask(lambda request_id: DeleteAcls(request_id, filters))
        statuses = self._statuses(answer, len(filters))
        results = [pb.DeleteAclsResponse.Result(status=status) for status in statuses]
        if isinstance(answer, SecurityAnswer):
            for message, result in zip(results, answer.results, strict=True):
                if isinstance(result, FilterResult):
                    message.deleted.extend(map(acl_message, result.deleted))
        return pb.DeleteAclsResponse(results=results, metadata_offset=_offset_of(answer))

    async def AlterUserScramCredentials(
        self, request: pb.AlterUserScramCredentialsRequest, context: object
    ) -> pb.AlterUserScramCredentialsResponse:
        rows = tuple(credential_row(one) for one in request.credentials)
        key = b64encode(secrets.token_bytes(32)).decode()
        answer = await self._ask(
            lambda request_id: AlterUserScramCredentials(request_id, rows, key)
        )
        users = list(dict.fromkeys(row[0] for row in rows))
        return pb.AlterUserScramCredentialsResponse(
            results=[
                pb.AlterUserScramCredentialsResponse.Result(user=user, status=status)
                for user, status in zip(users, self._statuses(answer, len(users)), strict=False)
            ],
            metadata_offset=_offset_of(answer),
        )

    async def AlterClientQuotas(
        self, request: pb.AlterClientQuotasRequest, context: object
    ) -> pb.AlterClientQuotasResponse:
        changes = tuple(
            (
                tuple(
                    sorted(
                        (part.type, part.name if part.HasField("name") else None)
                        for part in change.entity
                    )
                ),
                tuple((one.key, None if one.remove else one.value) for one in change.operations),
            )
            for change in request.changes
        )
        answer = await self._ask(
            lambda request_id: AlterClientQuotas(request_id, changes, request.validate_only)
        )
        return pb.AlterClientQuotasResponse(
            results=self._statuses(answer, len(changes)), metadata_offset=_offset_of(answer)
        )

    async def AlterApiTokens(
        self, request: pb.AlterApiTokensRequest, context: object
    ) -> pb.AlterApiTokensResponse:
        changes = tuple(map(_token_change, request.changes))
        answer = await self._ask(lambda request_id: AlterApiTokens(request_id, changes))
        return pb.AlterApiTokensResponse(
            results=self._statuses(answer, len(changes)), metadata_offset=_offset_of(answer)
        )

    async def EndConsoleSession(
        self, request: pb.EndConsoleSessionRequest, context: object
    ) -> pb.EndConsoleSessionResponse:
        session = request.session
        answer = await self._ask(
            lambda request_id: EndConsoleSession(
                request_id, session.session_id, session.expires_ms, request.time_ms
            )
        )
        (status,) = self._statuses(answer, 1)
        return pb.EndConsoleSessionResponse(status=status, metadata_offset=_offset_of(answer))

    def _statuses(self, answer: SecurityAnswer | ErrorCode, count: int) -> Sequence[types.Status]:
        if isinstance(answer, ErrorCode):
            return [self._refused(answer)] * count
        return [
            types.Status(error_code=result.error_code, error_message=result.message)
            for result in answer.results
        ]


def _acl(message: pb.Acl) -> Acl:
    return Acl(
        enum_of(ResourceType, message.resource_type),
        message.resource_name,
        enum_of(PatternType, message.pattern_type),
        message.principal,
        message.host,
        enum_of(Operation, message.operation),
        enum_of(Permission, message.permission),
    )


def _filter(message: pb.DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter(
        enum_of(ResourceType, message.resource_type),
        message.resource_name if message.HasField("resource_name") else None,
        enum_of(PatternType, message.pattern_type),
        message.principal if message.HasField("principal") else None,
        message.host if message.HasField("host") else None,
        enum_of(Operation, message.operation),
        enum_of(Permission, message.permission),
    )


def _token_change(message: pb.AlterApiTokensRequest.Change) -> TokenChange:
    match message.WhichOneof("change"):
        case "create":
            return CreateToken(api_token_of(message.create))
        case "use":
            token = api_token_of(message.use)
            return UseToken(token.name, token.digest, token.last_used_ms)
        case _:
            return RevokeToken(message.revoke)


def _offset_of(answer: SecurityAnswer | ErrorCode) -> int:
    return -1 if isinstance(answer, ErrorCode) else answer.metadata_offset
