"""Decodes the partitions that a member of a consumer group was assigned. The group's leader wrote these bytes, and the
cluster passes them on unread.
"""

from typing import Final

from oncelog.protocol.consumer_protocol import Unreadable, read_assigned_topics

PARTITIONS_MAX: Final = 100_000


def assigned_partitions(content: bytes) -> dict[str, list[int]] | None:
    """Return the assigned partitions by topic; None for bytes in another format. Empty bytes mean no partitions."""
    try:
        topics = read_assigned_topics(content)
    except Unreadable:
        return None
    return topics if sum(map(len, topics.values())) <= PARTITIONS_MAX else None
