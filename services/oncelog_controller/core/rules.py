"""What the controller's decisions depend on besides the image; see `ControllerSettings` for units and reasons."""

from dataclasses import dataclass
from typing import Final

INTERNAL_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
}
"""Facts 5.1; what else it asks for is oncelog's default, or says `InternalTopicRules`."""

INTERNAL_TOPIC_LIMITS: Final = {
    "cleanup.policy": ("compact", "old decisions and offsets would be deleted"),
    "unclean.leader.election.enable": (
        "false",
        "a replica that lacks records would lead, and decisions that were told would be forgotten",
    ),
    "message.timestamp.type": (
        "CreateTime",
        "a coordinator compares the times of its records with its own clock",
    ),
    "max.message.bytes": ("1048588", "a transaction or group that exists could not be written"),
}
"""What the topics' configs must stay, or be at least, and why. Kafka allows each of them."""


@dataclass(frozen=True, slots=True)
class InternalTopicRules:
    replication_factor: int = 0
    """0: as many as there are storage nodes, up to three."""
    min_isr: int = 0
    """0: two where there are three replicas: with two copies of each decision, the loss of one node loses none."""
    segment_bytes: int = 104_857_600


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """`controller_epoch` is that of the lease this process holds; 0 where there is no lease."""

    controller: int
    incarnation_id: str
    controller_epoch: int = 0
    transaction_version: int = 2
    transaction_shard_count: int = 50
    group_shard_count: int = 50
    transaction_topic: InternalTopicRules = InternalTopicRules()
    group_topic: InternalTopicRules = InternalTopicRules()
    default_partitions: int = 1
    partitions_max: int = 10_000
    bootstrap_storage_nodes: int = 1
    snapshot_interval_records: int = 10_000
    leader_balance_interval_ms: int = 10_000
