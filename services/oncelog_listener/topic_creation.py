"""The creation of topics for clients, with a wait until this node knows of them.

An answer that says "created" before this node's metadata has the topic sends the client into a round of UNKNOWN_TOPIC
errors and back-offs; a short wait here is cheaper for everybody.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS
from oncelog_listener.cluster import PEER_FAILURES, Cluster
from oncelog_listener.core.topic_names import is_legal_topic_name

log = logging.getLogger("oncelog.listener")

_CREATED_AT_ONCE_MAX: Final = 100
"""The most missing topics that one Metadata request creates; the rest are unknown until the client asks again."""


async def create_missing(cluster: Cluster, names: Sequence[str]) -> None:
    """Create those of the topics that do not exist, if settings allow it, and wait a moment until this node's metadata
    has them.

    It returns nothing: the caller looks into the metadata.
    """
    if not cluster.settings.auto_create_topics:
        return
    known = cluster.image.topics
    missing = list(
        islice(
            (
                name
                for name in dict.fromkeys(names)
                if name not in known and name not in INTERNAL_TOPICS and is_legal_topic_name(name)
            ),
            _CREATED_AT_ONCE_MAX,
        )
    )
    if not missing:
        return
    request = pb.CreateTopicsRequest(
        topics=[
            pb.NewTopic(
                name=name, partitions=cluster.settings.num_partitions, replication_factor=-1
            )
            for name in missing
        ]
    )
    try:
        answer = await cluster.answer_in_time(cluster.directory.controller().CreateTopics(request))
    except PEER_FAILURES as error:
        log.warning("topics %s were not created: %r", ", ".join(missing), error)
        return
    for result in answer.results:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning(
                "topic %s was not created: error %d %s",
                result.name,
                result.error_code,
                result.error_message,
            )
    exists = {
        result.name
        for result in answer.results
        if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    await wait_for_topics(cluster, exists)


async def wait_for_topics(cluster: Cluster, names: set[str]) -> None:
    """Wait until this node's metadata has all these topics with their leaders, for at most `image_wait_ms`."""
    try:
        async with asyncio.timeout(cluster.settings.image_wait_ms / 1000):
            while not all(_is_ready(cluster, name) for name in names):
                await cluster.metadata.wait_until(cluster.image.metadata_offset + 1)
    except TimeoutError:
        return


def _is_ready(cluster: Cluster, name: str) -> bool:
    topic = cluster.image.topics.get(name)
    return topic is not None and all(partition.leader >= 0 for partition in topic.partitions)
