"""The check that a batch that Spark runs again has the rows of the batch that was committed.

A batch at or below the sink's last one is never written again. If its rows are others now, they would be lost. That
happens when an older checkpoint was restored, when its newest entries are gone, or when the query computes other rows
each time. So each skipped task counts the rows that it would have written, and adds up their hashes. Neither sum
depends on the order of the rows, nor on which task has them, so they may be compared however the work was divided.

| the batch, its rows in sum | |
|---|---|
| no task looked at its rows: the user accepts what was committed (`verifyReplay=false`) | accepted |
| remembered, same count, and same checksum where one was recorded | accepted |
| not remembered, no rows | accepted: nothing can be lost |
| else | refused |
"""

from collections.abc import Sequence
from typing import Final

from oncelog_coordinator.core.sink_events import CommitBatch
from oncelog_coordinator.core.sink_records import UNKNOWN
from oncelog_coordinator.core.sink_state import Sink

_CHECKSUM_MASK: Final = 2**63 - 1


def sum_of_checksums(checksums: Sequence[int]) -> int:
    """Return the checksum of all rows of a batch, from those of its tasks.

    UNKNOWN if a task's is UNKNOWN: its client does not report checksums.
    """
    return UNKNOWN if UNKNOWN in checksums else sum(checksums) & _CHECKSUM_MASK


def refuse_replay(sink: Sink, event: CommitBatch) -> str | None:
    """Return what is wrong with a batch that Spark runs again and whose tasks all skipped it; None: it is accepted."""
    if all(message.row_checksum == UNKNOWN for message in event.messages):
        return None
    row_count = sum(message.row_count for message in event.messages)
    batches = {batch.batch_id: batch for batch in sink.committed_batches()}
    committed = batches.get(event.batch_id)
    if committed is None:
        if row_count == 0:
            return None
        oldest, newest = min(batches), max(batches)
        if event.batch_id > oldest:
            return (
                f"batch {event.batch_id} has {row_count} rows now, and none when it was committed"
            )
        return (
            f"batch {event.batch_id} has {row_count} rows, and is older than the batches {oldest} to {newest}"
            " that the sink can compare"
        )
    if row_count != committed.row_count:
        return f"batch {event.batch_id} was committed with {committed.row_count} rows and has {row_count} now"
    checksum = sum_of_checksums([message.row_checksum for message in event.messages])
    if committed.row_checksum not in (UNKNOWN, checksum):
        return f"batch {event.batch_id} has {row_count} rows as when it was committed, but not the same ones"
    return None
