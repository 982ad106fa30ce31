"""The part of the `Controller` service that changes ACLs, SCRAM credentials, client quotas, API tokens and logouts."""

import secrets
from base64 import b64encode
from collections.abc import Callable

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2 as types
from oncelog.errors import ErrorCode
from oncelog.rpc.security_image import acl_of, api_token_of
from oncelog.security.acl import (
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
    RevokeToken,
    SecurityAnswer,
    TokenChange,
    UseToken,
)
from oncelog_controller.messages import acl_message, credential_row
from oncelog_controller.metadata_calls import MetadataCalls


class SecurityServicer(MetadataCalls):
    """The gRPC methods for ACLs, SCRAM credentials, quotas, API tokens and logouts.

    A caller in this process calls them directly, with None as `context`.
    """

    async def CreateAcls(
        self, request: pb.CreateAclsRequest, context: object
    ) -> pb.CreateAclsResponse:
        acls = tuple(map(acl_of, request.acls))
        answer = await self._ask(_refused(len(acls)), CreateAcls, acls)
        return pb.CreateAclsResponse(
            results=_statuses(answer), metadata_offset=answer.metadata_offset
        )

    async def DeleteAcls(
        self, request: pb.DeleteAclsRequest, context: object
    ) -> pb.DeleteAclsResponse:
        filters = tuple(_filter(one) for one in request.filters)
        answer = await self._ask(_refused(len(filters)), DeleteAcls, filters)
        results = [
            pb.DeleteAclsResponse.Result(
                status=status,
                deleted=map(acl_message, result.deleted)
                if isinstance(result, FilterResult)
                else (),
            )
            for result, status in zip(answer.results, _statuses(answer), strict=True)
        ]
        return pb.DeleteAclsResponse(results=results, metadata_offset=answer.metadata_offset)

    async def AlterUserScramCredentials(
        self, request: pb.AlterUserScramCredentialsRequest, context: object
    ) -> pb.AlterUserScramCredentialsResponse:
        rows = tuple(credential_row(one) for one in request.credentials)
        key = b64encode(secrets.token_bytes(32)).decode()
        users = list(dict.fromkeys(row[0] for row in rows))
        answer = await self._ask(_refused(len(users)), AlterUserScramCredentials, rows, key)
        return pb.AlterUserScramCredentialsResponse(
            results=[
                pb.AlterUserScramCredentialsResponse.Result(user=user, status=status)
                for user, status in zip(users, _statuses(answer), strict=False)
            ],
            metadata_offset=answer.metadata_offset,
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
            _refused(len(changes)), AlterClientQuotas, changes, request.validate_only
        )
        return pb.AlterClientQuotasResponse(
            results=_statuses(answer), metadata_offset=answer.metadata_offset
        )

    async def AlterApiTokens(
        self, request: pb.AlterApiTokensRequest, context: object
    ) -> pb.AlterApiTokensResponse:
        changes = tuple(map(_token_change, request.changes))
        answer = await self._ask(_refused(len(changes)), AlterApiTokens, changes)
        return pb.AlterApiTokensResponse(
            results=_statuses(answer), metadata_offset=answer.metadata_offset
        )

    async def EndConsoleSession(
        self, request: pb.EndConsoleSessionRequest, context: object
    ) -> pb.EndConsoleSessionResponse:
        session = request.session
        answer = await self._ask(
            _refused(1),
            EndConsoleSession,
            session.session_id,
            session.expires_ms,
            request.time_ms,
        )
        (status,) = _statuses(answer)
        return pb.EndConsoleSessionResponse(status=status, metadata_offset=answer.metadata_offset)


def _refused(count: int) -> Callable[[ErrorCode, str], SecurityAnswer]:
    return lambda error_code, reason: SecurityAnswer((FilterResult(error_code, reason),) * count)


def _statuses(answer: SecurityAnswer) -> list[types.Status]:
    return [
        types.Status(error_code=result.error_code, error_message=result.message)
        for result in answer.results
    ]


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
