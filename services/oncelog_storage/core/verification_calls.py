"""A leader's reaction to its coordinator's answer to a verification: a code for the producer, or another try
(docs/kafka-facts.md, 9).

This module is pure: the caller sends and waits. Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog_storage.core.messages import TransactionResult

_COORDINATOR_AWAY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

_NEWS_WAIT_S: Final = 0.05
"""The pause between two tries while the coordinator is away, in seconds. News in the metadata ends it."""
_LEFT_S_MIN: Final = 0.001


class VerificationMode(IntEnum):
    """The kind of a leader's request to the coordinator, with the numbers of `VerificationMode` in `proto/`.

    It either verifies that a transaction has a partition, or adds the partition (TV2). The two modes to verify differ
    in the error codes that the producer knows.
    """

    VERIFY_LEGACY = 0
    VERIFY_ABORTABLE = 1
    ADD_PARTITION = 2


def answer_to_producer(error_code: ErrorCode, mode: int) -> ErrorCode:
    """Return the producer's error code for the coordinator's answer (docs/kafka-facts.md, 9, rule 4).

    Old clients know neither PRODUCER_FENCED nor TRANSACTION_ABORTABLE on Produce; NOT_ENOUGH_REPLICAS is the retriable
    error that every one of them knows.
    """
    if error_code in _COORDINATOR_AWAY:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    match error_code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if mode == VerificationMode.VERIFY_LEGACY:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if mode != VerificationMode.ADD_PARTITION:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.OPERATION_NOT_ATTEMPTED:
            # Another partition was refused. This one may come again by itself.
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case _:
            return error_code


class Codes(NamedTuple):
    """A coordinator's answer: one code for each partition, and when the transaction began in ms, 0 if unknown."""

    codes: list[ErrorCode]
    start_ms: int


def same_code(code: ErrorCode, partitions: Sequence[Partition]) -> Codes:
    return Codes([code] * len(partitions), 0)


def codes_of(results: Sequence[TransactionResult], partitions: Sequence[Partition]) -> Codes:
    if not results:
        return same_code(ErrorCode.NETWORK_EXCEPTION, partitions)
    result = results[0]
    if result.error_code:
        codes = [error_code_of(result.error_code)] * len(partitions)
    else:
        refused = {(each.topic, each.partition): each.error_code for each in result.partitions}
        codes = [error_code_of(refused.get((each.topic, each.partition), 0)) for each in partitions]
    return Codes(codes, result.transaction_start_ms)


class Limits(NamedTuple):
    """The time limits in seconds within which a leader verifies a transaction with its coordinator."""

    timeout_s: float
    """The limit of the whole call."""
    completing_wait_s: float
    """The longest time for which the call waits for the markers of the previous transaction."""
    completing_backoff_s: float
    coordinator_wait_s: float
    """The longest time for which the call waits for a coordinator that is away."""


class Pause(NamedTuple):
    """A pause after which the leader asks the coordinator again, because its answer or its address was not final."""

    seconds: float
    until_news: bool
    """True if newer metadata end the pause early."""


class VerificationCall:
    """One verification call to the coordinator, from its first try to the codes for the producer."""

    def __init__(self, mode: int, limits: Limits, now_s: float) -> None:
        self._mode = mode
        self._backoff_s = limits.completing_backoff_s
        self._deadline = now_s + limits.timeout_s
        self._give_up = now_s + min(limits.completing_wait_s, limits.timeout_s)
        self._coordinator_deadline = now_s + min(limits.coordinator_wait_s, limits.timeout_s)

    def left_s(self, now_s: float) -> float:
        return max(_LEFT_S_MIN, self._deadline - now_s)

    def codes_or_pause(
        self, found: Codes, now_s: float, jitter: Callable[[], float]
    ) -> Codes | Pause:
        """Return the codes for the producer, or a pause before the coordinator is asked again. `found` is its answer.

        `jitter` draws a share of the pause.
        """
        if not _COORDINATOR_AWAY.isdisjoint(found.codes):
            # The coordinator is being replaced, or the new one loads: over in a moment, and asking again is harmless.
            left_s = self._coordinator_deadline - now_s
            if left_s > 0:
                return Pause(min(left_s, jitter() * _NEWS_WAIT_S), True)
        is_add = self._mode == VerificationMode.ADD_PARTITION
        is_completing = is_add and ErrorCode.CONCURRENT_TRANSACTIONS in found.codes
        if is_completing and now_s + self._backoff_s <= self._give_up:
            # The previous transaction's markers are still being written: usually over in milliseconds (facts 1.2).
            return Pause(self._backoff_s, False)
        codes = [answer_to_producer(code, self._mode) if code else code for code in found.codes]
        return Codes(codes, 0 if is_add else found.start_ms)
