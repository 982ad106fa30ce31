"""The meaning of a leader's answer to a Produce batch for the producer: done, retry, split, or fail
(docs/kafka-facts.md, 9; S2-58 to S2-73, ADR 0044).
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from oncelog.client.errors import (
    AbortableError,
    AuthorizationError,
    ClientError,
    FencedError,
    RecordTooLargeError,
    RefusedError,
    RetriableError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


class PartitionAnswer(NamedTuple):
    """A leader's answer to one batch. `record_errors`: index in the batch → the error of that record."""

    error: ErrorCode
    base_offset: int = -1
    log_append_ms: int = -1
    log_start_offset: int = -1
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()


class Verdict(Enum):
    WRITTEN = auto()
    AGAIN = auto()
    """Send the same batch again, later."""
    TOO_LARGE = auto()
    OUT_OF_ORDER = auto()
    """The batch's sequence does not follow the leader's last one, or the leader has lost its state."""
    NEW_IDENTITY = auto()
    """The leader refuses this identity; a producer without transactions gets another one."""
    REFUSED = auto()


_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_OUT_OF_ORDER: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
_OTHER_IDENTITY: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_NOT_ALLOWED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "WRITE on the topic",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE on the transactional.id",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "IDEMPOTENT_WRITE on the cluster",
}
OF_THE_LEADER: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""The errors that say that the metadata is old."""
_MAY_BE_WRITTEN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The errors of batches that may be in the log all the same."""


def leaves_open(error: ErrorCode) -> bool:
    """Return True if a batch with this error may have been written all the same."""
    return error in _MAY_BE_WRITTEN


def verdict(error: ErrorCode, record_count: int) -> Verdict:
    if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if error in _TOO_LARGE:
        return Verdict.TOO_LARGE if record_count > 1 else Verdict.REFUSED
    if error in _OUT_OF_ORDER:
        return Verdict.OUT_OF_ORDER
    if error in _OTHER_IDENTITY:
        return Verdict.NEW_IDENTITY
    return Verdict.AGAIN if error.is_retriable else Verdict.REFUSED


def refusal(partition: Partition, answer: PartitionAnswer, may_be_done: bool) -> ClientError:
    """Return the exception for the records of a batch that failed for good. `may_be_done`: an earlier try may have
    written them."""
    error = _refusal(partition, answer)
    error.may_be_done = may_be_done or answer.error in _MAY_BE_WRITTEN
    return error


def _refusal(partition: Partition, answer: PartitionAnswer) -> ClientError:
    code = answer.error
    said = f"{partition} answered {code.name}{': ' + answer.message if answer.message else ''}"
    if code in _TOO_LARGE:
        return RecordTooLargeError(
            f"{said}; write a smaller record, or raise the topic's max.message.bytes", code
        )
    if code in _NOT_ALLOWED:
        return AuthorizationError(f"{said}; this user needs {_NOT_ALLOWED[code]}", code)
    if code is ErrorCode.PRODUCER_FENCED:
        return FencedError(
            f"{said}; a newer producer has the same transactional.id: close this one", code
        )
    if code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE) or code in (
        _OUT_OF_ORDER | _OTHER_IDENTITY
    ):
        return AbortableError(f"{said}; abort the transaction, and do its work again", code)
    if code.is_retriable:
        return RetriableError(said, code)
    return RefusedError(said, code)


def record_refusals(answer: PartitionAnswer, whole: ClientError) -> dict[int, ClientError] | None:
    """Return index → exception for the records that the leader found at fault; None: it named none. The other records
    of the batch fail with `whole`."""
    if not answer.record_errors:
        return None
    return {
        index: RefusedError(
            f"{whole}; this record: {text or answer.message}",
            answer.error,
            may_be_done=whole.may_be_done,
        )
        for index, text in answer.record_errors
    }
