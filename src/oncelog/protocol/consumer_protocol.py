"""The bytes that consumers of the classic protocol put into JoinGroup and SyncGroup (Kafka's ConsumerProtocol).

The classic protocol leaves these bytes to the clients. Nothing obliges a client to write them so: Connect and others
write their own. The coordinator reads them only where a group has members of both protocols (KIP-848), or is about to;
the gateway shows them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog.record.schema import (
    DAMAGE,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    Codec,
    absent,
    array,
    grouped,
    keyed_numbers,
    sized,
    structure,
)

PROTOCOL_TYPE: Final = "consumer"
NamedPartitions = tuple[tuple[str, int], ...]


class Unreadable(ValueError):
    """Raised for bytes that are no subscription or assignment of a consumer."""


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: NamedPartitions
    generation: int
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    partitions: NamedPartitions
    user_data: bytes | None = None


_TOPICS: Final = array(INT32, STRING)
_NUMBERS: Final = keyed_numbers(STRING, INT32)
_PARTITIONS: Final = grouped(STRING, INT32, lambda topic, number: (topic, number))
_USER_DATA: Final = sized(INT32, nullable=True)


def _subscription(version: int) -> Codec:
    return structure(
        EmbeddedSubscription,
        topics=_TOPICS,
        user_data=_USER_DATA,
        owned=_PARTITIONS if version >= 1 else absent(()),
        generation=INT32 if version >= 2 else absent(-1),
        rack_id=NULLABLE_STRING if version >= 3 else absent(None),
    )


_SUBSCRIPTIONS: Final = tuple(map(_subscription, range(4)))
_ASSIGNMENT: Final = structure(EmbeddedAssignment, partitions=_PARTITIONS, user_data=_USER_DATA)
"""The layout of an assignment, in every version."""


def read_subscription(data: bytes) -> EmbeddedSubscription:
    """Read a subscription. Raises Unreadable. A later version is read as the newest known one, as Kafka does."""
    try:
        version, at = _read_version(data)
        schema = _SUBSCRIPTIONS[min(version, len(_SUBSCRIPTIONS) - 1)]
        subscription: EmbeddedSubscription = schema.read(data, at, version=version)[0]
        return subscription
    except DAMAGE as error:
        raise Unreadable(f"a subscription of {len(data)} bytes: {error}") from error


def read_topics(subscription: bytes) -> frozenset[str]:
    """Read only the subscribed topics, and ignore the bytes behind them. Raises Unreadable."""
    try:
        return frozenset(_TOPICS.read(subscription, 2)[0])
    except DAMAGE as error:
        raise Unreadable(f"a subscription of {len(subscription)} bytes: {error}") from error


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Read an assignment; empty bytes mean that nothing is assigned. Raises Unreadable."""
    if not data:
        return EmbeddedAssignment(())
    try:
        _, at = _read_version(data)
        assignment: EmbeddedAssignment = _ASSIGNMENT.read(data, at)[0]
        return assignment
    except DAMAGE as error:
        raise Unreadable(f"an assignment of {len(data)} bytes: {error}") from error


def read_assigned_topics(data: bytes) -> dict[str, list[int]]:
    """Read only the assigned partitions by topic, and ignore the bytes behind them. Empty bytes: none.
    Raises Unreadable."""
    found: dict[str, list[int]] = {}
    try:
        for topic, numbers in _NUMBERS.read(data, 2)[0] if data else ():
            found.setdefault(topic, []).extend(numbers)
    except DAMAGE as error:
        raise Unreadable(f"an assignment of {len(data)} bytes: {error}") from error
    return found


def encode_assignment(partitions: Iterable[tuple[str, int]], version: int) -> bytes:
    return INT16.encode(version) + _ASSIGNMENT.encode(EmbeddedAssignment(tuple(partitions)))


def version_of(subscription: bytes) -> int:
    """Return the version of a subscription. The member's assignment is written in the same version."""
    return max(int.from_bytes(subscription[:2], signed=True), 0)


def _read_version(data: bytes) -> tuple[int, int]:
    version, at = INT16.read(data, 0)
    if version < 0:
        raise ValueError(f"version {version}")
    return version, at
