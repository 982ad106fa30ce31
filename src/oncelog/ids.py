"""Ids, epochs and quantities as distinct types.

This system has five epochs and half a dozen kinds of integer ids. Each is an `int` at run time and a type of its own to
the type checker. So a leader epoch can never be compared with a producer epoch by accident.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
Sequence = NewType("Sequence", int)
LeaderEpoch = NewType("LeaderEpoch", int)
CoordinatorEpoch = NewType("CoordinatorEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
NodeEpoch = NewType("NodeEpoch", int)
NodeId = NewType("NodeId", int)
TransactionalId = NewType("TransactionalId", str)
Millis = NewType("Millis", int)
"""Milliseconds since 1970, or a span of milliseconds where the name says so."""

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = Sequence(-1)
NO_TIMESTAMP: Final = Millis(-1)
NO_COORDINATOR_EPOCH: Final = CoordinatorEpoch(-1)

PRODUCER_EPOCH_MAX: Final = 32767
"""The largest int16; an epoch of at least this less one is exhausted (docs/kafka-facts.md, 10)."""

SEQUENCE_MAX: Final = 2**31 - 1

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
NAMES_REMEMBERED_MAX: Final = 10_000
"""The number of names whose shard is remembered: each request of a transaction asks for it several times."""

TRANSACTION_SHARD: Final = "transaction"
GROUP_SHARD: Final = "group"
SHARD_TOPICS: Final[Mapping[str, str]] = {
    TRANSACTION_SHARD: TRANSACTION_STATE_TOPIC,
    GROUP_SHARD: CONSUMER_OFFSETS_TOPIC,
}
"""The kinds of shard, each with the internal topic whose partition n is the log of shard n.

A new kind begins here, and in `ShardKind` of controller.proto: there it is SHARD_KIND_ and the name in capitals.
"""
INTERNAL_TOPICS: Final = frozenset(SHARD_TOPICS.values())


class Partition(NamedTuple):
    """A topic and a partition's number; it prints as in Kafka, `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SeenTransaction(NamedTuple):
    """An open transaction as an operator has seen it in one partition: its first offset, and its last so far."""

    start_offset: Offset
    last_offset: Offset


def next_sequence(sequence: int, count: int = 1) -> Sequence:
    """Return the sequence `count` records after this one; after 2147483647 comes 0 (docs/kafka-facts.md, 4)."""
    return Sequence((sequence + count) & SEQUENCE_MAX)


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, as a signed 32-bit number (docs/kafka-facts.md, 7)."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=NAMES_REMEMBERED_MAX)
def shard_of(name: str, shard_count: int) -> int:
    """Return the shard number of a transactional.id or a group: `abs(hash) % n`, where Kafka's abs(MIN_VALUE) is 0."""
    value = java_string_hash(name)
    return 0 if value == -(2**31) else abs(value) % shard_count


RESERVED_PREFIX: Final = "__oncelog/"
"""The prefix of names that oncelog gives: branches of Spark's batches and the sinks of batch jobs.
No client may use it."""

_BRANCH_PREFIX: Final = f"{RESERVED_PREFIX}branch/"
_JOB_PREFIX: Final = f"{RESERVED_PREFIX}job/"


def is_reserved_name(name: str) -> bool:
    return name.startswith(RESERVED_PREFIX)


def branch_transactional_id(sink: str, batch_id: int, task_partition: int) -> TransactionalId:
    """Return the transactional.id with which a Spark task writes its share (branch) of a micro-batch."""
    return TransactionalId(f"{_BRANCH_PREFIX}{batch_id}/{task_partition}/{sink}")


def branch_sink(transactional_id: str) -> str | None:
    """Return the Spark sink that a task's transactional.id belongs to; None for the id of any other producer."""
    if not transactional_id.startswith(_BRANCH_PREFIX):
        return None
    return transactional_id[len(_BRANCH_PREFIX) :].split("/", 2)[-1]


def job_sink_name(transactional_id: str, job_id: str | None) -> str:
    """Return the name of the sink of a Spark batch job; `job_id` None: of all jobs without an id.

    Slashes are escaped, so that no two pairs have one name.
    """
    escaped = transactional_id.replace("%", "%25").replace("/", "%2F")
    return f"{_JOB_PREFIX}{escaped}" + ("" if job_id is None else f"/{job_id}")


def is_job_sink(sink: str) -> bool:
    return sink.startswith(_JOB_PREFIX)


@lru_cache(maxsize=NAMES_REMEMBERED_MAX)
def acl_name_of(transactional_id: str) -> str:
    """Return the name by which ACLs know this transactional.id.

    That is the transactionalId that people chose, also for the names that oncelog gives to Spark's tasks and batch
    jobs.
    """
    sink = branch_sink(transactional_id)
    name = transactional_id if sink is None else sink
    if not is_job_sink(name):
        return name
    escaped = name.removeprefix(_JOB_PREFIX).partition("/")[0]
    return escaped.replace("%2F", "/").replace("%25", "%")


@lru_cache(maxsize=NAMES_REMEMBERED_MAX)
def shard_name_of(transactional_id: str) -> str:
    """Return the name whose hash gives the shard of a transactional.id.

    It is the id itself, as in Kafka; for the id of a Spark task it is the sink's name. Storage leaders and listeners
    route by transactional.id, and for a task they know no other name.
    """
    sink = branch_sink(transactional_id)
    return transactional_id if sink is None else sink
