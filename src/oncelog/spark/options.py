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
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.offsets import EARLIEST, LATEST, Offsets, parse_assignment, parse_offsets

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
    "endingOffsets",
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
    "partitioner",
)
_SLIP: Final = 0.85
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNIT_MS: Final = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}

_KAFKA_ONLY: Final = {
    "subscribepattern": "name the topics with subscribe",
    "minpartitions": "a topic-partition is one task; add partitions to the topic instead",
    "kafka.group.id": "the source keeps its offsets in the checkpoint and needs no group",
    "startingoffsetsbytimestamp": "use a filter on timestamp with pushdown=true",
    "endingoffsetsbytimestamp": "use a filter on timestamp with pushdown=true",
}
"""Options of Spark's Kafka source that would change what is read, were they ignored."""


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
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]
    starting: Offsets | None
    """None: earliest for a batch query, latest for a stream, as Spark's Kafka source does."""
    ending: Offsets
    max_offsets_per_trigger: int
    fail_on_data_loss: bool
    include_headers: bool
    pushdown: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and under which name."""

    bootstrap: tuple[Address, ...]
    topic: str | None
    transactional_id: str
    on_new_query: OnNewQuery
    attempt_timeout_ms: int
    verify_replay: bool
    """Whether a batch that was committed before is compared with what was committed, or skipped without a look."""
    job_id: str | None
    partitioner: Partitioner


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """Raises OncelogError for an option that is missing, unknown or malformed."""
    given = _Given(options)
    topics = tuple(dict.fromkeys(name for name in _split(given.text("subscribe") or "") if name))
    assign = given.text("assign")
    assigned = parse_assignment("assign", assign) if assign is not None else ()
    if bool(topics) == bool(assigned):
        what = "both were" if topics else "neither was"
        raise OncelogError(
            f"give either subscribe (topics with commas) or assign (JSON {{topic: [partitions]}}); {what} given"
        )
    starting = given.text("startingOffsets")
    return SourceOptions(
        bootstrap=given.bootstrap(),
        topics=topics,
        assigned=assigned,
        starting=parse_offsets("startingOffsets", starting) if starting is not None else None,
        ending=_ending(given.text("endingOffsets")),
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
    timeout_ms = given.duration_ms("attemptTimeout", ATTEMPT_TIMEOUT_MS)
    return SinkOptions(
        bootstrap=given.bootstrap(),
        topic=given.text("topic"),
        transactional_id=transactional_id,
        on_new_query=OnNewQuery(given.choice("onNewQuery", [kind.value for kind in OnNewQuery])),
        attempt_timeout_ms=timeout_ms,
        verify_replay=given.flag("verifyReplay", True),
        job_id=given.text("jobId"),
        partitioner=Partitioner(given.choice("partitioner", [kind.value for kind in Partitioner])),
    )


class _Given:
    """The query's options by lower-cased name: Spark's option names have no case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        known = {name.lower(): name for name in _NAMES}
        for name in self._values:
            if name in known:
                continue
            if name in _KAFKA_ONLY:
                raise OncelogError(f"option {name} is not supported: {_KAFKA_ONLY[name]}")
            near = difflib.get_close_matches(name, known, n=1, cutoff=_SLIP)
            if name.startswith("oncelog.") or near:
                hint = (
                    f"did you mean {known[near[0]]}?"
                    if near
                    else f"options are {', '.join(_NAMES)}"
                )
                raise OncelogError(f"option {name} is unknown: {hint}")

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


def _ending(text: str | None) -> Offsets:
    offsets = parse_offsets("endingOffsets", text or "latest")
    if offsets == EARLIEST or (isinstance(offsets, dict) and EARLIEST in offsets.values()):
        raise OncelogError(
            f"option endingOffsets is {text!r}: a query that ends at the earliest offset reads nothing; "
            f"give latest, or offsets as JSON ({LATEST} for latest)"
        )
    return offsets
