"""`/v1/topics` and `/v1/partitions`: topics with their configs, and partitions with their offsets, producers and
records.
"""

import uuid
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.ids import Partition
from oncelog.topic_config import TOPIC_CONFIGS
from oncelog_gateway.core.topic_configs import as_json, configs_as_json
from oncelog_gateway.operators import Operators
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.problems import described
from oncelog_gateway.rate_recorder import NO_RATE, TopicRate
from oncelog_gateway.rates import Rates
from oncelog_gateway.record_status import RecordStatus, record_status
from oncelog_gateway.resources import (
    INT32_MAX,
    INT64_MAX,
    PageFields,
    PartitionPage,
    PartitionStatus,
    ProducerPage,
    paged,
    resource_of,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.routes.paging import Paging
from oncelog_gateway.topic_changes import TopicChanges
from oncelog_gateway.topic_resources import (
    AddedPartitions,
    AddPartitionsRequest,
    AlterConfigsRequest,
    AlteredConfigs,
    ConfigPage,
    CreatedTopic,
    CreateTopicRequest,
    ListedTopic,
    TopicConfigEntry,
    TopicDetail,
    TopicPage,
    TopicRates,
    TopicSummary,
    config_texts,
)
from oncelog_gateway.transactions import Transactions

TopicT = TypeVar("TopicT", bound=TopicSummary)

PARTITIONS_READ_MAX = 10_000
"""Partitions whose offsets one request reads at most. Beyond that, a client asks topic by topic."""

Name = Annotated[str, Path(min_length=1, max_length=249, examples=["orders"])]
Index = Annotated[int, Path(ge=0, le=INT32_MAX, examples=[0])]


def topics_router(roles: Roles, rates: Rates) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.get(**described("/topics", "List topics", 404))
    async def list_topics(
        internal: Annotated[bool, Query(description="also Kafka's own topics")] = True,
        *,
        paging: Paging,
    ) -> TopicPage:
        """Topics in order of name."""
        image = roles.image
        names = [name for name in image.topics if internal or not image.topics[name].internal]
        page, about = paged(names, lambda name: (name,), paging)
        found, span_ms = rates.topic_rates()
        return TopicPage(
            topics=[
                _summary(
                    ListedTopic, image.topics[name], rates=_rates(found.get(name, NO_RATE), span_ms)
                )
                for name in page
            ],
            **about,
        )

    @router.get(**described("/topics/{name}", "Describe a topic", 404))
    async def describe_topic(name: Name) -> TopicDetail:
        """The topic with leaders, replicas and every configuration, defaults included."""
        topic = roles.topic(name)
        return _summary(TopicDetail, topic, all_configs=_configs(roles, topic))

    @router.get(**described("/topics/{name}/configs", "Configs of a topic", 404))
    async def topic_configs(name: Name, paging: Paging) -> ConfigPage:
        """Every config of the topic, defaults included, in order of name."""
        rows = _configs(roles, roles.topic(name))
        page, about = paged(rows, lambda row: (row.name,), paging)
        return ConfigPage(configs=page, **about)

    return router


def topic_changes_router(changes: TopicChanges, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.post(**described("/topics", "Create a topic", 400, 403, 409, 413), status_code=201)
    async def create_topic(
        request: Request, body: CreateTopicRequest, response: Response
    ) -> CreatedTopic:
        """Creates a topic, and answers once it can be described here. With `dry_run` nothing is created."""
        result = await changes.create(operators.of(request), body)
        if not body.dry_run:
            response.headers["Location"] = f"/v1/topics/{quote(body.name, safe='')}"
        return CreatedTopic(
            name=body.name,
            topic_id=_uuid(result.topic_id) if result.topic_id else None,
            partition_count=result.partitions,
            replication_factor=result.replication_factor,
            configs=configs_as_json(body.configs),
            dry_run=body.dry_run,
        )

    @router.delete(**described("/topics/{name}", "Delete a topic", 403, 404, 409), status_code=204)
    async def delete_topic(request: Request, name: Name) -> Response:
        """Deletes the topic with all its records. There is no way back."""
        await changes.delete(operators.of(request), name)
        return Response(status_code=204)

    return router


def topic_alterations_router(
    roles: Roles, changes: TopicChanges, operators: Operators
) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.patch(
        **described("/topics/{name}/configs", "Change configs of a topic", 400, 403, 404, 409, 413)
    )
    async def alter_configs(
        request: Request, name: Name, body: AlterConfigsRequest
    ) -> AlteredConfigs:
        """Changes the configs that are named; the others stay as they are. `null` takes one back to its default."""
        audit_id = await changes.alter_configs(operators.of(request), name, body)
        configs = dict(roles.topic(name).configs)
        if body.dry_run:
            configs.update((key, value) for key, value in body.configs.items() if value is not None)
            configs = {
                key: value
                for key, value in configs.items()
                if body.configs.get(key, "") is not None
            }
        return AlteredConfigs(
            name=name, configs=configs_as_json(configs), dry_run=body.dry_run, audit_id=audit_id
        )

    @router.post(
        **described(
            "/topics/{name}/partitions", "Add partitions to a topic", 400, 403, 404, 409, 413
        )
    )
    async def add_partitions(
        request: Request, name: Name, body: AddPartitionsRequest
    ) -> AddedPartitions:
        """Adds partitions up to the new total. Keys go to other partitions from then on, and records stay where they
        are.
        """
        audit_id = await changes.add_partitions(operators.of(request), name, body)
        return AddedPartitions(
            name=name,
            partition_count=body.partition_count,
            dry_run=body.dry_run,
            audit_id=audit_id,
        )

    return router


def partitions_router(roles: Roles, partitions: Partitions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["partitions"])

    @router.get(**described("/topics/{name}/partitions", "Partitions of a topic", 404))
    async def of_topic(name: Name, paging: Paging) -> PartitionPage:
        """Partitions of the topic with their offsets and sizes, and what holds each last stable offset."""
        topic = roles.topic(name)
        every = [Partition(name, one.partition) for one in topic.partitions]
        shown, about = paged(every, lambda one: (one.partition,), paging)
        rows = await partitions.statuses(shown)
        return _partition_page(rows, rows, about)

    @router.get(**described("/partitions", "Partitions, the most stuck first", 404))
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
        *,
        paging: Paging,
    ) -> PartitionPage:
        """Partitions in order of LSO lag, then topic and partition."""
        wanted = all_partitions(roles.image, topic)[:PARTITIONS_READ_MAX]
        rows = [
            row
            for row in await partitions.statuses(wanted)
            if (row.lso_lag or 0) >= min_lso_lag and (row.is_troubled or not troubled)
        ]
        page, about = paged(
            rows, lambda row: (-(row.lso_lag or 0), row.topic, row.partition), paging
        )
        return _partition_page(page, rows, about)

    return router


def partition_router(roles: Roles, partitions: Partitions, transactions: Transactions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["partitions"])

    @router.get(**described("/partitions/{topic}/{partition}", "Describe a partition", 404))
    async def describe_partition(topic: Name, partition: Index) -> PartitionStatus:
        """The partition, with the reason why a read_committed reader waits here: the transaction that holds the last
        stable offset.
        """
        key = Partition(topic, partition)
        roles.leader_of(key)
        return (await partitions.statuses([key]))[0]

    @router.get(
        **described("/partitions/{topic}/{partition}/producers", "Producers of a partition", 404)
    )
    async def describe_producers(topic: Name, partition: Index, paging: Paging) -> ProducerPage:
        """Producer ids that the leader remembers, each with its open transaction (Kafka's DescribeProducers)."""
        rows = await partitions.producers(Partition(topic, partition))
        page, about = paged(rows, lambda row: (row.producer_id,), paging)
        return ProducerPage(producers=page, **about)

    @router.get(
        **described(
            "/partitions/{topic}/{partition}/records/{offset}", "Is this record committed?", 404
        )
    )
    async def describe_record(
        topic: Name, partition: Index, offset: Annotated[int, Path(ge=0, le=INT64_MAX)]
    ) -> RecordStatus:
        """The fate of the record: committed, aborted, open, or why there is nothing to say. It never holds the record
        itself.
        """
        key = Partition(topic, partition)
        return await record_status(roles, partitions, transactions, key, offset)

    return router


def _uuid(topic_id: bytes) -> str:
    return str(uuid.UUID(bytes=topic_id))


def _summary(kind: type[TopicT], topic: pb.Topic, **given: object) -> TopicT:
    return resource_of(
        kind,
        topic,
        topic_id=_uuid(topic.topic_id),
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas) if topic.partitions else 0,
        configs=configs_as_json(topic.configs),
        **given,
    )


def _rates(found: TopicRate, span_ms: int) -> TopicRates | None:
    return TopicRates(**found._asdict(), span_ms=span_ms) if span_ms else None


def _partition_page(
    page: list[PartitionStatus], rows: list[PartitionStatus], about: PageFields
) -> PartitionPage:
    failures = [row.failure for row in rows if row.failure is not None]
    return PartitionPage(partitions=page, **{**about, "incomplete": failures})


def _configs(roles: Roles, topic: pb.Topic) -> list[TopicConfigEntry]:
    texts = config_texts(roles.image, topic)
    return [
        TopicConfigEntry(
            name=key.name,
            value=as_json(key.name, texts[key.name]),
            is_default=key.name not in topic.configs,
            doc=key.doc,
        )
        for key in TOPIC_CONFIGS.values()
    ]
