"""DescribeAcls, CreateAcls and DeleteAcls. The controller keeps the entries; this listener's metadata have them all."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog.security.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    enum_of,
)
from oncelog_listener.call import Call
from oncelog_listener.cluster import NO_THROTTLE, PEER_FAILURES, wire_error

_NO_AUTHORIZER: Final = types_pb2.Status(
    error_code=ErrorCode.SECURITY_DISABLED,
    error_message="this listener has no authorizer; start it with ONCELOG_LISTENER_AUTHORIZER=acl",
)
_NOT_ALLOWED: Final = types_pb2.Status(
    error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
)


async def describe_acls(call: Call) -> Any:
    types = call.types
    wanted = _filter(call.request)
    refusal = _refusal(call, Operation.DESCRIBE)
    if refusal is None and wanted.fault:
        refusal = types_pb2.Status(error_code=ErrorCode.INVALID_REQUEST, error_message=wanted.fault)
    by_resource: dict[tuple[int, str, int], list[Any]] = defaultdict(list)
    if refusal is None:
        for acl in sorted(call.cluster.image.security.acls):
            if wanted.matches(acl):
                key = (acl.resource_type, acl.resource_name, acl.pattern_type)
                by_resource[key].append(
                    types.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                )
            if call.is_turn_over():
                await call.next_turn()
    return types.DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=wire_error(refusal.error_code if refusal else 0),
        error_message=refusal.error_message if refusal else None,
        resources=tuple(
            types.DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=tuple(acls),
            )
            for (resource_type, name, pattern_type), acls in by_resource.items()
        ),
    )


async def create_acls(call: Call) -> Any:
    forwarded = pb.CreateAclsRequest()
    for one in call.request.creations:
        forwarded.acls.add(
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            pattern_type=one.resource_pattern_type,
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            permission=one.permission_type,
        )
        if call.is_turn_over():
            await call.next_turn()
    results: Sequence[types_pb2.Status]
    refusal = _refusal(call, Operation.ALTER)
    if refusal is not None:
        results = [refusal] * len(forwarded.acls)
    elif not forwarded.acls:
        results = []
    else:
        try:
            answer = await call.cluster.ask(
                call.cluster.directory.controller().CreateAcls(forwarded)
            )
        except PEER_FAILURES as error:
            results = [_lost(error)] * len(forwarded.acls)
        else:
            results = answer.results
            await call.cluster.wait_for_image(answer.metadata_offset)
    return call.types.CreateAclsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            call.types.AclCreationResult(
                error_code=wire_error(one.error_code), error_message=one.error_message or None
            )
            for one in results
        ),
    )


async def delete_acls(call: Call) -> Any:
    forwarded = pb.DeleteAclsRequest()
    for one in call.request.filters:
        wanted = _filter(one)
        forwarded.filters.add(
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
            pattern_type=wanted.pattern_type,
            principal=wanted.principal,
            host=wanted.host,
            operation=wanted.operation,
            permission=wanted.permission,
        )
        if call.is_turn_over():
            await call.next_turn()
    results: Sequence[pb.DeleteAclsResponse.Result]
    refusal = _refusal(call, Operation.ALTER)
    if refusal is not None:
        results = [pb.DeleteAclsResponse.Result(status=refusal)] * len(forwarded.filters)
    elif not forwarded.filters:
        results = []
    else:
        try:
            answer = await call.cluster.ask(
                call.cluster.directory.controller().DeleteAcls(forwarded)
            )
        except PEER_FAILURES as error:
            results = [pb.DeleteAclsResponse.Result(status=_lost(error))] * len(forwarded.filters)
        else:
            results = answer.results
            await call.cluster.wait_for_image(answer.metadata_offset)
    return call.types.DeleteAclsResponse(
        throttle_time=NO_THROTTLE,
        filter_results=tuple(
            call.types.DeleteAclsFilterResult(
                error_code=wire_error(one.status.error_code),
                error_message=one.status.error_message or None,
                matching_acls=tuple(_deleted(call, acl) for acl in one.deleted),
            )
            for one in results
        ),
    )


def _deleted(call: Call, acl: pb.Acl) -> Any:
    return call.types.DeleteAclsMatchingAcl(
        error_code=wire_error(0),
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refusal(call: Call, operation: Operation) -> types_pb2.Status | None:
    if not call.cluster.access.is_checked:
        return _NO_AUTHORIZER
    return None if call.may_cluster(operation) else _NOT_ALLOWED


def _filter(request: Any) -> AclFilter:
    return AclFilter(
        enum_of(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        enum_of(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        enum_of(Operation, request.operation),
        enum_of(Permission, request.permission_type),
    )


def _lost(error: BaseException) -> types_pb2.Status:
    return types_pb2.Status(
        error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=f"the controller: {error!r}"
    )
