"""The administrator's requests about the cluster itself: its brokers, features and ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from oncelog.client.core.admin_results import (
    BrokerDescription,
    ClusterDescription,
    FeatureDescription,
    Results,
    item_error,
)
from oncelog.client.errors import ClientError
from oncelog.client.network.admin_calls import AdminCalls, code_of, message_of, outcome, raise_error
from oncelog.errors import ErrorCode
from oncelog.protocol import versions
from oncelog.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    _DeletedAcl = kafka.DeleteAclsResponseTypes.DeleteAclsMatchingAcl

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


async def describe_cluster(calls: AdminCalls) -> ClusterDescription:
    response = await calls.any(
        versions.DESCRIBE_CLUSTER,
        lambda types: types.DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        ),
        "describe_cluster()",
        lambda response: (code_of(response),),
    )
    raise_error(response, "describe_cluster()")
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(
            BrokerDescription(
                one.broker_id,
                one.host,
                one.port,
                one.rack,
                hasattr(one, "is_fenced") and one.is_fenced,
            )
            for one in response.brokers
        ),
    )


async def describe_features(calls: AdminCalls) -> dict[str, FeatureDescription]:
    response = await calls.any(
        versions.API_VERSIONS,
        lambda types: types.ApiVersionsRequest(
            client_software_name="oncelog-client", client_software_version="admin"
        ),
        "describe_features()",
        lambda response: (code_of(response),),
    )
    raise_error(response, "describe_features()")
    supported = {
        one.name: (one.min_version, one.max_version) for one in response.supported_features
    }
    finalized = {one.name: one.max_version_level for one in response.finalized_features}
    return {
        name: FeatureDescription(supported.get(name), finalized.get(name))
        for name in sorted({*supported, *finalized})
    }


async def update_features(
    calls: AdminCalls, levels: Mapping[str, int], *, allows_data_loss: bool, validate_only: bool
) -> None:
    now = await describe_features(calls)

    def kind(name: str, level: int) -> int:
        before = now[name].finalized if name in now else None
        if level >= (before or 0):
            return _UPGRADE
        return _UNSAFE_DOWNGRADE if allows_data_loss else _SAFE_DOWNGRADE

    response = await calls.any(
        versions.UPDATE_FEATURES,
        lambda types: types.UpdateFeaturesRequest(
            timeout=timedelta(milliseconds=calls.timeout_ms),
            feature_updates=tuple(
                types.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=kind(name, level)
                )
                for name, level in levels.items()
            ),
            validate_only=validate_only,
        ),
        "update_features()",
        lambda response: (code_of(response),),
    )
    raise_error(response, "update_features()")


# ---------------------------------------------------------------------------------------------- ACLs


class _Filter(TypedDict):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def _filter(wanted: AclFilter) -> _Filter:
    return {
        "resource_type_filter": int(wanted.resource_type),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": int(wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission),
    }


def _acl(
    resource: kafka.DescribeAclsResponseTypes.DescribeAclsResource | _DeletedAcl,
    one: kafka.DescribeAclsResponseTypes.AclDescription | _DeletedAcl,
) -> Acl:
    return Acl(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        one.principal,
        one.host,
        Operation(one.operation),
        Permission(one.permission_type),
    )


async def describe_acls(calls: AdminCalls, given: AclFilter | None) -> list[Acl]:
    wanted = given or AclFilter()
    response = await calls.any(
        versions.DESCRIBE_ACLS,
        lambda types: types.DescribeAclsRequest(**_filter(wanted)),
        "describe_acls()",
        lambda response: (code_of(response),),
    )
    raise_error(response, "describe_acls()")
    return [_acl(resource, one) for resource in response.resources for one in resource.acls]


async def create_acls(calls: AdminCalls, acls: Iterable[Acl]) -> Results[Acl, None]:
    wanted = tuple(acls)
    response = await calls.any(
        versions.CREATE_ACLS,
        lambda types: types.CreateAclsRequest(
            creations=tuple(
                types.AclCreation(
                    resource_type=int(one.resource_type),
                    resource_name=one.resource_name,
                    resource_pattern_type=int(one.pattern_type),
                    principal=one.principal,
                    host=one.host,
                    operation=int(one.operation),
                    permission_type=int(one.permission),
                )
                for one in wanted
            )
        ),
        "create_acls()",
        lambda response: map(code_of, response.results),
    )
    return Results(
        {
            acl: outcome(one, str(acl), None)
            for acl, one in zip(wanted, response.results, strict=True)
        }
    )


async def delete_acls(
    calls: AdminCalls, filters: Iterable[AclFilter]
) -> Results[AclFilter, tuple[Acl, ...]]:
    wanted = tuple(filters)
    response = await calls.any(
        versions.DELETE_ACLS,
        lambda types: types.DeleteAclsRequest(
            filters=tuple(types.DeleteAclsFilter(**_filter(one)) for one in wanted)
        ),
        "delete_acls()",
        lambda response: map(code_of, response.filter_results),
    )
    return Results(
        {
            one: _deleted(one, found)
            for one, found in zip(wanted, response.filter_results, strict=True)
        }
    )


def _deleted(
    wanted: AclFilter, found: kafka.DeleteAclsResponseTypes.DeleteAclsFilterResult
) -> tuple[Acl, ...] | ClientError:
    """Return the ACLs that one filter deleted. If one of them could not be deleted, return its error instead."""
    if code_of(found) is not ErrorCode.NONE:
        return item_error(code_of(found), str(wanted), message_of(found))
    for one in found.matching_acls:
        if code_of(one) is not ErrorCode.NONE:
            return item_error(code_of(one), str(_acl(one, one)), message_of(one))
    return tuple(_acl(one, one) for one in found.matching_acls)
