"""The Metadata request as Kafka's message, and its answer as values of the client's pure part (`core/`)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from oncelog.client.core.cluster_view import Leader, TopicView
from oncelog.errors import error_code_of

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka


def metadata_request(
    types: kafka.MetadataRequestTypes, topics: Sequence[str] | None, *, may_make: bool
) -> kafka.MetadataRequest:
    return types.MetadataRequest(
        topics=None
        if topics is None
        else tuple(types.MetadataRequestTopic(topic_id=None, name=topic) for topic in topics),
        allow_auto_topic_creation=may_make,
        include_topic_authorized_operations=False,
    )


def topic_views(response: kafka.MetadataResponse) -> list[TopicView]:
    """Return the topics of the answer. One without a name is left out: this client asks by name."""
    return [
        TopicView(
            topic.name,
            b"" if topic.topic_id is None else topic.topic_id.bytes,
            tuple(
                Leader(one.leader_id, one.leader_epoch, one.replica_nodes)
                for one in sorted(topic.partitions, key=attrgetter("partition_index"))
            ),
            topic.is_internal,
            error_code_of(topic.error_code),
        )
        for topic in response.topics
        if topic.name is not None
    ]
