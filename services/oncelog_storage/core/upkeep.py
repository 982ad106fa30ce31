"""What a checkpoint, a sync and a removal change, once the disk has done its part.

Logs are cut and begin again while a worker thread writes: what it wrote counts only for the log that it was taken of.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from oncelog.ids import Partition as PartitionName
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.partition import Partition

HostedT = TypeVar("HostedT", bound=Partition)
TakenT = TypeVar("TakenT")


class Taken(NamedTuple, Generic[HostedT, TakenT]):
    """A checkpoint of a log, taken at `offset`."""

    leader: HostedT
    checkpoint: TakenT
    offset: int
    truncation_count: int

    @property
    def is_true(self) -> bool:
        """The log was not cut since: it does not speak of records that are gone."""
        log = self.leader.state
        return log.truncation_count == self.truncation_count and not self.leader.is_truncating

    @property
    def counts(self) -> bool:
        return self.is_true and self.leader.offline is None


def moved_points(points: dict[PartitionName, int], done: Iterable[Taken[HostedT, TakenT]]) -> None:
    """Two checkpoints of one partition may end in either order."""
    for taken in done:
        partition = taken.leader.partition
        points[partition] = max(points.get(partition, 0), taken.offset)


def to_checkpoint(all_hosted: Iterable[HostedT]) -> list[HostedT]:
    """What has changed, and may be written."""
    return [hosted for hosted in all_hosted if hosted.state.is_dirty and hosted.offline is None]


class Sync(NamedTuple):
    """A sync under way: what it makes safe."""

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

    def ended(self, leader: Partition, *, is_wanted_again: bool) -> int | None:
        """Up to where this node has done its part. None: what was synced is gone in part; sync again."""
        log = leader.state
        leader.is_flushing = is_wanted_again
        if log.truncation_count != self.truncation_count:
            return None
        log.flushed_offset = self.end_offset
        log.names_synced = self.names_made
        return self.end_offset if is_wanted_again else log.log_end_offset


class Removals:
    """Files that nobody reads any more, removed when their delay is over: a reader may still be at them."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []

    def add(self, paths: Iterable[str], due: int) -> None:
        self._due += [(due, path) for path in paths]

    def take(self, now: int) -> list[str]:
        """Those that are due. The caller removes them, and adds them again if it cannot. Files that are added meanwhile
        are of the next `take`, whenever they are due."""
        taken = [path for due, path in self._due if due <= now]
        self._due = [(due, path) for due, path in self._due if due > now]
        return taken


def not_yet_safe(moved: Sequence[HostedT]) -> list[HostedT]:
    """What the newest producer snapshot has not seen must be replayed after a crash, so it cannot go yet: a transaction
    whose marker was deleted unseen would look open for ever."""
    return [
        leader for leader in moved if leader.state.recovery_point < leader.state.log_start_offset
    ]
