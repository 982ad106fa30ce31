"""The bounds of the Spark sinks of a shard, and the checks of their requests' arguments against them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog_coordinator.core.markers import RESEND_AFTER_MS
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    CommitBatch,
    JoinAttempt,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_records import NONCE_BYTES, UNKNOWN


@dataclass(frozen=True, slots=True)
class SinkLimits:
    timeout_default_ms: Millis = Millis(900_000)
    """The time in milliseconds after which a silent attempt (no open, join or seal) is aborted; it must exceed the
    slowest task."""
    timeout_max_ms: Millis = Millis(86_400_000)
    """The longest timeout of an attempt, in milliseconds. An abandoned attempt holds back readers for as long as its
    timeout."""
    redelivery_ms: Millis = RESEND_AFTER_MS
    """The wait in milliseconds before refused markers are sent again, as for ordinary transactions."""
    sinks_max: int = 10_000
    """The most sinks of one shard. A stream's sink is forgotten only when it is deleted: its last batch id makes a
    re-run harmless."""
    job_expiration_ms: Millis = Millis(7 * 86_400_000)
    """The time in milliseconds after which the unused sink of a batch job is forgotten. A later run then writes
    again."""
    expire_interval_ms: Millis = Millis(3_600_000)
    """The interval in milliseconds between two searches for expired sinks of batch jobs."""
    attempts_max: int = 16
    """The most attempts of one sink, including decided ones with markers under way; less than `batches_max`."""
    branches_max: int = 10_000
    """The most branches of one attempt: its tasks and their retries."""
    partitions_max: int = 2_000
    """The most partitions of one branch: the branch's record is written whole for each partition that is added."""
    batches_max: int = 20
    """The most committed batches that a sink remembers, to tell ALREADY from ALREADY_OTHER."""
    superseded_runs_max: int = 32
    """The most superseded runs that a sink remembers. To forget an older one only lets a zombie driver disturb once
    more."""
    retired_queries_max: int = 32
    """The most retired queries of a sink. None is forgotten, so that no query can take a sink back: over the bound,
    adoption is refused."""
    name_bytes_max: int = 1_000
    """The most bytes in the name of a sink, a query id or a run id."""


DEFAULT_LIMITS: Final = SinkLimits()

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_UINT32_MAX: Final = 2**32 - 1

Refusal = tuple[ErrorCode, str]


def refuse_arguments(
    event: OpenAttempt | JoinAttempt | SealBranch | CommitBatch | AbortAttempt, limits: SinkLimits
) -> Refusal | None:
    """Return the error for a Spark request's arguments out of bounds, with a message that names the value and the way
    out.

    None: all arguments are within bounds.
    """
    problem = _name_problem("transactionalId", event.sink, limits, "set the option transactionalId")
    if problem is None:
        match event:
            case OpenAttempt():
                problem = _nonce_problem([event.nonce])
                if problem is None and not 0 <= event.timeout_ms <= limits.timeout_max_ms:
                    return ErrorCode.INVALID_TRANSACTION_TIMEOUT, (
                        f"timeout of {event.timeout_ms} ms is not within 0 (default)"
                        f" and {limits.timeout_max_ms} ms"
                    )
            case JoinAttempt():
                problem = _nonce_problem([event.nonce]) or _join_problem(event, limits)
            case SealBranch():
                problem = _nonce_problem([event.nonce]) or _seal_problem(event, limits)
            case CommitBatch():
                problem = _number_problem("batch id", event.batch_id, _INT64_MAX)
            case AbortAttempt():
                problem = _nonce_problem(event.nonces)
    return (ErrorCode.INVALID_REQUEST, problem) if problem else None


def _join_problem(event: JoinAttempt, limits: SinkLimits) -> str | None:
    way_out = "a streaming task has one in its local properties, a batch job needs the option jobId"
    problem = _name_problem("query id", event.query_id, limits, way_out)
    if problem is None and event.run_id:
        problem = _name_problem("run id", event.run_id, limits, "")
    return (
        problem
        or _number_problem("batch id", event.batch_id, _INT64_MAX)
        or _number_problem("task partition", event.task_partition, _INT32_MAX)
        or _number_problem("task attempt id", event.task_attempt_id, _INT64_MAX)
    )


def _seal_problem(event: SealBranch, limits: SinkLimits) -> str | None:
    if len(event.last_sequences) > limits.partitions_max:
        return (
            f"{len(event.last_sequences)} partitions in one branch, at most {limits.partitions_max};"
            " repartition the batch by the topic's partition"
        )
    return (
        _number_problem("row count", event.row_count, _INT64_MAX)
        or _number_problem("crc32c", event.crc32c, _UINT32_MAX)
        or _number_problem("row checksum", event.row_checksum, _INT64_MAX, UNKNOWN)
    )


def _name_problem(what: str, name: str, limits: SinkLimits, way_out: str) -> str | None:
    if not name:
        return f"{what} is empty: {way_out}"
    length = len(name.encode("utf-8", "surrogatepass"))
    if length > limits.name_bytes_max:
        return f"{what} of {length} bytes, at most {limits.name_bytes_max}: choose a shorter one"
    return None


def _nonce_problem(nonces: Sequence[bytes]) -> str | None:
    for nonce in nonces:
        if len(nonce) != NONCE_BYTES:
            return f"nonce {nonce.hex()!r} has {len(nonce)} bytes, not {NONCE_BYTES}"
    return None


def _number_problem(what: str, number: int, maximum: int, minimum: int = 0) -> str | None:
    is_within = minimum <= number <= maximum
    return None if is_within else f"{what} {number} is not within {minimum} and {maximum}"
