"""DescribeAcls, CreateAcls and DeleteAcls. The controller keeps the entries; this listener's metadata has them all."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import controller_pb2 as pb
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
from oncelog_listener.cluster import ApiError
from oncelog_listener.topic_access import cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import CreateAclsCall, DeleteAclsCall, DescribeAclsCall

_NO_AUTHORIZER: Final = ApiError(
    ErrorCode.SECURITY_DISABLED,
    "this listener has no authorizer; start it with ONCELOG_LISTENER_AUTHORIZER=acl",
)


async def describe_acls(call: DescribeAclsCall) -> kafka.DescribeAclsResponse:
    types = call.types
    wanted = _filter(call.request)
    refusal = _refusal(call, Operation.DESCRIBE)
    if refusal is None and wanted.fault:
        refusal = ApiError(ErrorCode.INVALID_REQUEST, wanted.fault)
    by_resource: dict[
        tuple[int, str, int], list[kafka.DescribeAclsResponseTypes.AclDescription]
    ] = defaultdict(list)
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
        error_code=refusal.error_code if refusal else 0,
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


async def create_acls(call: CreateAclsCall) -> kafka.CreateAclsResponse:
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
    results = await call.cluster.ask_controller_each(
        len(forwarded.acls),
        lambda controller: controller.CreateAcls(forwarded),
        _refusal(call, Operation.ALTER),
    )
    return call.types.CreateAclsResponse(
        results=tuple(
            call.types.AclCreationResult(
                error_code=one.error_code, error_message=one.error_message or None
            )
            for one in results
        ),
    )


async def delete_acls(call: DeleteAclsCall) -> kafka.DeleteAclsResponse:
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
    results = await call.cluster.ask_controller_each(
        len(forwarded.filters),
        lambda controller: controller.DeleteAcls(forwarded),
        _refusal(call, Operation.ALTER),
    )
    return call.types.DeleteAclsResponse(
        filter_results=tuple(_deletions(call, one) for one in results)
    )


def _deletions(
    call: DeleteAclsCall, found: pb.DeleteAclsResponse.Result | ApiError
) -> kafka.DeleteAclsResponseTypes.DeleteAclsFilterResult:
    status = found if isinstance(found, ApiError) else found.status
    deleted = () if isinstance(found, ApiError) else found.deleted
    return call.types.DeleteAclsFilterResult(
        error_code=status.error_code,
        error_message=status.error_message or None,
        matching_acls=tuple(_deleted(call, acl) for acl in deleted),
    )


def _deleted(
    call: DeleteAclsCall, acl: pb.Acl
) -> kafka.DeleteAclsResponseTypes.DeleteAclsMatchingAcl:
    return call.types.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refusal(call: Call, operation: Operation) -> ApiError | None:
    if not call.cluster.access.is_checked:
        return _NO_AUTHORIZER
    return cluster_refusal(call, operation)


def _filter(
    request: kafka.DescribeAclsRequest | kafka.DeleteAclsRequestTypes.DeleteAclsFilter,
) -> AclFilter:
    return AclFilter(
        enum_of(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        enum_of(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        enum_of(Operation, request.operation),
        enum_of(Permission, request.permission_type),
    )
