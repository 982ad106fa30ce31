"""The settings by which the metadata machine decides. `ControllerSettings` has their units and reasons."""

from dataclasses import dataclass
from typing import Final

INTERNAL_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
}
"""The configs of internal topics (docs/kafka-facts.md, 5.1). Other configs have oncelog's defaults, or come from
`InternalTopicRules`.
"""

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
"""The limits of internal topics' configs: for each the value, or the least number, that it must keep, and the reason.

Kafka allows any value of these configs.
"""


@dataclass(frozen=True, slots=True)
class InternalTopicRules:
    replication_factor: int = 0
    """The replication factor; 0: as many as there are storage nodes, up to three."""
    min_isr: int = 0
    """`min.insync.replicas`; 0: two if there are three replicas.

    With two copies of each decision, no loss of one node loses any.
    """
    segment_bytes: int = 104_857_600


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """The settings of the metadata machine, and the identity of its controller process.

    `controller_epoch` is that of this process's lease; 0: there is no lease.
    """

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
