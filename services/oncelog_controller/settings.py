"""The controller's settings; each is read from ONCELOG_CONTROLLER_<NAME>."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ControllerSettings(BaseSettings):
    """Settings of a controller, set once per process.

    The counts of shards, the feature level and the settings of internal topics matter only when the cluster is created.
    """

    model_config = SettingsConfigDict(env_prefix="ONCELOG_CONTROLLER_", frozen=True)

    database_url: str = Field(
        "sqlite:///oncelog-controller.db",
        description="where the journal is kept: sqlite:///path, or postgresql+psycopg://user@host/database",
    )
    controller_id: int = Field(
        1, ge=1, description="node id that metadata names as the controller's"
    )
    rpc_address: str = Field(
        "",
        max_length=255,
        description="host:port at which nodes and other controllers reach this one; empty: it is embedded, "
        "the only one, and needs no lease",
    )
    lease_ms: int = Field(
        3000,
        ge=200,
        le=600_000,
        description="how long a controller that fell silent stays the active one; renewed four times within it. "
        "Shorter takes over sooner, and more often without need",
    )
    database_start_timeout_ms: int = Field(
        60_000,
        ge=0,
        le=86_400_000,
        description="how long a controller that starts tries again while its database is not there, or too slow; then "
        "it ends. 0: it ends at the first failure",
    )
    database_silence_ms: int = Field(
        60_000,
        ge=1000,
        le=86_400_000,
        description="how long the active controller goes on answering without its database, longer than a restart of "
        "that takes; then it stands by, for perhaps only this one cannot reach it, and another is active",
    )
    transaction_shard_count: int = Field(
        50, ge=1, le=1000, description="partitions of __transaction_state; fixed at creation"
    )
    group_shard_count: int = Field(
        50, ge=1, le=1000, description="partitions of __consumer_offsets; fixed at creation"
    )
    default_partitions: int = Field(
        1, ge=1, le=1000, description="partitions of a topic that is created with -1"
    )
    partitions_max: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="partitions in the whole cluster; each costs every node memory and open files",
    )
    transaction_version: int = Field(
        2, ge=0, le=2, description="level of transaction.version when the cluster is created"
    )
    bootstrap_storage_nodes: int = Field(
        1,
        ge=1,
        le=1000,
        description="storage nodes that must have registered before the internal topics are created; "
        "3 in a cluster, so that they get three replicas",
    )
    transaction_topic_replication_factor: int = Field(
        0,
        ge=0,
        le=100,
        description="replicas of __transaction_state (transaction.state.log.replication.factor); it is created once so "
        "many storage nodes are there. 0: as many as there are, up to three",
    )
    transaction_topic_min_isr: int = Field(
        0,
        ge=0,
        le=100,
        description="min.insync.replicas of __transaction_state (transaction.state.log.min.isr); 0: two where there "
        "are three replicas, else one",
    )
    transaction_topic_segment_bytes: int = Field(
        104_857_600,
        ge=1024,
        le=2**31 - 1,
        description="segment.bytes of __transaction_state (transaction.state.log.segment.bytes)",
    )
    group_topic_replication_factor: int = Field(
        0,
        ge=0,
        le=100,
        description="replicas of __consumer_offsets (offsets.topic.replication.factor); as above",
    )
    group_topic_min_isr: int = Field(
        0, ge=0, le=100, description="min.insync.replicas of __consumer_offsets; as above"
    )
    group_topic_segment_bytes: int = Field(
        104_857_600,
        ge=1024,
        le=2**31 - 1,
        description="segment.bytes of __consumer_offsets (offsets.topic.segment.bytes)",
    )
    session_timeout_ms: int = Field(
        6000,
        ge=100,
        le=3_600_000,
        description="told to nodes, who heartbeat well within it: one that is silent for so long on an open stream is "
        "fenced. Longer than any pause a busy machine makes",
    )
    session_grace_ms: int = Field(
        300,
        ge=0,
        le=3_600_000,
        description="how long a node whose stream broke may take to open another before it is fenced. "
        "Shorter replaces a killed process sooner; too short makes every broken connection an election",
    )
    leader_balance_interval_ms: int = Field(
        10_000,
        ge=100,
        le=86_400_000,
        description="how often leadership goes back to preferred replicas that are in sync again; "
        "up to half of it is added by chance",
    )
    snapshot_interval_records: int = Field(
        10_000, ge=1, description="records in the journal after which the image is written down"
    )
    delta_history: int = Field(
        1000, ge=1, le=100_000, description="updates held for watchers that are behind or come back"
    )
    database_timeout_ms: int = Field(
        5000, ge=100, le=600_000, description="longest wait for a connection or a lock"
    )
