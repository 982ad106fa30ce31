"""Topics by name or by id, as the version of a request has it (KIP-516).

A deleted topic's name may be given to a new topic; an id never is. So a request to a leader always carries the id, also
where the client gave a name. The leader's node may know of a deletion earlier or later than this one.
"""

from typing import Protocol
from uuid import UUID

from oncelog.rpc.metadata import MetadataImage


class NamedTopic(Protocol):
    """A topic in a request, by its name. In newer versions it has a `topic_id` instead."""

    @property
    def name(self) -> str: ...


def topic_name(image: MetadataImage, topic: NamedTopic) -> str | None:
    """Return the name of a topic that the request names by name, or by `topic_id`; None for an id that no topic has."""
    if not hasattr(topic, "topic_id"):
        return topic.name
    topic_id: UUID | None = topic.topic_id
    return name_of(image, topic_id)


def name_of(image: MetadataImage, topic_id: UUID | None) -> str | None:
    """Return the name of the topic with this id; None: there is none. An id of zeros means "no id"; the message library
    reads it as None."""
    found = None if topic_id is None else image.topics_by_id.get(topic_id.bytes)
    return None if found is None else found.name


def topic_id_of(topic: NamedTopic) -> UUID | None:
    """Return the id by which the request names the topic; None: it names it by its name. The answer must use the
    same."""
    topic_id: UUID | None = topic.topic_id if hasattr(topic, "topic_id") else None
    return topic_id


def id_of(image: MetadataImage, name: str) -> bytes:
    """Return the id of the topic with this name; empty for a topic that is not known."""
    found = image.topics.get(name)
    return b"" if found is None else found.topic_id
