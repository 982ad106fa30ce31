"""The coordinator's settings; each is read from ONCELOG_COORDINATOR_<NAME>. Defaults are Kafka's where it has the same
setting (docs/kafka-facts.md, 10).
"""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

DAY_MS = 86_400_000


class CoordinatorSettings(BaseSettings):
    """Set once per process. Times are in milliseconds.

    The settings of a coordinator: limits of transactions and groups, timeouts of its calls, loading, and its event
    feed.
    """

    model_config = SettingsConfigDict(env_prefix="ONCELOG_COORDINATOR_", frozen=True)

    transaction_max_timeout_ms: int = Field(
        900_000,
        ge=1,
        le=2**31 - 2,
        description="longest transaction timeout a producer may ask for; an abandoned one holds "
        "back read_committed consumers for this long",
    )
    transactional_id_expiration_ms: int = Field(
        7 * DAY_MS,
        ge=1,
        description="an id unused for this long is forgotten; keep it above the longest pause of "
        "an application",
    )
    job_sink_expiration_ms: int = Field(
        7 * DAY_MS,
        ge=1,
        description="the sink of a Spark batch job with a jobId is forgotten when no run of the job opened it for "
        "this long; a later run writes its rows again",
    )
    expire_ids_interval_ms: int = Field(
        3_600_000, ge=10, description="how often expired ids and job sinks are looked for"
    )
    two_phase_commit_enabled: bool = Field(
        False,
        description="allow producers whose transactions never time out and are decided together with another system "
        "(KIP-939); the feature two.phase.commit.version must be 1 as well. One that is left holds back "
        "read_committed consumers until its application or an operator ends it",
    )
    origin_check_enabled: bool = Field(
        True,
        description="refuse a TV1 request held up on a connection its client has since replaced "
        "(ADR 0018); off, it may end or start a transaction that is not its own, as in Kafka",
    )
    append_timeout_ms: int = Field(
        5_000,
        ge=10,
        description="how long an append to the shard's log is retried before clients are told to "
        "look for the coordinator again; above a leader election, below a client's request timeout",
    )
    retry_backoff_ms: int = Field(
        50,
        ge=1,
        le=60_000,
        description="first pause before a failed call to another role is repeated",
    )
    retry_backoff_max_ms: int = Field(
        1_000, ge=1, le=60_000, description="longest such pause; half of it is random"
    )
    concurrent_wait_ms: int = Field(
        100,
        ge=0,
        le=10_000,
        description="how long CONCURRENT_TRANSACTIONS is held back for the last transaction's "
        "completion: most clients sleep longer than that before they retry",
    )
    deliveries_max: int = Field(
        1_000,
        ge=1,
        description="decisions handed to the marker sender at one time; more wait here, not there",
    )
    start_timeout_ms: int = Field(
        5_000,
        ge=0,
        description="how long start waits for its shards and first producer ids; after that they "
        "go on loading while clients are told COORDINATOR_LOAD_IN_PROGRESS",
    )
    redis_url: str = Field(
        "",
        description="where the live event feed goes, redis://host:6379/0; empty: there is none. "
        "Nothing waits for it",
    )

    transaction_load_buffer_bytes: int = Field(
        1_048_576,
        ge=1024,
        le=2**31 - 1,
        description="bytes read at a time when a shard of transactions is loaded "
        "(transaction.state.log.load.buffer.size); one batch may be larger. "
        "Kafka reads 5 MiB, in threads; here all is decoded on one event loop, and 5 MiB would stop it for 0.1 s",
    )
    group_load_buffer_bytes: int = Field(
        1_048_576,
        ge=1024,
        le=2**31 - 1,
        description="the same for a shard of groups (offsets.load.buffer.size)",
    )

    # Groups.

    group_initial_rebalance_delay_ms: int = Field(
        200,
        ge=0,
        le=60_000,
        description="how long an empty group's first rebalance waits for more members. Kafka waits 3 s to save "
        "big groups a rebalance each; 0.2 s catches what one process starts and keeps tests quick",
    )
    group_session_timeout_min_ms: int = Field(
        6_000, ge=1, description="shortest session a member may ask for"
    )
    group_session_timeout_max_ms: int = Field(
        1_800_000,
        ge=1,
        description="longest session: a silent member's partitions stand still so long",
    )
    group_consumer_session_timeout_ms: int = Field(
        45_000,
        ge=100,
        description="session of members of the consumer protocol (KIP-848), which do not choose it themselves",
    )
    group_consumer_heartbeat_interval_ms: int = Field(
        5_000,
        ge=10,
        description="how often those members are told to send a heartbeat, and so how fast a rebalance goes: each "
        "step of it waits for one. Several must fit into a session",
    )
    group_consumer_migration_policy: Literal[
        "disabled", "upgrade", "downgrade", "bidirectional"
    ] = Field(
        "bidirectional",
        description="which way a living group may change its protocol: upgrade, when a member of the consumer "
        "protocol joins a classic group; downgrade, when the last one leaves; disabled also keeps classic members "
        "out of consumer groups",
    )
    group_members_max: int = Field(
        1_000, ge=1, le=100_000, description="members of a group; one more is refused"
    )
    offset_metadata_bytes_max: int = Field(
        4_096, ge=0, le=30_000, description="of what a client may say beside a committed offset"
    )
    offsets_retention_ms: int = Field(
        7 * DAY_MS,
        ge=1,
        description="offsets are kept this long after the group is empty, or after the commit where nobody joins",
    )
    offsets_clean_up_interval_ms: int = Field(
        600_000, ge=10, description="how often offsets past their retention are looked for"
    )
