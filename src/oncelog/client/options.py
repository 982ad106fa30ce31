"""The keywords of the clients, with their types: an editor completes them, and a type checker knows them.

Each is a setting of Kafka with underscores for its dots; defaults and units stand in the settings classes of the core.
"""

from typing import Literal, TypedDict


class ConnectionOptions(TypedDict, total=False):
    client_id: str
    connect_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class ProducerOptions(ConnectionOptions, total=False):
    acks: Literal["all", 0, 1, -1, "0", "1"]
    enable_idempotence: bool
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    max_request_size: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_ignore_keys: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    client_rack: str
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool


class ConsumerOptions(ConnectionOptions, total=False):
    group_id: str
    group_instance_id: str
    group_remote_assignor: str
    client_rack: str
    isolation_level: Literal["read_committed", "read_uncommitted"]
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    default_api_timeout_ms: int


class AdminOptions(ConnectionOptions, total=False):
    default_api_timeout_ms: int
