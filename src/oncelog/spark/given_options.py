"""The options that a query gave. They are read by name; a wrong one raises an error with its name, its value and the
way out.

Spark hands a data source every option of the query, also those of Spark itself. So an unknown name cannot be refused in
general. Two kinds are: names with the prefix `oncelog.`, and names so close to one of ours that they must be a slip of
the pen.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.client.core.login import ClientLogin, login_of
from oncelog.errors import OncelogError

_OF_BOTH: Final = (
    "bootstrap.servers",
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.retry.backoff.ms",
    "kafka.retry.backoff.max.ms",
)
_OF_SOURCE: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "isolation.level",
    "kafka.isolation.level",
    "includeOutcome",
    "failOnDataLoss",
    "includeHeaders",
    "pushdown",
    "kafka.group.id",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.min.bytes",
    "kafka.fetch.max.wait.ms",
)
_OF_SINK: Final = (
    "topic",
    "transactionalId",
    "onNewQuery",
    "attemptTimeout",
    "verifyReplay",
    "jobId",
    "batchId",
    "maxBatchBytes",
    "partitioner",
    "kafka.compression.type",
    "kafka.batch.size",
    "kafka.delivery.timeout.ms",
)
"""The options that only the sink has. `_OF_BOTH`, `_OF_SOURCE` and this list hold every option that is honoured;
settings of Kafka's clients have the prefix of Spark's Kafka source."""


class Side(Enum):
    """The side of the connector that reads the options: the source or the sink."""

    SOURCE = "reading"
    SINK = "writing"


_NAMES: Final = {
    Side.SOURCE: (*_OF_BOTH, *_OF_SOURCE),
    Side.SINK: (*_OF_BOTH, *_OF_SINK),
}
_SLIP: Final = 0.85
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNIT_MS: Final = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}

_DEADLINE: Final = "a call is repeated until its deadline: set kafka.default.api.timeout.ms"
_KAFKA_ONLY: Final = {
    "groupIdPrefix": "no group is made up; to show what a stream has read as a group, set kafka.group.id",
    "fetchOffset.numRetries": _DEADLINE,
    "fetchOffset.retryIntervalMs": "set kafka.retry.backoff.ms",
    "kafkaConsumer.pollTimeoutMs": _DEADLINE,
    "maxBytesPerTrigger": "brokers do not tell how many bytes lie between two offsets; set maxOffsetsPerTrigger",
    "kafka.auto.offset.reset": "set startingOffsets",
    "kafka.enable.auto.commit": "the checkpoint holds the offsets; leave it out",
    "kafka.key.deserializer": "key is binary: cast it in the query",
    "kafka.value.deserializer": "value is binary: cast it in the query",
    "kafka.key.serializer": "key is written as it is: cast it in the query",
    "kafka.value.serializer": "value is written as it is: cast it in the query",
    "kafka.interceptor.classes": "no Java code runs in this connector; change rows in the query",
    "kafka.transactional.id": "set transactionalId",
    "kafka.partitioner.class": "set partitioner to murmur2 or roundrobin, or give a column partition",
    "kafka.linger.ms": "a batch leaves when it is full or the task ends; set kafka.batch.size",
    "kafka.retries": "a call is repeated until its deadline: set kafka.delivery.timeout.ms",
}
"""Options of Spark's Kafka source and sink and of Kafka's clients that are not honoured, and what to do instead."""
_KAFKA_ONLY_NAMES: Final = {name.lower(): name for name in _KAFKA_ONLY}

_KAFKA_VALUES: Final = {
    "kafka.acks": (("all", "-1"), "every write waits for all in-sync replicas; leave it out"),
    "kafka.enable.idempotence": (("true",), "every write is idempotent; leave it out"),
}
"""Settings of Kafka's clients that are accepted with the values that describe what the connector does."""

_LOGIN: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""The prefixes of login options, those of Spark's Kafka source and sink;
the files are PEM (`oncelog.client.core.login`)."""


class GivenOptions:
    """The options that the user gave to a query, by lower-cased name: Spark's option names have no case."""

    def __init__(self, options: Mapping[str, str], side: Side) -> None:
        """Keep the options. Raises OncelogError for an option that the source (or the sink) does not support."""
        self._values = {name.lower(): value for name, value in options.items()}
        names = _NAMES[side]
        known = {name.lower(): name for name in names}
        others = {name.lower(): (name, one) for one in Side for name in _NAMES[one]}
        for name in self._values:
            if name in known or name.startswith(_LOGIN):
                continue
            if name in others:
                spelled, other = others[name]
                raise OncelogError(
                    f"option {spelled} is for {other.value} and not for {side.value}: leave it out"
                )
            self._refuse_kafka_option(name)
            near = difflib.get_close_matches(name, known, n=1, cutoff=_SLIP)
            if name.startswith("oncelog.") or near:
                hint = (
                    f"did you mean {known[near[0]]}?" if near else f"options are {', '.join(names)}"
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

    def count(self, name: str, most: int | None = None) -> int | None:
        """Return this option as a whole number above 0; None where it is not given. Raises OncelogError for another
        text."""
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()) or int(value) == 0:
            raise OncelogError(f"option {name} is {value!r}: give a whole number above 0")
        if most is not None and int(value) > most:
            raise OncelogError(f"option {name} is {value!r}: give at most {most}")
        return int(value)

    def number(self, name: str, most: int | None = None) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()):
            raise OncelogError(f"option {name} is {value!r}: give a whole number, 0 or above")
        if most is not None and int(value) > most:
            raise OncelogError(f"option {name} is {value!r}: give at most {most}")
        return int(value)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return this option, which must be one of `choices`; the first one is the default. Raises OncelogError."""
        value = (self.text(name) or choices[0]).lower()
        if value not in choices:
            raise OncelogError(f"option {name} is {value!r}: give {' or '.join(choices)}")
        return value

    def duration_ms(self, name: str, least_ms: int, most_ms: int) -> int | None:
        """Return this option, a duration with a unit, in milliseconds; None where it is not given. Raises
        OncelogError."""
        value = self.text(name)
        if value is None:
            return None
        match = _DURATION.fullmatch(value.lower())
        milliseconds = int(match[1]) * _UNIT_MS[match[2]] if match else -1
        if not least_ms <= milliseconds <= most_ms:
            raise OncelogError(
                f"option {name} is {value!r}: give a time of {shown_ms(least_ms)} to {shown_ms(most_ms)}, such as 15m "
                "or 900s (a bare number is ms)"
            )
        return milliseconds


def shown_ms(milliseconds: int) -> str:
    """Return a duration with the largest unit that divides it: `24h` for 86,400,000."""
    unit = next(unit for unit in ("h", "m", "s", "ms") if milliseconds % _UNIT_MS[unit] == 0)
    return f"{milliseconds // _UNIT_MS[unit]}{unit}"
