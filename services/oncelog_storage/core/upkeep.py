"""Changes the state in memory after a checkpoint, a sync or a removal has reached the disk.

Logs are cut and begin again while a worker thread writes. What the thread wrote counts only for the log as it was when
the write began.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from oncelog.ids import Partition
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.partition import PartitionReplica

HostedT = TypeVar("HostedT", bound=PartitionReplica)
TakenT = TypeVar("TakenT")


class Taken(NamedTuple, Generic[HostedT, TakenT]):
    """A checkpoint of a log that is to be written, taken when the log ended at `offset`."""

    hosted: HostedT
    checkpoint: TakenT
    offset: int
    truncation_count: int

    @property
    def is_true(self) -> bool:
        """True if the log was not cut since this checkpoint was taken. After a cut the checkpoint may have records
        that are gone, and the caller removes it."""
        log = self.hosted.log
        return log.truncation_count == self.truncation_count and not self.hosted.is_truncating

    @property
    def counts(self) -> bool:
        return self.is_true and self.hosted.offline is None


def moved_points(points: dict[Partition, int], done: Iterable[Taken[HostedT, TakenT]]) -> None:
    """Raise the recovery points in `points` to the offsets of finished checkpoints.

    Two checkpoints of one partition may end in either order.
    """
    for taken in done:
        partition = taken.hosted.partition
        points[partition] = max(points.get(partition, 0), taken.offset)


def to_checkpoint(all_hosted: Iterable[HostedT]) -> list[HostedT]:
    """Return the partitions that have changed since their last checkpoint, and may be written."""
    return [hosted for hosted in all_hosted if hosted.log.is_dirty and hosted.offline is None]


class Sync(NamedTuple):
    """A sync of a log that is under way, and what is safe on disk when it ends."""

    end_offset: int
    names_made: int
    truncation_count: int
    has_new_names: bool

    @classmethod
    def begin(cls, log: LogState) -> "Sync":
        log.unflushed_records = 0
        return cls(
            log.log_end_offset,
            log.names_made,
            log.truncation_count,
            log.names_made > log.names_synced,
        )

    def ended(self, hosted: PartitionReplica, *, is_wanted_again: bool) -> int | None:
        """Update the log after its sync. Return the offset up to which its records now count as stored on this node.

        `is_wanted_again`: another sync was requested meanwhile, and newer records wait for that. None: a part of what
        was synced was cut off meanwhile, and another sync is needed.
        """
        log = hosted.log
        hosted.is_flushing = is_wanted_again
        if log.truncation_count != self.truncation_count:
            return None
        log.flushed_offset = self.end_offset
        log.names_synced = self.names_made
        return self.end_offset if is_wanted_again else log.log_end_offset


class Removals:
    """Files that were taken out of logs, each with the time when it is removed: a reader may still have it open."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []

    def add(self, paths: Iterable[str], due: int) -> None:
        self._due += [(due, path) for path in paths]

    def pop_due(self, now: int) -> list[str]:
        """Return the files that are due. The caller removes them, and adds them again if it cannot.

        Files that are added meanwhile belong to the next call, whenever they are due.
        """
        taken = [path for due, path in self._due if due <= now]
        self._due = [(due, path) for due, path in self._due if due > now]
        return taken


def not_yet_safe(moved: Sequence[HostedT]) -> list[HostedT]:
    """Return the logs whose recovery point is below the new log start that retention gave them.

    A start after a crash would replay the segments between the two, so these cannot go yet. A transaction whose marker
    was deleted before a snapshot saw it would look open for ever.
    """
    return [hosted for hosted in moved if hosted.log.recovery_point < hosted.log.log_start_offset]
