"""The one table of what is served: the version table's row of an API, and the function that answers it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from oncelog.protocol import versions
from oncelog.protocol.frames import Frame
from oncelog.protocol.versions import APIS, Api
from oncelog_listener.call import Call, Session
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

Handler = Callable[[Call], Awaitable[Any]]
"""A function that returns kio's response of the call's version; None: there is no answer (Produce with acks=0)."""


class Route(NamedTuple):
    api: Api
    handle: Handler
    may_be_cut: bool
    """True if the request only reads, so it is cancelled when its client leaves. Every other one is finished: half
    may be done."""
    at_once: Callable[[Call], Any | None] | None = None
    """The function that answers a small request in one step. If it returns None, `handle` is called as if nothing
    had been tried."""
    at_a_glance: Callable[[Cluster, Session, Frame], bytes | None] | None = None
    """The function that answers a request of the most usual form, from frame to frame. If it returns None, the usual
    way follows."""


_READS: Final = frozenset({versions.FETCH})

_HANDLERS: Final[Mapping[int, Handler]] = {
    versions.PRODUCE: produce,
    versions.FETCH: fetch,
    versions.LIST_OFFSETS: list_offsets,
    versions.METADATA: metadata,
    versions.OFFSET_COMMIT: offset_commit,
    versions.OFFSET_FETCH: offset_fetch,
    versions.FIND_COORDINATOR: find_coordinator,
    versions.JOIN_GROUP: join_group,
    versions.HEARTBEAT: heartbeat,
    versions.LEAVE_GROUP: leave_group,
    versions.SYNC_GROUP: sync_group,
    versions.DESCRIBE_GROUPS: describe_groups,
    versions.LIST_GROUPS: list_groups,
    versions.SASL_HANDSHAKE: sasl_handshake,
    versions.API_VERSIONS: api_versions,
    versions.CREATE_TOPICS: create_topics,
    versions.DELETE_TOPICS: delete_topics,
    versions.DELETE_RECORDS: delete_records,
    versions.INIT_PRODUCER_ID: init_producer_id,
    versions.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    versions.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    versions.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    versions.END_TXN: end_txn,
    versions.WRITE_TXN_MARKERS: write_txn_markers,
    versions.TXN_OFFSET_COMMIT: txn_offset_commit,
    versions.DESCRIBE_ACLS: describe_acls,
    versions.CREATE_ACLS: create_acls,
    versions.DELETE_ACLS: delete_acls,
    versions.DESCRIBE_CONFIGS: describe_configs,
    versions.ALTER_CONFIGS: alter_configs,
    versions.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    versions.DESCRIBE_LOG_DIRS: describe_log_dirs,
    versions.SASL_AUTHENTICATE: sasl_authenticate,
    versions.CREATE_PARTITIONS: create_partitions,
    versions.DELETE_GROUPS: delete_groups,
    versions.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    versions.ELECT_LEADERS: elect_leaders,
    versions.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    versions.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    versions.DESCRIBE_QUORUM: describe_quorum,
    versions.UPDATE_FEATURES: update_features,
    versions.OFFSET_DELETE: offset_delete,
    versions.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    versions.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    versions.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    versions.DESCRIBE_CLUSTER: describe_cluster,
    versions.DESCRIBE_PRODUCERS: describe_producers,
    versions.DESCRIBE_TRANSACTIONS: describe_transactions,
    versions.LIST_TRANSACTIONS: list_transactions,
    versions.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    versions.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    versions.LIST_CONFIG_RESOURCES: list_config_resources,
    versions.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}

_AT_ONCE: Final = {versions.PRODUCE: produce_at_once}
_AT_A_GLANCE: Final = {
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
