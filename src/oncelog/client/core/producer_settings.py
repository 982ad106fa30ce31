"""The producer's settings, with Kafka's names, defaults and conflicts (ADR 0044: S2-81 to S2-97). Times are in
milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from oncelog.client.core.setting_names import kafka_name, settings_of
from oncelog.client.errors import ConfigError
from oncelog.record.batch import Codec

ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
IN_FLIGHT_MAX: Final = 5
"""The most requests in flight with idempotence: a leader remembers a producer's last five batches (docs/kafka-facts.md,
9).
"""
INT_MAX: Final = 2**31 - 1
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(1, 23)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    acks: int = -1
    enable_idempotence: bool = True
    batch_size: int = 16_384
    """Bytes of a batch; 0 counts as 1: every record has a batch of its own."""
    linger_ms: float = 5.0
    buffer_memory: int = 33_554_432
    """Bytes of all batches that are not answered yet."""
    max_block_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5
    retries: int = INT_MAX
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    compression_type: str = "none"
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    max_request_size: int = 1_048_576
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_ignore_keys: bool = False
    partitioner_availability_timeout_ms: int = 0
    partitioner_rack_aware: bool = False
    client_rack: str = ""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False

    @property
    def codec(self) -> Codec:
        return _CODECS[self.compression_type]

    @property
    def compression_level(self) -> int | None:
        """The level of the codec; None: the codec's own default."""
        return {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }.get(self.codec)

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None


def producer_settings(given: Mapping[str, object]) -> ProducerSettings:
    """Return the settings of a producer from a program's keywords.
    Raises ConfigError that names the setting and the way out."""
    values = dict(given)
    if "acks" in values:
        text = str(values["acks"]).strip().lower()
        if text not in ACKS:
            raise ConfigError(f"acks is {values['acks']!r}: give all, 0 or 1")
        del values["acks"]
        found = replace(settings_of(ProducerSettings, values), acks=ACKS[text])
    else:
        found = settings_of(ProducerSettings, values)
    found = replace(found, batch_size=max(1, found.batch_size))
    _check_values(found)
    _check_two_phase(found, given)
    found = _with_idempotence(found, given)
    return _with_delivery_timeout(found, given)


def _check_values(found: ProducerSettings) -> None:
    if found.compression_type not in _CODECS:
        raise ConfigError(
            f"compression.type is {found.compression_type!r}: give {', '.join(_CODECS)}"
        )
    level = found.compression_level
    if level is not None and level not in _LEVELS[found.codec]:
        levels = _LEVELS[found.codec]
        raise ConfigError(
            f"compression.{found.compression_type}.level is {level}: give {levels[0]} to {levels[-1]}"
        )
    for name in (
        "buffer_memory",
        "max_request_size",
        "request_timeout_ms",
        "transaction_timeout_ms",
    ):
        if getattr(found, name) < 1:
            raise ConfigError(f"{kafka_name(name)} is {getattr(found, name)}: give 1 or more")
    if found.max_in_flight_requests_per_connection < 1:
        raise ConfigError("max.in.flight.requests.per.connection is 0: give 1 to 5")
    if found.transactional_id == "":
        raise ConfigError("transactional.id is empty: give a name, or leave it out")


def _check_two_phase(found: ProducerSettings, given: Mapping[str, object]) -> None:
    if not found.transaction_two_phase_commit_enable:
        return
    if not found.is_transactional:
        raise ConfigError(
            "transaction.two.phase.commit.enable is true without a transactional.id: give one"
        )
    if "transaction_timeout_ms" in given:
        raise ConfigError(
            "transaction.timeout.ms and transaction.two.phase.commit.enable=true are both given: a transaction that "
            "is decided from outside has no time-out, leave transaction.timeout.ms out"
        )


def _with_idempotence(found: ProducerSettings, given: Mapping[str, object]) -> ProducerSettings:
    """Switch idempotence off where another setting excludes it, such as acks=1. Raises ConfigError if the program asked
    for both (KIP-679)."""
    if not found.enable_idempotence:
        if found.is_transactional:
            raise ConfigError(
                "enable.idempotence is false and transactional.id is given: a transaction needs idempotence; leave one "
                "of them out"
            )
        return found
    in_flight = found.max_in_flight_requests_per_connection
    if in_flight > IN_FLIGHT_MAX:
        raise ConfigError(
            f"max.in.flight.requests.per.connection is {in_flight}: with idempotence give 1 to {IN_FLIGHT_MAX}"
        )
    for is_weak, said, strong in (
        (found.acks != -1, f"acks is {found.acks}", "acks=all"),
        (found.retries == 0, "retries is 0", "retries of 1 or more"),
    ):
        if not is_weak:
            continue
        if given.get("enable_idempotence") is not None or found.is_transactional:
            why = (
                "enable.idempotence is true"
                if not found.is_transactional
                else "transactional.id is given"
            )
            raise ConfigError(f"{said} and {why}: idempotence needs {strong}")
        found = replace(found, enable_idempotence=False)
    return found


def _with_delivery_timeout(
    found: ProducerSettings, given: Mapping[str, object]
) -> ProducerSettings:
    least = int(found.linger_ms) + found.request_timeout_ms
    if found.delivery_timeout_ms >= least:
        return found
    if "delivery_timeout_ms" in given:
        raise ConfigError(
            f"delivery.timeout.ms is {found.delivery_timeout_ms}: give at least linger.ms + request.timeout.ms, {least}"
        )
    return replace(found, delivery_timeout_ms=least)
