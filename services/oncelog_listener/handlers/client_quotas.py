"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from typing import Any, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation
from oncelog.security.quotas import CLIENT_ID, IP, USER, Entity
from oncelog_listener.call import Call
from oncelog_listener.cluster import NO_THROTTLE, PEER_FAILURES, wire_error

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_NOT_ALLOWED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


async def describe_client_quotas(call: Call) -> Any:
    types, request = call.types, call.request
    code, message = ErrorCode.NONE, _filter_fault(request.components)
    if message:
        code = ErrorCode.INVALID_REQUEST
    if not call.may_cluster(Operation.DESCRIBE_CONFIGS):
        code, message = _NOT_ALLOWED
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
        throttle_time=NO_THROTTLE,
        error_code=wire_error(code),
        error_message=message or None,
        entries=None if code else tuple(entries),
    )


def _filter_fault(components: Any) -> str:
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


def _matches(entity: Entity, request: Any) -> bool:
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


async def alter_client_quotas(call: Call) -> Any:
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
    results: list[tuple[int, str]]
    if not call.may_cluster(Operation.ALTER_CONFIGS):
        results = [_NOT_ALLOWED] * len(forwarded.changes)
    elif not forwarded.changes:
        results = []
    else:
        controller = call.cluster.directory.controller()
        try:
            answer = await call.cluster.ask(controller.AlterClientQuotas(forwarded))
        except PEER_FAILURES as error:
            lost = (ErrorCode.REQUEST_TIMED_OUT, f"the controller: {error!r}")
            results = [lost] * len(forwarded.changes)
        else:
            results = [(one.error_code, one.error_message) for one in answer.results]
            await call.cluster.wait_for_image(answer.metadata_offset)
    types = call.types
    return types.AlterClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        entries=tuple(
            types.EntryData(
                error_code=wire_error(code),
                error_message=message or None,
                entity=tuple(
                    types.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ),
            )
            for entry, (code, message) in zip(request.entries, results, strict=True)
        ),
    )


def _wire_entity(call: Call, entity: Entity) -> tuple[Any, ...]:
    return tuple(call.types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
