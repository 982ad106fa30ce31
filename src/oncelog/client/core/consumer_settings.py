"""The consumer's settings, with Kafka's names and defaults, save one: `isolation.level` is read_committed here.

A program that reads a log with transactions wants the committed records. Kafka's default, read_uncommitted, also shows
aborted ones. Times are in milliseconds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.client.core.log_places import READ_COMMITTED, READ_UNCOMMITTED
from oncelog.client.core.setting_names import kafka_name, settings_of
from oncelog.client.errors import ConfigError

_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
_RESETS: Final = ("earliest", "latest", "none")
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    group_id: str | None = None
    group_instance_id: str | None = None
    """The name of a static member: its partitions wait for it while it restarts."""
    group_remote_assignor: str | None = None
    client_rack: str = ""
    isolation_level: str = "read_committed"
    auto_offset_reset: str = "latest"
    """The place to start at: earliest, latest, none, or `by_duration:` and a duration of ISO 8601
    (`by_duration:PT1H`)."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    max_poll_interval_ms: int = 300_000
    """A program that asks for no record for so long leaves its group."""
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    """The most bytes of one answer, and of all fetched records that the program has not taken yet."""
    max_partition_fetch_bytes: int = 1_048_576
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    default_api_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    @property
    def isolation(self) -> int:
        """The isolation level as Kafka's requests number it."""
        return _LEVELS[self.isolation_level]

    @property
    def reads_committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    @property
    def reset_duration_ms(self) -> int | None:
        """The time that `by_duration` goes back, in ms; None for another policy."""
        return _duration_ms(self.auto_offset_reset)


def consumer_settings(given: Mapping[str, object]) -> ConsumerSettings:
    """Return the settings of a consumer from a program's keywords.
    Raises ConfigError that names the setting and the way out."""
    found = settings_of(ConsumerSettings, given)
    if found.isolation_level not in _LEVELS:
        raise ConfigError(
            f"isolation.level is {found.isolation_level!r}: give {', '.join(_LEVELS)}"
        )
    if found.auto_offset_reset not in _RESETS and found.reset_duration_ms is None:
        raise ConfigError(
            f"auto.offset.reset is {found.auto_offset_reset!r}: give {', '.join(_RESETS)}, or by_duration:PT1H for the "
            "last hour"
        )
    for name in ("max_poll_records", "fetch_max_bytes", "max_partition_fetch_bytes"):
        if getattr(found, name) < 1:
            raise ConfigError(f"{kafka_name(name)} is 0: give 1 or more")
    for name in ("group_id", "group_instance_id"):
        if getattr(found, name) == "":
            raise ConfigError(f"{kafka_name(name)} is empty: give a name, or leave it out")
    if found.group_id is None:
        for name in ("group_instance_id", "group_remote_assignor"):
            if getattr(found, name) is not None:
                raise ConfigError(f"{kafka_name(name)} is given without group.id: give both")
        if given.get("enable_auto_commit") and found.enable_auto_commit:
            raise ConfigError(
                "enable.auto.commit is true without group.id: offsets belong to a group"
            )
    return found


def _duration_ms(text: str) -> int | None:
    if not text.startswith(_BY_DURATION):
        return None
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION))
    parts = {name: value for name, value in found.groupdict().items() if value} if found else {}
    if not parts:
        return None
    return int(sum(_MS[name] * float(value) for name, value in parts.items()))
