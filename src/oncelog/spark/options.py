"""The connector's options: parsed once, refused with the option's name, its value and the way out.

Spark hands a data source every option of the query, its own included, so an unknown name cannot be refused as such.
Two kinds are: names with the prefix `oncelog.`, and names so close to one of ours that they must be a slip of the pen.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.client.core.login import ClientLogin, login_of
from oncelog.errors import OncelogError
from oncelog.ids import RESERVED_PREFIX, Partition, is_reserved_name
from oncelog.spark.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    Timestamps,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)

MAX_OFFSETS_PER_TRIGGER: Final = 500_000
"""A micro-batch costs about 0.35 s before its first row, so batches below 250 000 rows waste most of the time."""

ATTEMPT_TIMEOUT_MS: Final = 15 * 60_000
ATTEMPT_TIMEOUT_MAX_MS: Final = 24 * 3_600_000

_NAMES: Final = (
    "bootstrap.servers",
    "kafka.bootstrap.servers",
    "subscribe",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
    "pushdown",
    "topic",
    "transactionalId",
    "onNewQuery",
    "attemptTimeout",
    "verifyReplay",
    "jobId",
    "batchId",
    "partitioner",
)
_SLIP: Final = 0.85
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNIT_MS: Final = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}

_NO_GROUP: Final = "the source keeps its offsets in the checkpoint and needs no group; leave it out"
_RETRIES: Final = "the connector repeats a call until its own deadline; leave it out"
_KAFKA_ONLY: Final = {
    "subscribePattern": "name the topics with subscribe",
    "minPartitions": "a topic-partition is one task; add partitions to the topic instead",
    "maxRecordsPerPartition": "a topic-partition is one task; add partitions to the topic, or call repartition()",
    "minOffsetsPerTrigger": "it waits for more records; use a longer trigger(processingTime=...) instead",
    "maxTriggerDelay": "it belongs to minOffsetsPerTrigger; use trigger(processingTime=...) instead",
    "groupIdPrefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafkaConsumer.pollTimeoutMs": _RETRIES,
    "fetchOffset.numRetries": _RETRIES,
    "fetchOffset.retryIntervalMs": _RETRIES,
}
"""Options of Spark's Kafka source and sink that are not honoured."""
_KAFKA_ONLY_NAMES: Final = {name.lower(): name for name in _KAFKA_ONLY}

_KAFKA_VALUES: Final = {
    "kafka.isolation.level": (("read_committed",), "only committed records are read; leave it out"),
    "isolation.level": (("read_committed",), "only committed records are read; leave it out"),
    "kafka.acks": (("all", "-1"), "every write waits for all in-sync replicas; leave it out"),
    "kafka.enable.idempotence": (("true",), "every write is idempotent; leave it out"),
    "kafka.compression.type": (("none",), "set compression.type of the topic instead"),
}
"""Settings of Kafka's clients that are accepted with the values that describe what the connector does."""

_LOGIN: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""How Spark's Kafka source and sink log in; so do ours, with PEM files (`oncelog.client.core.login`)."""


class OnNewQuery(Enum):
    FAIL = "fail"
    ADOPT = "adopt"


class Partitioner(Enum):
    MURMUR2 = "murmur2"
    ROUND_ROBIN = "roundrobin"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. Exactly one of `topics` and `assigned` is not empty."""

    bootstrap: tuple[Address, ...]
    login: ClientLogin
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]
    starting: Offsets | Timestamps | None
    """None: earliest for a batch query, latest for a stream, as Spark's Kafka source does."""
    ending: Offsets | Timestamps
    max_offsets_per_trigger: int
    fail_on_data_loss: bool
    include_headers: bool
    pushdown: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and under which name."""

    bootstrap: tuple[Address, ...]
    login: ClientLogin
    topic: str | None
    transactional_id: str
    on_new_query: OnNewQuery
    attempt_timeout_ms: int
    verify_replay: bool
    """Whether a batch that was committed before is compared with what was committed, or skipped without a look."""
    job_id: str | None
    batch_id: int | None
    """Of a write inside foreachBatch: the number that Spark gives the function."""
    partitioner: Partitioner


def parse_source_options(options: Mapping[str, str], is_stream: bool = False) -> SourceOptions:
    """Raises OncelogError for an option that is missing, unknown, malformed or not honoured."""
    given = _Given(options)
    topics = tuple(dict.fromkeys(name for name in _split(given.text("subscribe") or "") if name))
    assign = given.text("assign")
    assigned = parse_assignment("assign", assign) if assign is not None else ()
    if bool(topics) == bool(assigned):
        what = "both were" if topics else "neither was"
        raise OncelogError(
            f"give either subscribe (topics with commas) or assign (JSON {{topic: [partitions]}}); {what} given"
        )
    if is_stream:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if given.text(name) is not None:
                raise OncelogError(
                    f"option {name} is for batch reads: a stream has no end; trigger(availableNow=True) ends it at "
                    "what is there when it starts"
                )
    return SourceOptions(
        bootstrap=given.bootstrap(),
        login=given.login(),
        topics=topics,
        assigned=assigned,
        starting=_starting(given),
        ending=_ending(given),
        max_offsets_per_trigger=given.count("maxOffsetsPerTrigger", MAX_OFFSETS_PER_TRIGGER),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        pushdown=given.flag("pushdown", False),
    )


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises OncelogError for an option that is missing, unknown or malformed."""
    given = _Given(options)
    transactional_id = given.text("transactionalId")
    if not transactional_id:
        raise OncelogError(
            "option transactionalId is required: the sink's name in the cluster, the same at every start "
            "of this query and used by no other"
        )
    if is_reserved_name(transactional_id):
        raise OncelogError(
            f"option transactionalId is {transactional_id!r}: names that begin with {RESERVED_PREFIX} are oncelog's "
            "own; choose another"
        )
    timeout_ms = given.duration_ms("attemptTimeout", ATTEMPT_TIMEOUT_MS)
    job_id, batch_id = given.text("jobId"), given.number("batchId")
    if job_id is not None and batch_id is not None:
        raise OncelogError(
            f"options jobId={job_id!r} and batchId={batch_id} exclude each other: a job that is submitted again has a "
            "jobId, a write inside foreachBatch has a batchId"
        )
    return SinkOptions(
        bootstrap=given.bootstrap(),
        login=given.login(),
        topic=given.text("topic"),
        transactional_id=transactional_id,
        on_new_query=OnNewQuery(given.choice("onNewQuery", [kind.value for kind in OnNewQuery])),
        attempt_timeout_ms=timeout_ms,
        verify_replay=given.flag("verifyReplay", True),
        job_id=job_id,
        batch_id=batch_id,
        partitioner=Partitioner(given.choice("partitioner", [kind.value for kind in Partitioner])),
    )


