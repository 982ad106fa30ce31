"""One record of every type that is kept on a disk, with the bytes it is kept as; and what bytes mean, as JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import get_args

from tests.worlds.coordinator.stored_groups import GROUP, OFFSET, OFFSET_OF_TOPIC
from tests.worlds.coordinator.stored_transactions import EMPTY, ONGOING
from tests.worlds.sink.stored_sinks import GOLDEN as SINK_RECORDS

from oncelog.ids import Partition
from oncelog_controller.core import records as metadata
from oncelog_coordinator.core import consumer_group as consumer
from oncelog_coordinator.core import group_records, sink_records, txn_records, txn_state
from oncelog_coordinator.core.request_origin import RequestOrigin

TIME = 1_700_000_000_000
SLOTS = frozenset({(bytes(range(16)), 0), (bytes(range(16)), 3)})

METADATA = (
    metadata.ControllerClaimed(1, 7, "one-7"),
    metadata.ClusterCreated("cluster"),
    metadata.FeaturesChanged(3, {"transaction.version": 2}),
    metadata.NodeRegistered(
        11,
        5,
        "incarnation",
        ("storage",),
        "host:1",
        "kafka",
        9092,
        "rack",
        True,
        {"num.partitions": "3"},
        True,
    ),
    metadata.NodeFenced(11, 5),
    metadata.NodeUnfenced(11, 5),
    metadata.NodeDrainChanged(11, True),
    metadata.NodeRemoved(11),
    metadata.PartitionsChanged((("t", ((0, 11, (11, 12), (11,), (12,), ()),)),)),
    metadata.TopicCreated("t", "0f" * 16, False, {"retention.ms": "1"}, ((11, 12), (12, 11))),
    metadata.TopicDeleted("t", "0f" * 16),
    metadata.PartitionsAdded("t", ((12, 11),)),
    metadata.TopicConfigsChanged("t", {"retention.ms": "2"}),
    metadata.ConfigsChanged("broker", "11", {"log.retention.ms": "3"}),
    metadata.AclsChanged(
        (("TOPIC", "orders", "PREFIXED", "User:a", "10.0.0.0/8", "READ", "ALLOW"),),
        (("GROUP", "*", "LITERAL", "User:*", "*", "ALL", "DENY"),),
    ),
    metadata.ScramCredentialsChanged((("a", 2, "c2FsdA==", "a2V5", "a2V5", 4096),), "c2VjcmV0"),
    metadata.ClientQuotasChanged(
        (((("client-id", None), ("user", "a")), {"producer_byte_rate": 5.0}),)
    ),
    metadata.ApiTokensChanged(
        (("ci", "0f" * 32, "operator", 1_000, 9_000, 2_000, "admin"), ("old", "", "", 0, 0, 0, ""))
    ),
    metadata.ConsoleSessionsEnded((("0f" * 16, 9_000),)),
    metadata.ShardsAssigned("transaction", ((0, 21), (1, -1))),
    metadata.ProducerIdsAllocated(4000, 1000, 21, 6),
    metadata.MetadataRestored(100_000),
    metadata.Snapshot({"cluster_id": "cluster", "nodes": (), "topics": (), "shards": ()}),
)
TRANSACTIONS = (
    (EMPTY, 0),
    (ONGOING, 1),
    (replace(ONGOING, origin=RequestOrigin(41, 7, 3)), 1),
    (replace(ONGOING, state=txn_state.TxnState.PREPARE_COMMIT), 1),
    (replace(ONGOING, state=txn_state.TxnState.PREPARE_ABORT), 1),
    (replace(EMPTY, state=txn_state.TxnState.COMPLETE_COMMIT), 1),
    (replace(EMPTY, state=txn_state.TxnState.COMPLETE_ABORT), 0),
    (txn_state.TxnTombstone("foo"), 1),
)
GROUPS = (
    OFFSET,
    OFFSET_OF_TOPIC,
    group_records.OffsetTombstone("g", Partition("t", 7)),
    group_records.GroupChanged(GROUP),
    group_records.GroupTombstone("g"),
    consumer.GroupEpoch("g", 4, 99),
    consumer.GroupEpoch("g", None),
    consumer.MemberSubscribed(
        "g",
        "m",
        consumer.Subscription("i", "r", "c", "/h", ("a", "b"), 300_000, "uniform", "x.*"),
    ),
    consumer.MemberSubscribed(
        "g",
        "m",
        consumer.Subscription(
            topics=("a",), classic=consumer.ClassicMember(45_000, (("range", b"x"),))
        ),
    ),
    consumer.MemberSubscribed("g", "m", None),
    consumer.TargetEpoch("g", 4),
    consumer.TargetAssigned("g", "m", SLOTS),
    consumer.MemberAssigned(
        "g",
        "m",
        consumer.Current(4, 3, consumer.MemberState.UNREVOKED_PARTITIONS, SLOTS, SLOTS),
    ),
    consumer.PatternResolved("g", "x.*", consumer.PatternTopics(("xa", "xb"), 8, TIME)),
)
NOT_IN_A_RECORD = {
    "SessionExtended",
    "ProducersForgotten",
    "TransactionStarted",
    "TopicsLookedThrough",
    "RejoinAwaited",
    "TransactionEnded",
}
"""Never journaled, or a control batch."""


def stored():
    """(kind, type, key, value) of every sample; metadata has the type's name for a key, and its body for a value."""
    for record in METADATA:
        yield "metadata", type(record).__name__, *metadata.encode_record(record)
    for record, version in TRANSACTIONS:
        yield "transaction", type(record).__name__, *txn_records.encode_record(record, version)
    for record in GROUPS:
        yield "group", type(record).__name__, *group_records.encode_group_record(record)
    for record, key, value in SINK_RECORDS:
        name = type(record).__name__
        yield "sink", name, bytes.fromhex(key), None if value is None else bytes.fromhex(value)


def read(kind, key, value):
    """The record, by today's code."""
    if kind == "metadata":
        return metadata.decode_record(key, value)
    decoders = {
        "transaction": txn_records.decode_record,
        "group": group_records.decode_group_record,
        "sink": sink_records.decode_sink_record,
    }
    return decoders[kind](key, value)


def types():
    """Every type that is written somewhere, by kind."""
    group_types = {one.__name__ for one in get_args(group_records.GroupRecord)} - NOT_IN_A_RECORD
    return {
        "metadata": set(metadata.RECORD_TYPES),
        "transaction": {one.__name__ for one in get_args(txn_state.TxnRecord)},
        "group": group_types,
        "sink": {one.__name__ for one in get_args(sink_records.SinkRecord)},
    }


KEPT_AS = {"origin": "stamp"}
"""Fields that have another name since: golden data keeps the one they began with."""


def meaning(thing):
    """As JSON has it: a record is its type and its fields."""
    if is_dataclass(thing):
        return {
            KEPT_AS.get(one.name, one.name): meaning(getattr(thing, one.name))
            for one in fields(thing)
        }
    if isinstance(thing, Enum):
        return thing.name
    if isinstance(thing, bytes):
        return thing.hex()
    if isinstance(thing, Mapping):
        return {str(name): meaning(value) for name, value in thing.items()}
    if isinstance(thing, frozenset):
        return sorted(meaning(one) for one in thing)
    if isinstance(thing, tuple | list):
        return [meaning(one) for one in thing]
    return thing


def keeps(now, then):
    """Whether `now` means what `then` did: a field may be added, none may go or change."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(
            name in now and keeps(now[name], value) for name, value in then.items()
        )
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(keeps, now, then))
    return bool(now == then)
