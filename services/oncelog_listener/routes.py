"""The table of all APIs that the listener serves: for each the supported versions, and the function that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Never, TypeAlias, TypeVar

from oncelog.protocol import versions
from oncelog.protocol.frames import Frame
from oncelog.protocol.versions import APIS, Api
from oncelog_listener.call import Call, Handler, Session
from oncelog_listener.cluster import Cluster
from oncelog_listener.handlers.acls import create_acls, delete_acls, describe_acls
from oncelog_listener.handlers.api_versions import api_versions
from oncelog_listener.handlers.client_quotas import alter_client_quotas, describe_client_quotas
from oncelog_listener.handlers.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from oncelog_listener.handlers.consumer_groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
)
from oncelog_listener.handlers.controllers import describe_quorum, update_features
from oncelog_listener.handlers.coordinators import describe_cluster, find_coordinator
from oncelog_listener.handlers.fetch import fetch
from oncelog_listener.handlers.group_offsets import (
    add_offsets_to_txn,
    offset_commit,
    offset_delete,
    txn_offset_commit,
)
from oncelog_listener.handlers.group_views import delete_groups, describe_groups, list_groups
from oncelog_listener.handlers.groups import heartbeat, join_group, leave_group, sync_group
from oncelog_listener.handlers.logins import sasl_authenticate, sasl_handshake
from oncelog_listener.handlers.metadata import describe_topic_partitions, metadata
from oncelog_listener.handlers.offset_fetch import offset_fetch
from oncelog_listener.handlers.offsets import (
    delete_records,
    list_offsets,
    offset_for_leader_epoch,
)
from oncelog_listener.handlers.produce import produce, produce_at_a_glance, produce_at_once
from oncelog_listener.handlers.replicas import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
)
from oncelog_listener.handlers.scram_users import (
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from oncelog_listener.handlers.topics import create_partitions, create_topics, delete_topics
from oncelog_listener.handlers.transaction_views import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from oncelog_listener.handlers.transactions import (
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    write_txn_markers,
)
from oncelog_listener.handlers.transactions_at_once import (
    add_offsets_at_a_glance,
    add_partitions_at_a_glance,
    end_txn_at_a_glance,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from oncelog.protocol import kafka_messages as kafka

_AtOnce: TypeAlias = "Callable[[Call[Never, Never]], DataclassInstance | None]"
_AtAGlance = Callable[[Cluster, Session, Frame], bytes | None]


class Route(NamedTuple):
    api: Api
    handle: Handler
    may_be_cut: bool
    """True if the request only reads, so it is cancelled when its client leaves. Every other one is finished: half
    may be done."""
    at_once: _AtOnce | None = None
    """The function that answers a small request in one step. If it returns None, `handle` is called as if nothing
    had been tried."""
    at_a_glance: _AtAGlance | None = None
    """The function that answers a request of the most usual form, from frame to frame. If it returns None, the usual
    way follows."""


_READS: Final = frozenset({versions.FETCH})

RequestT = TypeVar("RequestT")
TypesT = TypeVar("TypesT")
ResponseT = TypeVar("ResponseT", bound="DataclassInstance")


def _row(
    key: kafka.ApiKey[object, RequestT, TypesT, ResponseT],
    handle: Callable[[Call[RequestT, TypesT]], Awaitable[ResponseT | None]],
) -> tuple[int, Handler]:
    """Return a row of the table: API number and handler. Its types let mypy refuse a handler of another API."""
    return key, handle


_HANDLERS: Final[Mapping[int, Handler]] = dict(
    (
        _row(versions.PRODUCE, produce),
        _row(versions.FETCH, fetch),
        _row(versions.LIST_OFFSETS, list_offsets),
        _row(versions.METADATA, metadata),
        _row(versions.OFFSET_COMMIT, offset_commit),
        _row(versions.OFFSET_FETCH, offset_fetch),
        _row(versions.FIND_COORDINATOR, find_coordinator),
        _row(versions.JOIN_GROUP, join_group),
        _row(versions.HEARTBEAT, heartbeat),
        _row(versions.LEAVE_GROUP, leave_group),
        _row(versions.SYNC_GROUP, sync_group),
        _row(versions.DESCRIBE_GROUPS, describe_groups),
        _row(versions.LIST_GROUPS, list_groups),
        _row(versions.SASL_HANDSHAKE, sasl_handshake),
        _row(versions.API_VERSIONS, api_versions),
        _row(versions.CREATE_TOPICS, create_topics),
        _row(versions.DELETE_TOPICS, delete_topics),
        _row(versions.DELETE_RECORDS, delete_records),
        _row(versions.INIT_PRODUCER_ID, init_producer_id),
        _row(versions.OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch),
        _row(versions.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn),
        _row(versions.ADD_OFFSETS_TO_TXN, add_offsets_to_txn),
        _row(versions.END_TXN, end_txn),
        _row(versions.WRITE_TXN_MARKERS, write_txn_markers),
        _row(versions.TXN_OFFSET_COMMIT, txn_offset_commit),
        _row(versions.DESCRIBE_ACLS, describe_acls),
        _row(versions.CREATE_ACLS, create_acls),
        _row(versions.DELETE_ACLS, delete_acls),
        _row(versions.DESCRIBE_CONFIGS, describe_configs),
        _row(versions.ALTER_CONFIGS, alter_configs),
        _row(versions.ALTER_REPLICA_LOG_DIRS, alter_replica_log_dirs),
        _row(versions.DESCRIBE_LOG_DIRS, describe_log_dirs),
        _row(versions.SASL_AUTHENTICATE, sasl_authenticate),
        _row(versions.CREATE_PARTITIONS, create_partitions),
        _row(versions.DELETE_GROUPS, delete_groups),
        _row(versions.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs),
        _row(versions.ELECT_LEADERS, elect_leaders),
        _row(versions.ALTER_PARTITION_REASSIGNMENTS, alter_partition_reassignments),
        _row(versions.LIST_PARTITION_REASSIGNMENTS, list_partition_reassignments),
        _row(versions.DESCRIBE_QUORUM, describe_quorum),
        _row(versions.UPDATE_FEATURES, update_features),
        _row(versions.OFFSET_DELETE, offset_delete),
        _row(versions.DESCRIBE_CLIENT_QUOTAS, describe_client_quotas),
        _row(versions.ALTER_CLIENT_QUOTAS, alter_client_quotas),
        _row(versions.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials),
        _row(versions.ALTER_USER_SCRAM_CREDENTIALS, alter_user_scram_credentials),
        _row(versions.DESCRIBE_CLUSTER, describe_cluster),
        _row(versions.DESCRIBE_PRODUCERS, describe_producers),
        _row(versions.DESCRIBE_TRANSACTIONS, describe_transactions),
        _row(versions.LIST_TRANSACTIONS, list_transactions),
        _row(versions.CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat),
        _row(versions.CONSUMER_GROUP_DESCRIBE, consumer_group_describe),
        _row(versions.LIST_CONFIG_RESOURCES, list_config_resources),
        _row(versions.DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions),
    )
)

_AT_ONCE: Final[Mapping[int, _AtOnce]] = {versions.PRODUCE: produce_at_once}
_AT_A_GLANCE: Final[Mapping[int, _AtAGlance]] = {
    versions.PRODUCE: produce_at_a_glance,
    versions.ADD_PARTITIONS_TO_TXN: add_partitions_at_a_glance,
    versions.ADD_OFFSETS_TO_TXN: add_offsets_at_a_glance,
    versions.END_TXN: end_txn_at_a_glance,
}

ROUTES: Final[dict[int, Route]] = {
    key: Route(api, _HANDLERS[key], key in _READS, _AT_ONCE.get(key), _AT_A_GLANCE.get(key))
    for key, api in APIS.items()
}
"""The route of each served API key. Only a test's fault changes it, and puts another handler into a row (ADR 0045)."""
