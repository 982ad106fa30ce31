"""A producer's calls to its coordinators, and their answers, as plain values. `network/` turns them into Kafka's
messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.client.core.sequences import Identity
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


class GroupMember(NamedTuple):
    """A consumer's identity as a group member, for `send_offsets_to_transaction` (KIP-447). Generation -1: the group
    has no members."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A call for a producer id and epoch. `known`: the id and epoch to continue, whose epoch is raised (KIP-360).
    `keep_prepared`: an open transaction stays (KIP-939)."""

    known: Identity
    keep_prepared: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitions:
    identity: Identity
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    identity: Identity
    member: GroupMember


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """The call to the group's coordinator that commits offsets with the transaction (TxnOffsetCommit)."""

    identity: Identity
    member: GroupMember
    offsets: Mapping[Partition, OffsetToCommit]


@dataclass(frozen=True, slots=True)
class EndTxn:
    identity: Identity
    is_commit: bool


Call = InitProducerId | AddPartitions | AddOffsets | CommitOffsets | EndTxn


@dataclass(frozen=True, slots=True)
class Answer:
    """A coordinator's answer to a call. `error` is the worst code in it, NONE for success; `message` is the broker's
    text, if any."""

    error: ErrorCode
    message: str = ""
    identity: Identity | None = None
    """The producer's identity from now on, where the answer tells one."""
    kept: Identity | None = None
    """The producer id and epoch of the prepared transaction that InitProducerId kept open (KIP-939); None: it kept
    none."""
    refused: tuple[tuple[Partition, ErrorCode], ...] = ()
    """Partitions of AddPartitions or CommitOffsets that were refused."""
