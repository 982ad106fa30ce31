"""Settings drawn from the seed, so that rare branches are reached: segments of a kilobyte, blocks of one
producer id, queues of one.

    draw = world.streams.stream("settings")
    environment |= draw_storage_settings(draw)

A run is ordinary in most settings and extreme in some. Every value lies within the bounds that the setting
declares, and a cluster works with all of them together: a value that would only make it slow, deaf or
forgetful is not drawn. Ordinary values are those of a cluster in a hurry: production's defaults wait for
minutes where a run has minutes in all.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.client.core import sequences
from oncelog_controller import sql_journal
from oncelog_controller.core import machine
from oncelog_coordinator.core import (
    end_txn,
    fencing,
    group_offsets,
    init_producer_id,
    txn_state,
)
from oncelog_robustness.simulator.seams import replace
from oncelog_storage import log_checkpoint, replication
from oncelog_storage.core import (
    batch_walk,
    cleaning_pass,
    producer_state,
    read_places,
    segment_state,
)

SCRUB_PAUSE_S: Final = 2.0
EXTREME_SHARE: Final = 0.3
"""The share of settings that are extreme when a run is wild."""


class DrawnSetting(NamedTuple):
    ordinary: Sequence[int | str | bool]
    extreme: Sequence[int | str | bool]


STORAGE: Final[Mapping[str, DrawnSetting]] = {
    "FLUSH_POLICY": DrawnSetting(("os",), ("always",)),
    "CHECKPOINT_BYTES": DrawnSetting((65_536, 1 << 20), (1024, 4096)),
    "CHECKPOINT_INTERVAL_MS": DrawnSetting((2000, 5000), (50, 200)),
    "RETENTION_CHECK_INTERVAL_MS": DrawnSetting((5000, 30_000), (100, 1000)),
    "PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS": DrawnSetting((60_000,), (100,)),
    "ADD_PARTITIONS_RETRY_BACKOFF_MS": DrawnSetting((20,), (1, 200)),
    "ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS": DrawnSetting((100,), (0, 1000)),
    "COORDINATOR_WAIT_MAX_MS": DrawnSetting((5000,), (0, 100)),
    "REQUEST_TIMEOUT_MS": DrawnSetting((30_000,), (500, 2000)),
    "REPLICA_LAG_TIME_MAX_MS": DrawnSetting((2000, 10_000), (300, 1000)),
    "REPLICA_FETCH_WAIT_MAX_MS": DrawnSetting((2_000,), (20, 100)),
    "REPLICA_FETCH_BYTES_MAX": DrawnSetting((2 << 20,), (1024, 4096)),
    "REPLICA_FETCH_BACKOFF_MS": DrawnSetting((50,), (5, 1000)),
    "REPLICA_HIGH_WATERMARK_LINGER_MS": DrawnSetting((25,), (0, 500)),
    "REPLICA_REMOVAL_DELAY_MS": DrawnSetting((5000,), (0,)),
    "HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS": DrawnSetting((1000, 5000), (20, 60_000)),
    # A round must end within the wait for it after healing, or rot is found by the checkers first.
    "SCRUB_BYTES_PER_S": DrawnSetting((2 << 20,), (64 << 10, 1 << 30)),
    "FETCH_BYTES_MAX": DrawnSetting((55 << 20,), (1024, 10_000)),
    "FETCH_WAITERS_MAX": DrawnSetting((10_000,), (2,)),
    "CLEANER_INTERVAL_MS": DrawnSetting((1000, 5000), (50,)),
    "CLEANER_MAP_BYTES": DrawnSetting((1 << 20,), (1024,)),
    "SHARD_ROLL_BYTES": DrawnSetting((65_536,), (1024, 4096)),
    "OPEN_FILES_MAX": DrawnSetting((512,), (16,)),
}

CONTROLLER: Final[Mapping[str, DrawnSetting]] = {
    "LEASE_MS": DrawnSetting((3000,), (600, 10_000)),
    "DATABASE_SILENCE_MS": DrawnSetting((60_000,), (2000, 5000)),
    "TRANSACTION_SHARD_COUNT": DrawnSetting((3, 5), (1, 12)),
    "GROUP_SHARD_COUNT": DrawnSetting((3, 5), (1, 12)),
    "SESSION_TIMEOUT_MS": DrawnSetting((3000, 6000), (1500,)),
    "SESSION_GRACE_MS": DrawnSetting((300,), (0, 3000)),
    "LEADER_BALANCE_INTERVAL_MS": DrawnSetting((10_000,), (300, 1000)),
    "SNAPSHOT_INTERVAL_RECORDS": DrawnSetting((200, 10_000), (1, 5)),
    "DELTA_HISTORY": DrawnSetting((1000,), (1, 3)),
    "DATABASE_TIMEOUT_MS": DrawnSetting((5000,), (500,)),
}

COORDINATOR: Final[Mapping[str, DrawnSetting]] = {
    "EXPIRE_IDS_INTERVAL_MS": DrawnSetting((60_000,), (100,)),
    "APPEND_TIMEOUT_MS": DrawnSetting((5000,), (300, 20_000)),
    "RETRY_BACKOFF_MS": DrawnSetting((50,), (1, 1000)),
    "RETRY_BACKOFF_MAX_MS": DrawnSetting((1000,), (5, 5000)),
    "CONCURRENT_WAIT_MS": DrawnSetting((100,), (0, 2000)),
    "DELIVERIES_MAX": DrawnSetting((1000,), (1, 2)),
    "START_TIMEOUT_MS": DrawnSetting((5000,), (0,)),
    "GROUP_INITIAL_REBALANCE_DELAY_MS": DrawnSetting((200,), (0, 3000)),
    "GROUP_CONSUMER_SESSION_TIMEOUT_MS": DrawnSetting((10_000, 45_000), (5000,)),
    "GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS": DrawnSetting((1000,), (200,)),
    "OFFSETS_CLEAN_UP_INTERVAL_MS": DrawnSetting((60_000,), (100,)),
}

LISTENER: Final[Mapping[str, DrawnSetting]] = {
    "IMAGE_WAIT_MS": DrawnSetting((1000,), (0, 5000)),
    "FETCH_BYTES_MAX": DrawnSetting((57_671_680,), (1024, 10_000)),
    "CONNECTION_QUEUE_BYTES_MAX": DrawnSetting((8 << 20,), (1024,)),
    "CONNECTION_QUEUE_REQUESTS_MAX": DrawnSetting((100,), (1, 2)),
    "QUEUED_BYTES_MAX": DrawnSetting((256 << 20,), (65_536,)),
    "UNSENT_BYTES_MAX": DrawnSetting((256 << 20,), (65_536,)),
    "STOOD_STILL_MAX_MS": DrawnSetting((5000,), (500, 2000)),
    "REQUEST_TIMEOUT_MS": DrawnSetting((30_000,), (1000, 5000)),
    "REPEAT_MAX_MS": DrawnSetting((10_000,), (0, 500)),
    "STOP_GRACE_MS": DrawnSetting((5000,), (0, 100)),
}

MARKER_SENDER: Final[Mapping[str, DrawnSetting]] = {
    "QUEUED_MARKERS_MAX": DrawnSetting((100_000,), (2, 20)),
    "REQUEST_MARKERS_MAX": DrawnSetting((10_000,), (1, 2)),
    "REQUEST_TIMEOUT_MS": DrawnSetting((30_000,), (500, 3000)),
    "RETRY_BACKOFF_MS": DrawnSetting((20,), (1, 500)),
    "RETRY_BACKOFF_MAX_MS": DrawnSetting((1000,), (20, 3000)),
}

TOPIC: Final[Mapping[str, DrawnSetting]] = {
    "segment.bytes": DrawnSetting((1 << 20,), (1024, 2048, 8192, 65_536)),
    "segment.ms": DrawnSetting((604_800_000,), (500, 5000)),
    "index.interval.bytes": DrawnSetting((4096,), (0, 100)),
    "flush.messages": DrawnSetting((2**63 - 1,), (1, 3)),
    "file.delete.delay.ms": DrawnSetting((60_000,), (0, 500)),
}
"""The configuration that is drawn for topics whose records nobody deletes: only settings whose values no
client can notice."""

_PRODUCER_ID_BLOCK: Final = DrawnSetting((1000,), (1, 2))
_INDEX_BYTES: Final = DrawnSetting((10 << 20,), (64, 1024))
_LOADED_SEGMENTS: Final = DrawnSetting((4,), (0, 1))
_SNAPSHOTS_KEPT: Final = DrawnSetting((2,), (1,))
_READ_BYTES: Final = DrawnSetting((1 << 20,), (128, 1024))
_PAGE_ROWS: Final = DrawnSetting((1000,), (1, 3))


def draw_storage_settings(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    """Draw the environment variables of a storage node. `wildness` from 0 to 1 scales how many settings are
    extreme."""
    return _environment("ONCELOG_STORAGE_", STORAGE, draw, wildness)


def draw_controller_settings(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    """Draw the environment variables of the controllers, the same for all controllers of a cluster. `wildness` from 0
    to 1 scales how many settings are extreme."""
    return _environment("ONCELOG_CONTROLLER_", CONTROLLER, draw, wildness)


def draw_coordinator_settings(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    return _environment("ONCELOG_COORDINATOR_", COORDINATOR, draw, wildness)


def draw_listener_settings(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    return _environment("ONCELOG_LISTENER_", LISTENER, draw, wildness)


def draw_marker_sender_settings(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    return _environment("ONCELOG_MARKER_SENDER_", MARKER_SENDER, draw, wildness)


def draw_topic_config(draw: random.Random, wildness: float = 1.0) -> dict[str, str]:
    """Draw overrides for a new topic's configuration; ordinary values are left out. `wildness` from 0 to 1 scales how
    many are extreme."""
    drawn = {name: _value(setting, draw, wildness) for name, setting in TOPIC.items()}
    return {name: value for name, value in drawn.items() if value not in _texts(TOPIC[name])}


def extreme_count(environment: Mapping[str, str]) -> int:
    """Return how many of these settings are not ordinary ones."""
    return sum(
        environment.get(prefix + name, _texts(setting)[0]) not in _texts(setting)
        for prefix, drawn_settings in _PREFIXED.items()
        for name, setting in drawn_settings.items()
    )


def replace_constants(draw: random.Random, wildness: float = 1.0) -> dict[str, int]:
    """Draw values for constants of production code that no setting changes, such as index sizes. `wildness` from 0 to 1
    scales how many are extreme. Put them in place in the whole interpreter, and return them by name."""
    drawn = {}
    # A round of the scrub in a minute is of no use to a run of a minute.
    replace(replication, "_SCRUB_PAUSE_S", SCRUB_PAUSE_S)
    for module, name, setting in (
        (machine, "PRODUCER_ID_BLOCK_SIZE", _PRODUCER_ID_BLOCK),
        (segment_state, "INDEX_BYTES_MAX", _INDEX_BYTES),
        (read_places, "LOADED_SEGMENTS_MAX", _LOADED_SEGMENTS),
        (log_checkpoint, "SNAPSHOTS_KEPT", _SNAPSHOTS_KEPT),
        (batch_walk, "_WALK_BYTES", _READ_BYTES),
        (batch_walk, "_SCAN_BYTES", _READ_BYTES),
        (cleaning_pass, "CHUNK_BYTES", _READ_BYTES),
        (sql_journal, "REPLAY_PAGE_ROWS", _PAGE_ROWS),
    ):
        drawn[name] = int(_value(setting, draw, wildness))
        replace(module, name, drawn[name])
    return drawn


def replace_last_epoch(last: int) -> None:
    """Set the highest producer epoch to `last` instead of 32,767 in the whole interpreter, so that runs use
    up the epochs of producer ids."""
    for module in (end_txn, fencing, txn_state, group_offsets, producer_state, sequences):
        replace(module, "PRODUCER_EPOCH_MAX", last)
    for module in (end_txn, init_producer_id, txn_state):
        replace(module, "EXHAUSTED_EPOCH", last - 1)


_PREFIXED: Final = {
    "ONCELOG_STORAGE_": STORAGE,
    "ONCELOG_CONTROLLER_": CONTROLLER,
    "ONCELOG_COORDINATOR_": COORDINATOR,
    "ONCELOG_LISTENER_": LISTENER,
    "ONCELOG_MARKER_SENDER_": MARKER_SENDER,
}


def _environment(
    prefix: str, drawn_settings: Mapping[str, DrawnSetting], draw: random.Random, wildness: float
) -> dict[str, str]:
    return {
        prefix + name: _value(setting, draw, wildness) for name, setting in drawn_settings.items()
    }


def _value(setting: DrawnSetting, draw: random.Random, wildness: float) -> str:
    is_extreme = draw.random() < EXTREME_SHARE * wildness
    return str(draw.choice(setting.extreme if is_extreme else setting.ordinary))


def _texts(setting: DrawnSetting) -> list[str]:
    return [str(value) for value in setting.ordinary]
