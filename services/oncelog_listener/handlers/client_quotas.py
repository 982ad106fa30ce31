"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation
from oncelog.security.quotas import CLIENT_ID, IP, USER, Entity
from oncelog_listener.topic_access import cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import AlterClientQuotasCall, DescribeClientQuotasCall

_EXACT, _DEFAULT, _ANY = 0, 1, 2


async def describe_client_quotas(
    call: DescribeClientQuotasCall,
) -> kafka.DescribeClientQuotasResponse:
    types, request = call.types, call.request
    code, message = ErrorCode.NONE, _filter_fault(request.components)
    if message:
        code = ErrorCode.INVALID_REQUEST
    if refusal := cluster_refusal(call, Operation.DESCRIBE_CONFIGS):
        code, message = refusal.error_code, refusal.error_message
    entries = []
    if not code:
        for entity, values in sorted(call.cluster.image.security.quotas.items(), key=repr):
            if _matches(entity, request):
                entries.append(
                    types.EntryData(
                        entity=_wire_entity(call, entity),
                        values=tuple(
                            types.ValueData(key=key, value=value)
                            for key, value in sorted(values.items())
                        ),
                    )
                )
            if call.is_turn_over():
                await call.next_turn()
    return types.DescribeClientQuotasResponse(
        error_code=code,
        error_message=message or None,
        entries=None if code else tuple(entries),
    )


def _filter_fault(
    components: Sequence[kafka.DescribeClientQuotasRequestTypes.ComponentData],
) -> str:
    kinds = [one.entity_type for one in components]
    for one in components:
        if one.entity_type not in (USER, CLIENT_ID, IP):
            return f"entity type {one.entity_type!r} is not known; there are user, client-id and ip"
        if kinds.count(one.entity_type) > 1:
            return f"entity type {one.entity_type!r} stands twice"
        if one.match_type not in (_EXACT, _DEFAULT, _ANY):
            return f"match type {one.match_type} is not known; 0 is exact, 1 default, 2 any"
        if (one.match is not None) != (one.match_type == _EXACT):
            return f"match type {one.match_type} of {one.entity_type} and a name do not fit"
    if IP in kinds and len(kinds) > 1:
        return "an ip stands alone, without user and client-id"
    return ""


def _matches(entity: Entity, request: kafka.DescribeClientQuotasRequest) -> bool:
    parts = dict(entity)
    for one in request.components:
        if one.entity_type not in parts:
            return False
        name = parts[one.entity_type]
        if one.match_type == _EXACT and name != one.match:
            return False
        if one.match_type == _DEFAULT and name is not None:
            return False
    return not request.strict or len(parts) == len(request.components)


async def alter_client_quotas(call: AlterClientQuotasCall) -> kafka.AlterClientQuotasResponse:
    request = call.request
    forwarded = pb.AlterClientQuotasRequest(validate_only=request.validate_only)
    for entry in request.entries:
        change = forwarded.changes.add()
        for part in entry.entity:
            change.entity.add(type=part.entity_type, name=part.entity_name)
        for one in entry.ops:
            change.operations.add(key=one.key, value=one.value, remove=one.remove)
        if call.is_turn_over():
            await call.next_turn()
    results = await call.cluster.ask_controller_each(
        len(forwarded.changes),
        lambda controller: controller.AlterClientQuotas(forwarded),
        cluster_refusal(call, Operation.ALTER_CONFIGS),
    )
    types = call.types
    return types.AlterClientQuotasResponse(
        entries=tuple(
            types.EntryData(
                error_code=result.error_code,
                error_message=result.error_message or None,
                entity=tuple(
                    types.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ),
            )
            for entry, result in zip(request.entries, results, strict=True)
        ),
    )


def _wire_entity(
    call: DescribeClientQuotasCall, entity: Entity
) -> tuple[kafka.DescribeClientQuotasResponseTypes.EntityData, ...]:
    return tuple(call.types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
