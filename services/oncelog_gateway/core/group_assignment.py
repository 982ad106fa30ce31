"""What a member of a consumer group was assigned: the bytes its leader chose, which the cluster passes on unread."""

from typing import Final

from oncelog.protocol.consumer_protocol import Unreadable, read_assigned_topics

PARTITIONS_MAX: Final = 100_000


def assigned_partitions(content: bytes) -> dict[str, list[int]] | None:
    """Partitions by topic; None for bytes that are no consumer's assignment. No bytes are no partitions."""
    try:
        topics = read_assigned_topics(content)
    except Unreadable:
        return None
    return topics if sum(map(len, topics.values())) <= PARTITIONS_MAX else None
