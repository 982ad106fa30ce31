"""The requests that every user sends to both brokers: each API, each version, names that are there and that are not.

What a request changes would be met by the next one. So requests ask for what cannot be done once they are authorized:
an unknown member, a producer id of nobody, `validate_only`.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

from tests.conformance.authorizer_users import (
    EVERYBODYS,
    OPEN,
    OPEN_ABSENT,
    OPEN_DELETED,
    SECRET,
    SECRET_ABSENT,
    SECRET_DELETED,
)
from tests.integration.listener.requests_by_vocabulary import request_of

from oncelog.protocol import versions
from oncelog.protocol.versions import APIS
from oncelog.record.records import Record, encode_batch

NAMES = (OPEN, SECRET, OPEN_ABSENT, SECRET_ABSENT)
NOBODY = 4_000_000
SECOND = timedelta(seconds=1)


def batch(**words):
    return bytes(encode_batch([Record(None, b"value")], **words))


@dataclass(frozen=True)
class Ask:
    """One kind of request."""

    api_key: int
    about: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)
    is_empty: bool = False
    by_id: bool = False
    has_all: bool = False
    """Of OffsetFetch: every topic of the group."""
    names: tuple[str, ...] = NAMES
    of_versions: tuple[int, ...] = ()

    @property
    def title(self):
        name = APIS[self.api_key].name
        return f"{name} {self.about}" if self.about else name

    @property
    def versions(self):
        api = APIS[self.api_key]
        return self.of_versions or tuple(range(api.served_min, api.max_version + 1))

    def requests(self, version, ids):
        """Requests about one name each, and one about all. `ids`: of the topics of the broker that is asked."""
        single = [self._about(version, name, ids) for name in self.names]
        found = [single[0], *(one for one in single[1:] if one != single[0])]
        together = merged(single)
        if len(found) == 1 or together == single[0]:
            return found
        return [together, *found] if version == self.versions[-1] else [together, found[1]]

    def _about(self, version, name, ids):
        topic_id = ids.get(name, uuid.uuid5(uuid.NAMESPACE_DNS, name))
        words = COMMON | dict.fromkeys(NAMED, name) | dict.fromkeys(LISTED, (name,))
        if self.api_key in (versions.OFFSET_COMMIT, versions.OFFSET_FETCH) or self.by_id:
            words |= {"topic_id": topic_id}
        if self.by_id:
            words |= {"name": None}
        api = APIS[self.api_key]
        request = request_of(api, version, words | dict(self.words), is_empty=self.is_empty)
        if self.api_key == versions.CREATE_PARTITIONS:
            return replace(
                request, topics=tuple(replace(one, assignments=None) for one in request.topics)
            )
        return with_all_topics(request) if self.has_all else request


NAMED = [
    "name",
    "topic",
    "topic_name",
    "key",
    "entity_name",
    "group_id",
    "resource_name",
    "transactional_id",
    "v3_and_below_transactional_id",
    "resource_name_filter",
]
LISTED = [
    "coordinator_keys",
    "groups",
    "group_ids",
    "groups_names",
    "transactional_ids",
    "topic_names",
    "subscribed_topic_names",
]
COMMON = {
    "Produce.transactional_id": None,
    "topic_id": None,
    "acks": -1,
    "timeout": SECOND,
    "records": batch(),
    "partition": 0,
    "partitions": (0,),
    "partition_indexes": (0,),
    "partition_index": 0,
    "replica_id": -1,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "session_epoch": -1,
    "forgotten_topics_data": (),
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "timestamp": -1,
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "include_authorized_operations": True,
    "generation_id": 5,
    "generation_id_or_member_epoch": 5,
    "member_id": "nobody",
    "OffsetFetch.member_id": None,
    "OffsetFetch.member_epoch": -1,
    "member_epoch": 5,
    "group_instance_id": None,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "JoinGroup.name": "range",
    "session_timeout": timedelta(milliseconds=1),
    "rebalance_timeout": SECOND,
    "LeaveGroup.members": None,
    "producer_id": NOBODY,
    "producer_epoch": 0,
    "v3_and_below_producer_id": NOBODY,
    "InitProducerId.producer_id": -1,
    "InitProducerId.producer_epoch": -1,
    "transaction_timeout": timedelta(seconds=60),
    "committed_leader_epoch": -1,
    "subscribed_topic_regex": None,
    "topic_partitions": (),
    "assignments": (),
    "num_partitions": 1,
    "replication_factor": 1,
    "CreateTopics.configs": (),
    "validate_only": True,
    "CreatePartitions.count": 2,
    "OffsetDelete.partition_index": 9,
    "response_partition_limit": 1000,
    "cursor": None,
    "DescribeConfigs.resource_type": 2,
    "configuration_keys": ("nothing",),
    "AlterConfigs.resource_type": 2,
    "AlterConfigs.configs": (),
    "IncrementalAlterConfigs.resource_type": 2,
    "IncrementalAlterConfigs.configs": (),
    "ElectLeaders.topic_partitions": ...,
    "replicas": (1,),
    "DescribeQuorum.topic_name": "__cluster_metadata",
    "AlterReplicaLogDirs.path": "/nowhere",
    "endpoint_type": 1,
    "resource_types": (),
    "resource_type_filter": 2,
    "resource_type": 2,
    "pattern_type_filter": 3,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "CreateAcls.principal": "User:nobody",
    "principal_filter": "User:nobody",
    "CreateAcls.host": "*",
    "host_filter": None,
    "entity_type": "user",
    "AlterClientQuotas.key": "producer_byte_rate",
    "AlterClientQuotas.value": 1e6,
    "AlterUserScramCredentials.mechanism": 1,
    "upsertions": (),
    "feature": "transaction.version",
    "max_version_level": 2,
    "upgrade_type": 1,
    "duration_filter": -1,
    "transactional_id_pattern": None,
    "producer_id_filters": (),
    "transaction_result": False,
    "WriteTxnMarkers.partition_indexes": (9,),
}

TYPED = {
    "of topics": {},
    "of a broker": {"resource_type": 4, "resource_name": "1"},
    "of all brokers": {"resource_type": 4, "resource_name": ""},
    "of loggers": {"resource_type": 8, "resource_name": "1"},
    "of client metrics": {"resource_type": 16},
    "of groups": {"resource_type": 32},
}


def configs(api_key):
    name = APIS[api_key].name
    for about, words in TYPED.items():
        yield Ask(api_key, about, {f"{name}.{key}": value for key, value in words.items()})


WITH_MORE = (
    Ask(versions.PRODUCE, "with a transactional id", {"Produce.transactional_id": OPEN}),
    Ask(versions.PRODUCE, "with a secret transactional id", {"Produce.transactional_id": SECRET}),
    Ask(
        versions.PRODUCE,
        "of a transaction",
        {
            "Produce.transactional_id": OPEN,
            "records": batch(
                producer_id=NOBODY, producer_epoch=0, base_sequence=0, is_transactional=True
            ),
        },
    ),
    Ask(
        versions.PRODUCE,
        "of an idempotent producer",
        {"records": batch(producer_id=NOBODY, producer_epoch=0, base_sequence=0)},
    ),
    Ask(versions.METADATA, "of all topics", is_empty=True, of_versions=(0, 4, 8, 12, 13)),
    Ask(versions.METADATA, "of everybody's topic", names=(EVERYBODYS,), of_versions=(9,)),
    Ask(versions.METADATA, "by id", by_id=True, of_versions=(12, 13)),
    Ask(versions.METADATA, "that may create", {"allow_auto_topic_creation": True}),
    Ask(versions.OFFSET_FETCH, "of all topics", has_all=True, of_versions=(2, 7, 8, 9, 10)),
    Ask(versions.FIND_COORDINATOR, "of a transaction", {"key_type": 1}),
    Ask(versions.FIND_COORDINATOR, "of a share group", {"key_type": 2}),
    Ask(versions.FIND_COORDINATOR, "of nothing", {"coordinator_keys": ()}),
    Ask(versions.INIT_PRODUCER_ID, "without an id", {"transactional_id": None}),
    Ask(versions.DESCRIBE_TOPIC_PARTITIONS, "of all topics", is_empty=True),
    Ask(versions.DESCRIBE_LOG_DIRS, "of all topics", is_empty=True),
    Ask(versions.ELECT_LEADERS, "of all", is_empty=True),
    Ask(versions.LIST_PARTITION_REASSIGNMENTS, "of all", is_empty=True),
    Ask(versions.DESCRIBE_ACLS, "of all", {"resource_type_filter": 1, "pattern_type_filter": 1}),
    Ask(versions.DESCRIBE_CLUSTER, "of controllers", {"endpoint_type": 2}),
    Ask(versions.DELETE_TOPICS, "by id", by_id=True, of_versions=(6,)),
    *configs(versions.DESCRIBE_CONFIGS),
    *configs(versions.ALTER_CONFIGS),
    *configs(versions.INCREMENTAL_ALTER_CONFIGS),
)
DELETED = (OPEN_DELETED, SECRET_DELETED, OPEN_ABSENT, SECRET_ABSENT)
_NOT_PLAIN = {
    versions.SASL_HANDSHAKE,
    versions.SASL_AUTHENTICATE,
    versions.API_VERSIONS,
    versions.DESCRIBE_CONFIGS,
    versions.ALTER_CONFIGS,
    versions.INCREMENTAL_ALTER_CONFIGS,
}


def all_asks():
    plain = [Ask(key) for key in APIS if key not in _NOT_PLAIN]
    special = {
        versions.DELETE_TOPICS: {"names": DELETED, "of_versions": (1, 6)},
        versions.DELETE_GROUPS: {"names": (OPEN_ABSENT, SECRET_ABSENT)},
        versions.INIT_PRODUCER_ID: {"names": (OPEN_DELETED, SECRET_DELETED)},
    }
    return [replace(one, **special.get(one.api_key, {})) for one in (*plain, *WITH_MORE)]


def with_all_topics(request):
    if hasattr(request, "groups"):
        return replace(request, groups=tuple(replace(one, topics=None) for one in request.groups))
    return replace(request, topics=None)


def merged(requests):
    """One request with the lists of all of them, and the rest of the first."""
    first, *_ = requests
    together = {}
    for one in fields(first):
        lists = [getattr(each, one.name) for each in requests] if one.init else []
        if lists and isinstance(lists[0], tuple) and any(each != lists[0] for each in lists):
            together[one.name] = _concatenated(lists)
    return replace(first, **together) if together else first


def _concatenated(lists):
    """Entries that differ in their own lists alone become one: Kafka answers one marker for each producer id."""
    singles = [each[0] for each in lists if len(each) == 1 and is_dataclass(each[0])]
    heads = {
        tuple(
            value for one in fields(each) if not isinstance(value := getattr(each, one.name), tuple)
        )
        for each in singles
    }
    if len(singles) == len(lists) and len(heads) == 1 and heads != {()}:
        return (merged(singles),)
    return sum(lists, start=())


def learnt(value, names_of_ids):
    """What an answer tells of codes and names: nested, without what differs between any two clusters."""
    if isinstance(value, tuple):
        kept = [learnt(one, names_of_ids) for one in value]
        return sorted((one for one in kept if one), key=repr)
    if not is_dataclass(value):
        return None
    found = {}
    for one in fields(value):
        content = getattr(value, one.name)
        if isinstance(content, str) and content.startswith("__"):
            return {}
        if one.name.endswith(("error_code", "authorized_operations")):
            found[one.name] = int(content)
        elif isinstance(content, str) and one.name != "error_message":
            found |= {one.name: content} if content.startswith(("open-", "secret-")) else {}
        elif isinstance(content, uuid.UUID):
            found |= {one.name: names_of_ids[content]} if content in names_of_ids else {}
        elif content is not None and (inner := learnt(content, names_of_ids)):
            found[one.name] = inner
    return found


def with_codes(message, others):
    """The same with other codes in the place of these."""
    if isinstance(message, list):
        return sorted((with_codes(one, others) for one in message), key=repr)
    if not isinstance(message, dict):
        return message
    return {
        name: others.get(value, value) if name == "error_code" else with_codes(value, others)
        for name, value in message.items()
    }
