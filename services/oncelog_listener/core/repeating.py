"""The requests that a listener repeats when the node it asked is gone, or no longer owns the partition, transaction or
group (ADR 0017; "facts" below is docs/kafka-facts.md).

A repetition is safe when doing the request twice has the effect of doing it once, or when the first copy surely was not
done. For a client that has closed its connection nothing is repeated: it sends its request to another listener.

| request | done twice | why |
| --- | --- | --- |
| Fetch, ListOffsets, Describe…, verification | ALWAYS safe | it only reads |
| Produce, every batch with a producer id | ALWAYS | the leader knows each batch by its sequence (facts 9) |
| Produce, a batch without one | UNLESS_DONE | it would be written twice |
| InitProducerId | ALWAYS | the same identity again, by its origin (ADR 0018); without, the second fences the first |
| AddPartitionsToTxn, AddOffsetsToTxn | ALWAYS | a partition that is present is present (facts 8.4) |
| EndTxn | ALWAYS | the state tells a repetition; a copy that arrives later is known by its origin (ADR 0018) |
| TxnOffsetCommit, OffsetCommit | ALWAYS | the same offsets, same generation; a later copy is known by its origin |
| WriteTxnMarkers | ALWAYS | a marker that is there is accepted again (facts 8.11) |
| ConsumerGroupHeartbeat that joins | ALWAYS | who joins again is who it was; a later copy is known by its origin |
| any other | UNLESS_DONE | its epoch may be out of date by its own doing; the client then says everything anew |
| CreateTopics, DeleteTopics, CreatePartitions | UNLESS_DONE | the second answer would be "it exists already" |
"""

from enum import Enum
from typing import Final

from oncelog.errors import ErrorCode


class Repeatable(Enum):
    ALWAYS = "always"
    UNLESS_DONE = "unless done"


NOT_DONE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        # Asked only about what this node's metadata knows: the other one does not know it yet.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        # The leader's node knows an older or a newer topic of the name, and one of the two images is about to change.
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The codes of an owner that has done nothing; a later try may get another answer."""

PERHAPS_DONE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The codes that also end requests which were under way when the owner lost what it owned."""


def is_repeated(repeatable: Repeatable, error_code: int, was_sent: bool = True) -> bool:
    """True if the listener sends the request again after this error. `was_sent`: the first copy may have reached its
    node."""
    if error_code in NOT_DONE:
        return True
    if error_code not in PERHAPS_DONE:
        return False
    return repeatable is Repeatable.ALWAYS or not was_sent