class _Given:
    """The query's options by lower-cased name: Spark's option names have no case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        known = {name.lower(): name for name in _NAMES}
        for name in self._values:
            if name in known or name.startswith(_LOGIN):
                continue
            self._refuse_kafka_option(name)
            near = difflib.get_close_matches(name, known, n=1, cutoff=_SLIP)
            if name.startswith("oncelog.") or near:
                hint = (
                    f"did you mean {known[near[0]]}?"
                    if near
                    else f"options are {', '.join(_NAMES)}"
                )
                raise OncelogError(f"option {name} is unknown: {hint}")

    def _refuse_kafka_option(self, name: str) -> None:
        if spelled := _KAFKA_ONLY_NAMES.get(name):
            raise OncelogError(f"option {spelled} is not supported: {_KAFKA_ONLY[spelled]}")
        accepted, way_out = _KAFKA_VALUES.get(name, ((), ""))
        value = self._values[name]
        if accepted and value.strip().lower() not in accepted:
            raise OncelogError(f"option {name} is {value!r}, which is not supported: {way_out}")
        if accepted or not name.startswith("kafka."):
            return
        way_out = "the connector has a client of its own, which does not have it; leave it out"
        raise OncelogError(f"option {name} is not supported: {way_out}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None or not value.strip() else value.strip()

    def bootstrap(self) -> tuple[Address, ...]:
        text = self.text("bootstrap.servers") or self.text("kafka.bootstrap.servers")
        if text is None:
            raise OncelogError(
                "option bootstrap.servers is required, for example localhost:9092, where `oncelog up` listens"
            )
        return parse_addresses(text)

    def login(self) -> ClientLogin:
        given = {
            name.removeprefix("kafka."): value
            for name, value in self._values.items()
            if name.startswith(_LOGIN)
        }
        return login_of(given, "option kafka.")

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise OncelogError(f"option {name} is {value!r}: give true or false")
        return value == "true"

    def count(self, name: str, default: int) -> int:
        value = self.text(name) or str(default)
        if not (value.isascii() and value.isdigit()) or int(value) == 0:
            raise OncelogError(f"option {name} is {value!r}: give a whole number above 0")
        return int(value)

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()):
            raise OncelogError(f"option {name} is {value!r}: give a whole number, 0 or above")
        return int(value)

    def choice(self, name: str, choices: list[str]) -> str:
        """One of `choices`, of which the first is the default."""
        value = (self.text(name) or choices[0]).lower()
        if value not in choices:
            raise OncelogError(f"option {name} is {value!r}: give {' or '.join(choices)}")
        return value

    def duration_ms(self, name: str, default_ms: int) -> int:
        value = self.text(name)
        if value is None:
            return default_ms
        match = _DURATION.fullmatch(value.lower())
        milliseconds = int(match[1]) * _UNIT_MS[match[2]] if match else 0
        if not 1_000 <= milliseconds <= ATTEMPT_TIMEOUT_MAX_MS:
            raise OncelogError(
                f"option {name} is {value!r}: give a time of 1s to 24h, such as 15m or 900s (a bare number is ms)"
            )
        return milliseconds


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _starting(given: _Given) -> Offsets | Timestamps | None:
    """The precedence is that of Spark's Kafka source: a time for all, times of partitions, offsets."""
    or_latest = given.choice("startingOffsetsByTimestampStrategy", ["error", "latest"]) == "latest"
    timestamps = _timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp", or_latest)
    if timestamps is not None:
        return timestamps
    text = given.text("startingOffsets")
    return None if text is None else parse_offsets("startingOffsets", text)


def _timestamps(
    given: _Given, of_all: str, of_partition: str, or_latest: bool
) -> Timestamps | None:
    timestamp_ms = given.number(of_all)
    if timestamp_ms is not None:
        return Timestamps(timestamp_ms, {}, or_latest)
    text = given.text(of_partition)
    return (
        None if text is None else Timestamps(None, parse_timestamps(of_partition, text), or_latest)
    )


def _ending(given: _Given) -> Offsets | Timestamps:
    timestamps = _timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp", or_latest=True)
    if timestamps is not None:
        return timestamps
    text = given.text("endingOffsets")
    offsets = parse_offsets("endingOffsets", text or "latest")
    if offsets == EARLIEST or (isinstance(offsets, dict) and EARLIEST in offsets.values()):
        raise OncelogError(
            f"option endingOffsets is {text!r}: a query that ends at the earliest offset reads nothing; "
            f"give latest, or offsets as JSON ({LATEST} for latest)"
        )
    return offsets
