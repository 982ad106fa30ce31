"""`/v1/topics` and `/v1/partitions`."""

import uuid
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.topic_config import TOPIC_CONFIGS
from oncelog_gateway.operators import Operators
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.problems import documented
from oncelog_gateway.resources import (
    INT32_MAX,
    CreatedTopic,
    CreateTopicRequest,
    PartitionList,
    PartitionStatus,
    ProducerList,
    TopicConfigEntry,
    TopicDetail,
    TopicList,
    TopicPartitionLeadership,
    TopicSummary,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.topic_changes import TopicChanges
from oncelog_gateway.transactions import known_or_none

PARTITIONS_READ_MAX = 10_000
"""Partitions whose offsets one request reads; beyond it, ask topic by topic."""

Name = Annotated[str, Path(min_length=1, max_length=249, examples=["orders"])]
Index = Annotated[int, Path(ge=0, le=INT32_MAX, examples=[0])]


def topics_router(roles: Roles) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.get("/topics", summary="List topics", responses=documented())
    async def list_topics(
        internal: Annotated[bool, Query(description="also Kafka's own topics")] = True,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
        offset: Annotated[int, Query(ge=0, le=INT32_MAX)] = 0,
    ) -> TopicList:
        """In order of name."""
        image = roles.image
        names = [
            name for name in sorted(image.topics) if internal or not image.topics[name].internal
        ]
        page = names[offset : offset + limit]
        return TopicList(
            topics=[TopicSummary(**_summary(image.topics[name])) for name in page], total=len(names)
        )

    @router.get("/topics/{name}", summary="Describe a topic", responses=documented(404))
    async def describe_topic(name: Name) -> TopicDetail:
        """Leaders, replicas and every configuration, defaults included."""
        topic = _topic(roles, name)
        of_all = {} if topic.internal else roles.image.topic_defaults
        return TopicDetail(
            **_summary(topic),
            partitions=[_leadership(one) for one in topic.partitions],
            all_configs=[
                TopicConfigEntry(
                    name=key.name,
                    value=topic.configs.get(key.name, of_all.get(key.name, key.default)),
                    is_default=key.name not in topic.configs,
                    doc=key.doc,
                )
                for key in TOPIC_CONFIGS.values()
            ],
        )

    return router


def topic_changes_router(changes: TopicChanges, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.post(
        "/topics",
        status_code=201,
        summary="Create a topic",
        responses=documented(400, 403, 409, 413),
    )
    async def create_topic(
        request: Request, body: CreateTopicRequest, response: Response
    ) -> CreatedTopic:
        """Answers once the topic can be described here. With `validate_only` nothing is created."""
        result = await changes.create(operators.of(request), body)
        if not body.validate_only:
            response.headers["Location"] = f"/v1/topics/{quote(body.name, safe='')}"
        return CreatedTopic(
            name=body.name,
            topic_id=_uuid(result.topic_id) if result.topic_id else None,
            partition_count=result.partitions,
            replication_factor=result.replication_factor,
            validate_only=body.validate_only,
        )

    @router.delete(
        "/topics/{name}",
        status_code=204,
        summary="Delete a topic",
        responses=documented(403, 404, 409),
    )
    async def delete_topic(request: Request, name: Name) -> Response:
        """With all its records. There is no way back."""
        await changes.delete(operators.of(request), name)
        return Response(status_code=204)

    return router


def partitions_router(roles: Roles, partitions: Partitions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["partitions"])

    @router.get(
        "/topics/{name}/partitions", summary="Partitions of a topic", responses=documented(404)
    )
    async def of_topic(name: Name) -> PartitionList:
        """Offsets, sizes, and what holds each last stable offset."""
        topic = _topic(roles, name)
        asked = [Partition(name, one.partition) for one in topic.partitions]
        return PartitionList(
            partitions=await partitions.statuses(asked[:PARTITIONS_READ_MAX]), total=len(asked)
        )

    @router.get("/partitions", summary="Partitions, the most stuck first", responses=documented())
    async def list_partitions(
        topic: Annotated[
            str, Query(max_length=249, description="only topics whose name contains this")
        ] = "",
        min_lso_lag: Annotated[
            int, Query(ge=0, le=2**63 - 1, description="only with at least this lag, in offsets")
        ] = 0,
        troubled: Annotated[
            bool, Query(description="only held back, under-replicated, or without an answer")
        ] = False,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
    ) -> PartitionList:
        """In order of LSO lag, then topic and partition."""
        asked = all_partitions(roles.image, topic)[:PARTITIONS_READ_MAX]
        rows = [
            row
            for row in await partitions.statuses(asked)
            if (row.lso_lag or 0) >= min_lso_lag and (row.is_troubled or not troubled)
        ]
        rows.sort(key=lambda row: -(row.lso_lag or 0))
        return PartitionList(partitions=rows[:limit], total=len(rows))

    @router.get(
        "/partitions/{topic}/{partition}",
        summary="Describe a partition",
        responses=documented(404),
    )
    async def describe_partition(topic: Name, partition: Index) -> PartitionStatus:
        """Why a read_committed reader waits here: the transaction that holds the last stable offset."""
        asked = Partition(topic, partition)
        roles.leader_of(asked)
        return (await partitions.statuses([asked]))[0]

    @router.get(
        "/partitions/{topic}/{partition}/producers",
        summary="Producers of a partition",
        responses=documented(404),
    )
    async def describe_producers(topic: Name, partition: Index) -> ProducerList:
        """Every producer id the leader remembers, with its open transaction (Kafka's DescribeProducers)."""
        return ProducerList(producers=await partitions.producers(Partition(topic, partition)))

    return router


def _topic(roles: Roles, name: str) -> pb.Topic:
    topic = roles.image.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {name!r}; GET /v1/topics lists all",
        )
    return topic


def _uuid(topic_id: bytes) -> str:
    return str(uuid.UUID(bytes=topic_id))


def _summary(topic: pb.Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": _uuid(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "configs": dict(topic.configs),
    }


def _leadership(one: pb.Partition) -> TopicPartitionLeadership:
    return TopicPartitionLeadership(
        partition=one.partition,
        leader=known_or_none(one.leader),
        leader_epoch=one.leader_epoch,
        replicas=list(one.replicas),
        isr=list(one.isr),
    )
