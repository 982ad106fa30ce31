"""Pydantic models of topics in REST: what answers contain, and the bodies of requests. A config has the same name and
JSON type in both.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from oncelog.api.v1 import controller_pb2
from oncelog.rpc.metadata import MetadataImage
from oncelog.topic_config import TOPIC_CONFIGS
from oncelog_gateway.core.topic_configs import (
    CHANGES_SCHEMA,
    CONFIGS_SCHEMA,
    SHOWN_SCHEMA,
    changes_as_text,
    configs_as_text,
)
from oncelog_gateway.resources import KnownOrNone, Page, RequestBody, Resource

PARTITIONS_MAX = 10_000

NewTopicName = Annotated[
    str,
    Field(
        max_length=249,
        pattern=r"^([A-Za-z0-9_-]|\.[A-Za-z0-9_-])[A-Za-z0-9._-]*$|^\.\.[A-Za-z0-9._-]+$",
    ),
]
TopicConfigs = Annotated[
    dict[str, str],
    BeforeValidator(configs_as_text),
    WithJsonSchema(CONFIGS_SCHEMA),
]
ConfigChanges = Annotated[
    dict[str, str | None],
    BeforeValidator(changes_as_text),
    WithJsonSchema(CHANGES_SCHEMA),
]
ShownConfigs = Annotated[dict[str, object], WithJsonSchema(SHOWN_SCHEMA)]
ConfigValue = Annotated[
    object,
    WithJsonSchema(
        {"type": ["integer", "number", "boolean", "string", "array"], "items": {"type": "string"}}
    ),
]


class TopicSummary(Resource):
    name: str
    topic_id: str
    internal: bool
    partition_count: int
    replication_factor: int
    configs: ShownConfigs = Field(description="only what differs from the defaults")


class TopicRates(Resource):
    records_in: float
    bytes_in: float
    records_out: float = Field(description="offsets: markers and aborted records as well")
    bytes_out: float
    span_ms: int = Field(description="the time that the rates are of")


class ListedTopic(TopicSummary):
    rates: TopicRates | None = Field(
        description="a second; null: this gateway has no two readings yet"
    )


class TopicPage(Page):
    topics: list[ListedTopic]


class TopicPartitionLeadership(Resource):
    partition: int
    leader: KnownOrNone
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class TopicConfigEntry(Resource):
    name: str
    value: ConfigValue
    is_default: bool
    doc: str


class TopicDetail(TopicSummary):
    partitions: list[TopicPartitionLeadership]
    all_configs: list[TopicConfigEntry]


class CreateTopicRequest(RequestBody):
    name: NewTopicName
    partition_count: int = Field(1, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(
        None, ge=1, le=32767, description="null: the cluster's default"
    )
    configs: TopicConfigs = Field(
        default_factory=dict, description="only what is to differ from the defaults"
    )
    dry_run: bool = Field(False, description="check it and create nothing")


class CreatedTopic(Resource):
    name: str
    topic_id: str | None = Field(description="null with dry_run")
    partition_count: int
    replication_factor: int
    configs: ShownConfigs
    dry_run: bool


class AlterConfigsRequest(RequestBody):
    configs: ConfigChanges = Field(
        min_length=1, description="only what changes; null: back to the default"
    )
    dry_run: bool = Field(False, description="check it and change nothing")


class AlteredConfigs(Resource):
    name: str
    configs: ShownConfigs = Field(
        description="all that differs from the defaults, after the change"
    )
    dry_run: bool
    audit_id: str | None = Field(description="null with dry_run")


class ConfigPage(Page):
    configs: list[TopicConfigEntry]


class AddPartitionsRequest(RequestBody):
    partition_count: int = Field(
        ge=1, le=PARTITIONS_MAX, description="the new total; it cannot become smaller"
    )
    dry_run: bool = Field(False, description="check it and change nothing")


class AddedPartitions(Resource):
    name: str
    partition_count: int
    dry_run: bool
    audit_id: str | None = Field(description="null with dry_run")


def config_texts(image: MetadataImage, topic: controller_pb2.Topic) -> Mapping[str, str]:
    """Return every config of the topic by name: its own value, else that of all brokers, else the default."""
    of_all = {} if topic.internal else image.topic_defaults
    return {
        key.name: topic.configs.get(key.name, of_all.get(key.name, key.default))
        for key in TOPIC_CONFIGS.values()
    }
