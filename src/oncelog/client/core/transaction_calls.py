"""What a producer asks its coordinators, as values: the shell makes Kafka's messages of them, and tells the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.client.core.sequences import Identity
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


class GroupMember(NamedTuple):
    """Who consumed, for `send_offsets_to_transaction` (KIP-447). Without a generation the group has no members."""

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
    """`known`: the identity to go on from, whose epoch is raised (KIP-360). `keep_prepared`: an open transaction stays
    (KIP-939)."""

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
    """It goes to the group's coordinator."""

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
    """`error` is the worst code of the answer, NONE for success; `message` says more where the broker did."""

    error: ErrorCode
    message: str = ""
    identity: Identity | None = None
    """The producer's identity from now on, where the answer tells one."""
    kept: Identity | None = None
    """The open transaction that InitProducerId kept."""
    refused: tuple[tuple[Partition, ErrorCode], ...] = ()
    """Partitions of AddPartitions or CommitOffsets that were refused."""
