"""The errors that a program gets when a coordinator refuses a call of its producer."""

from typing import Final

from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.transaction_calls import Answer
from oncelog.client.errors import (
    AbortableError,
    AuthorizationError,
    ClientError,
    FatalError,
    FencedError,
    UnsupportedError,
)
from oncelog.errors import ErrorCode

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_ABORTABLE_OF_OFFSETS: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
_FENCED_TEXT: Final = (
    "a newer producer has the same transactional.id, or the coordinator ended this one's transaction: close this "
    "producer, and make another if it should go on"
)


def refusal(settings: ProducerSettings, what: str, answer: Answer) -> ClientError:
    """Return the exception for a program whose call a coordinator refused. Its class says what can be done: retry,
    abort, or close. Its text begins with `what`, the name of the call."""
    code = answer.error
    said = f"{what} was refused with {code.name}{': ' + answer.message if answer.message else ''}"
    if code in _FENCED:
        return FencedError(f"{said}: {_FENCED_TEXT}", code)
    if code in NOT_ALLOWED:
        return AuthorizationError(f"{said}: {_needs(settings)}", code)
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return UnsupportedError(
            f"{said}: two-phase commit needs the cluster's features two.phase.commit.version 1 and "
            "transaction.version 2",
            code,
        )
    if code in ABORTABLE or code in _ABORTABLE_OF_OFFSETS:
        return AbortableError(f"{said}: abort the transaction, and do its work again", code)
    return FatalError(f"{said}: close this producer, and make another", code)


def _needs(settings: ProducerSettings) -> str:
    if not settings.is_transactional:
        return "this user needs WRITE on a topic, or IDEMPOTENT_WRITE on the cluster"
    if settings.transaction_two_phase_commit_enable:
        return (
            "this user needs WRITE and TWO_PHASE_COMMIT on the transactional.id, and the cluster "
            "transaction.two.phase.commit.enable=true"
        )
    return "this user needs WRITE on the transactional.id"
