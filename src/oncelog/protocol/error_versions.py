"""The error code that an old client gets in place of a newer one (docs/kafka-facts.md, 1.3).

A code that a client's version does not know reaches the application as "unknown error", and is then retried or thrown
without sense. Kafka therefore answers old versions with the code that meant the same when they were written.
"""

from oncelog.errors import ErrorCode, error_code_of
from oncelog.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)

_KNOWS_FROM: dict[tuple[int, ErrorCode], tuple[int, ErrorCode]] = {
    (INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED): (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ADD_PARTITIONS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (END_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    # The storage error is of 2017; before it, "not the leader any more" made clients look again.
    (PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR): (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (FETCH, ErrorCode.KAFKA_STORAGE_ERROR): (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    # Producers before 2.0 could crash on a coordinator that still loads (KAFKA-7296).
    (TXN_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): (
        2,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
    (LIST_OFFSETS, ErrorCode.OFFSET_NOT_AVAILABLE): (5, ErrorCode.LEADER_NOT_AVAILABLE),
    # A client that names topics does not know that they have ids.
    (PRODUCE, ErrorCode.UNKNOWN_TOPIC_ID): (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (FETCH, ErrorCode.UNKNOWN_TOPIC_ID): (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (FETCH, ErrorCode.INCONSISTENT_TOPIC_ID): (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    # Every error of a group's member was one code, until a group could have members of two protocols.
    (OFFSET_COMMIT, ErrorCode.GROUP_ID_NOT_FOUND): (9, ErrorCode.ILLEGAL_GENERATION),
    (TXN_OFFSET_COMMIT, ErrorCode.GROUP_ID_NOT_FOUND): (6, ErrorCode.ILLEGAL_GENERATION),
    (TXN_OFFSET_COMMIT, ErrorCode.STALE_MEMBER_EPOCH): (6, ErrorCode.ILLEGAL_GENERATION),
    (TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE): (4, ErrorCode.INVALID_TXN_STATE),
}
"""(api key, error) → the first version that knows the error, and what older ones get."""


def error_for_version(api_key: int, version: int, error_code: int) -> ErrorCode:
    """Return the error code that a client of this version knows, in place of `error_code`. A number that Kafka does not
    have becomes UNKNOWN_SERVER_ERROR."""
    if error_code == 0:
        return ErrorCode.NONE
    code = error_code_of(error_code)
    known_from, older = _KNOWS_FROM.get((api_key, code), (0, code))
    return code if version >= known_from else older
