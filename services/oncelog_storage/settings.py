"""Every setting of a storage node. Environment: `ONCELOG_STORAGE_` + the name in capitals."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class FlushPolicy(StrEnum):
    """The time at which an acknowledged record is on the disk itself, not only with the operating system."""

    OS = "os"
    """A record is written before its answer, and synced by the operating system and by checkpoints.

    It survives a kill of the process, not of the machine. A topic's flush.messages and flush.ms are honoured. This is
    Kafka's default; replication covers the rest.
    """
    ALWAYS = "always"
    """A record is synced before its answer and before consumers see it.

    It survives a power cut, at the price of a sync per group of appends.
    """


class StorageSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ONCELOG_STORAGE_")

    data_dir: Path = Field(
        default=Path("oncelog-data/storage"), description="Folder of this node's partitions."
    )
    flush_policy: FlushPolicy = Field(
        default=FlushPolicy.OS, description="os or always; see FlushPolicy."
    )
    checkpoint_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=1024,
        description="Bytes appended to a partition between two checkpoints: what a crash makes the next start scan.",
    )
    checkpoint_interval_ms: int = Field(
        default=60_000,
        ge=10,
        description="A partition with appends is checkpointed at least this often.",
    )
    stop_timeout_ms: int = Field(
        default=10_000,
        ge=0,
        description="How long a stop may write checkpoints; what it does not come to is read at the next start.",
    )
    retention_check_interval_ms: int = Field(
        default=300_000,
        ge=10,
        description="How often retention.ms and retention.bytes are applied.",
    )
    producer_id_expiration_ms: int = Field(
        default=86_400_000,
        ge=1,
        description="A producer silent this long, with nothing open, is forgotten (facts 10).",
    )
    producer_id_expiration_check_interval_ms: int = Field(
        default=600_000, ge=10, description="How often silent producers are looked for."
    )
    late_transaction_ms: int | None = Field(
        default=None,
        ge=1,
        description="A partition is late (KIP-664) when its oldest open transaction has written nothing for this long; "
        "unset: the coordinators' transaction_max_timeout_ms and five minutes.",
    )
    transaction_partition_verification_enable: bool = Field(
        default=True,
        description="Ask the coordinator before a TV1 transaction enters a partition. TV2 always asks.",
    )
    add_partitions_retry_backoff_ms: int = Field(
        default=20,
        ge=1,
        description="Pause between tries while the last transaction completes (TV2).",
    )
    add_partitions_retry_backoff_max_ms: int = Field(
        default=100, ge=0, description="After this, CONCURRENT_TRANSACTIONS goes to the producer."
    )
    coordinator_wait_max_ms: int = Field(
        default=5_000,
        ge=0,
        description="How long a transactional batch waits while its coordinator is being replaced.",
    )
    request_timeout_ms: int = Field(
        default=30_000,
        ge=1,
        description="Longest wait for a coordinator, whatever a producer allows.",
    )
    replica_lag_time_max_ms: int = Field(
        default=10_000,
        ge=10,
        description="A follower that has not caught up for this long leaves the in-sync replicas.",
    )
    in_sync_wait_max_ms: int = Field(
        default=300_000,
        ge=0,
        description="A node that starts says that it is ready when its replicas are in sync, or after this time.",
    )
    replica_fetch_wait_max_ms: int = Field(
        default=2_000,
        ge=1,
        description="Longest wait of a follower's fetch for something new.",
    )
    replica_fetch_bytes_max: int = Field(
        default=2 * 1024 * 1024,
        ge=1024,
        description="Largest answer to a follower; one batch may be larger.",
    )
    replica_fetch_backoff_ms: int = Field(
        default=50, ge=1, description="Pause of a follower after a fetch that failed."
    )
    replica_high_watermark_linger_ms: int = Field(
        default=25,
        ge=0,
        description="A new high watermark waits this long for records that could take it to a follower.",
    )
    replica_removal_delay_ms: int = Field(
        default=60_000,
        ge=0,
        description="A replica that was assigned elsewhere is deleted after this time.",
    )
    high_watermark_checkpoint_interval_ms: int = Field(
        default=5_000, ge=10, description="How often high watermarks of replicas are written down."
    )
    scrub_bytes_per_s: int = Field(
        default=2 * 1024 * 1024,
        ge=1024,
        description="How fast sealed segments of replicas are read again to find damage.",
    )
    fetch_bytes_max: int = Field(
        default=55 * 1024 * 1024, ge=1024, description="Largest fetch answer, whatever is asked."
    )
    fetch_waiters_max: int = Field(
        default=10_000,
        ge=0,
        description="Fetches that may wait for data at once; one more is answered at once with what there is.",
    )
    redis_url: str = Field(
        default="",
        description="Where the live event feed goes, redis://host:6379/0; empty: there is none.",
    )
    cleaner_interval_ms: int = Field(
        default=5_000, ge=10, description="How often compacted topics are looked at for cleaning."
    )
    cleaner_io_bytes_per_s: int = Field(
        default=0,
        ge=0,
        description="Bytes a second that cleaning may read and write together; 0 for no limit.",
    )
    cleaner_map_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024,
        description="Memory for the keys of one cleaning pass; a log with more of them takes several passes.",
    )
    shard_roll_bytes: int = Field(
        default=512 * 1024,
        ge=1024,
        description="A coordinator's shard begins a new segment at this size: the newest segment is never cleaned, so"
        " this bounds what a coordinator reads beyond what is alive.",
    )
    open_files_max: int = Field(
        default=512,
        ge=16,
        description="Segment files held open; the least recently used is closed.",
    )
