"""Converts partitions between topic ids, which the group machine uses, and names, which classic members' bytes have."""

from collections.abc import Iterable

from oncelog.protocol.consumer_protocol import encode_assignment
from oncelog_coordinator.core.consumer_group import Slots, Topics


def write_assignment(slots: Slots, topics: Topics, version: int) -> bytes:
    """Return these partitions as the bytes of a classic assignment in this version. A topic that is gone is left
    out.
    """
    names = {shape.topic_id: name for name, shape in topics.items()}
    known = [(names[topic_id], number) for topic_id, number in sorted(slots) if topic_id in names]
    return encode_assignment(known, version)


def slots_of(partitions: Iterable[tuple[str, int]], topics: Topics) -> Slots:
    """Return those of these named partitions that exist, each as topic id and number."""
    return frozenset(
        (topics[name].topic_id, partition)
        for name, partition in partitions
        if name in topics and 0 <= partition < topics[name].partitions
    )
