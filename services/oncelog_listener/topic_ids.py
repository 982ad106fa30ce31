"""Topics by name or by id, as the version of a request has it (KIP-516).

A name is given again when its topic is deleted; an id never is. So a request that goes to a leader says which topic
was meant, also where its client gave a name: the leader's node may know of a deletion before this one, or after it.
"""

from typing import Any
from uuid import UUID

from oncelog.rpc.metadata import MetadataImage


def topic_name(image: MetadataImage, topic: Any) -> str | None:
    """Return the name of a topic that the request names by name, or by `topic_id`; None for an id that no topic has."""
    if not hasattr(topic, "topic_id"):
        name: str = topic.name
        return name
    return name_of(image, topic.topic_id)


def name_of(image: MetadataImage, topic_id: UUID | None) -> str | None:
    """Return the name of the topic with this id; None: there is none. kio reads the id that is all zeros as None."""
    found = None if topic_id is None else image.topics_by_id.get(topic_id.bytes)
    return None if found is None else found.name


def topic_fields(topic: Any, name: str | None) -> dict[str, Any]:
    """Return the fields that name a topic in an answer: its id where the request gave one, else its name."""
    return {"name": name, "topic_id": getattr(topic, "topic_id", None)}


def id_of(image: MetadataImage, name: str) -> bytes:
    """Return the id of the topic with this name; empty for a topic that is not known."""
    found = image.topics.get(name)
    return b"" if found is None else found.topic_id
