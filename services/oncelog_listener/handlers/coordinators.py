"""FindCoordinator and DescribeCluster. The coordinator in the answer is the listener that is asked
(docs/kafka-facts.md, 3; ADR 0017). Only a listener that is stopping names another one.

The answer does not say that a shard (a partition of the coordinators' topics) has no coordinator at this moment. The
requests that follow wait for one (`shard_calls.py`), each client repeats them, and they hold up no fetch: they come
over a connection of their own. librdkafka does not always repeat FindCoordinator: refused three times within half a
second, `send_offsets_to_transaction` waits in spite of its timeout until a connection breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from oncelog.errors import ErrorCode
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog.security.acl import Operation
from oncelog_listener.brokers import Brokers, brokers_for
from oncelog_listener.call import Call
from oncelog_listener.core.authorized_operations import NOT_ASKED
from oncelog_listener.group_access import group_refusal, transaction_refusal
from oncelog_listener.topic_access import operations_on_cluster

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import DescribeClusterCall, FindCoordinatorCall

_KINDS: Final = {0: GROUP, 1: TRANSACTION}
"""The kind of shard of each of Kafka's key types. 2 is the share coordinator (KIP-932), which oncelog does not have."""

_KEYS_FROM: Final = 4
_BROKERS: Final = 1


class _Place(TypedDict):
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str


async def find_coordinator(call: FindCoordinatorCall) -> kafka.FindCoordinatorResponse:
    request = call.request
    key_type = request.key_type if call.version >= 1 else 0
    brokers = brokers_for(call)
    if call.version < _KEYS_FROM:
        return call.types.FindCoordinatorResponse(
            coordinators=(), **_place(call, brokers, key_type, request.key)
        )
    found: list[kafka.FindCoordinatorResponseTypes.Coordinator] = []
    for key in request.coordinator_keys:
        found.append(call.types.Coordinator(key=key, **_place(call, brokers, key_type, key)))
        if call.is_turn_over():
            await call.next_turn()
    # The fields of one place are those of older versions.
    return call.types.FindCoordinatorResponse(coordinators=tuple(found), **_NO_PLACE)


def _place(call: Call, brokers: Brokers, key_type: int, key: str) -> _Place:
    kind = _KINDS.get(key_type)
    if kind is None:
        return _nowhere(
            ErrorCode.INVALID_REQUEST, f"coordinators of key type {key_type} are not served"
        )
    if kind == TRANSACTION and (code := transaction_refusal(call, Operation.DESCRIBE, key)):
        return _nowhere(code, "Transactional Id authorization failed.")
    if kind == GROUP and (code := group_refusal(call, Operation.DESCRIBE, key)):
        return _nowhere(code, "Group authorization failed.")
    itself = [one for one in brokers.all if one.node_id == call.cluster.node_id]
    place = itself[0] if itself else brokers.place(key)
    return {
        "node_id": place.node_id,
        "host": place.host,
        "port": place.port,
        "error_code": 0,
        # Null by the schema, but never from Kafka: the name of no error, and from version 4 nothing.
        "error_message": "" if call.version >= _KEYS_FROM else "NONE",
    }


def _nowhere(code: ErrorCode, message: str) -> _Place:
    return {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": message,
    }


_NO_PLACE: Final = _nowhere(ErrorCode.NONE, "")


async def describe_cluster(call: DescribeClusterCall) -> kafka.DescribeClusterResponse:
    cluster, types = call.cluster, call.types
    endpoint_type = call.request.endpoint_type if call.version >= 1 else _BROKERS
    if endpoint_type != _BROKERS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if endpoint_type == 2
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return types.DescribeClusterResponse(
            error_code=code,
            error_message="this is a listener for brokers' clients",
            endpoint_type=_BROKERS,
            cluster_id="",
            brokers=(),
        )
    brokers = brokers_for(call)
    return types.DescribeClusterResponse(
        error_code=0,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=cluster.image.cluster_id,
        controller_id=brokers.place("controller").node_id,
        cluster_authorized_operations=operations_on_cluster(call)
        if call.request.include_cluster_authorized_operations
        else NOT_ASKED,
        brokers=tuple(
            types.DescribeClusterBroker(
                broker_id=one.node_id, host=one.host, port=one.port, rack=one.rack, is_fenced=False
            )
            for one in brokers.all
        ),
    )
