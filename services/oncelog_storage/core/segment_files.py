"""The names of a partition's files, and what each name says (Kafka's names, and a few of oncelog's own)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)
SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
TEMPORARY_SUFFIX: Final = ".tmp"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CHECKS_FILE: Final = "segments-checkpoint"
OLD_CHECKS_FILE: Final = "aborted-index-checkpoint"
"""The file in which older versions keep the checks of aborted indexes alone (`aborted_index.decode_old_checks`)."""
GAPS_FILE: Final = "copied-with-gaps"

DERIVED_FILES: Final = (
    *INDEX_SUFFIXES,
    SNAPSHOT_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    CHECKS_FILE,
    OLD_CHECKS_FILE,
    GAPS_FILE,
)
"""The derived files of a partition, by the ends of their names: they repeat what its batches say, or how they came.

Code that takes batches away or replaces them also makes each of these files true again, or removes it. Otherwise the
next start believes the old content. A new kind of file belongs into this tuple, and gets a row here:

| file | a cut | a cleaned segment | a new beginning |
| --- | --- | --- | --- |
| `INDEX_SUFFIXES` | cut or removed with their segment | written with it | removed |
| `SNAPSHOT_SUFFIX` | removed if it is of a later offset | kept | removed |
| `LEADER_EPOCH_CHECKPOINT` | kept or written anew: a start drops later epochs | kept | removed |
| `CHECKS_FILE` | before it, the segments are marked as unsure | the same | removed |
| `OLD_CHECKS_FILE` | kept: no start reads it once there was a `CHECKS_FILE` | the same | removed |
| `GAPS_FILE` | kept | kept | removed |

- A cut is made by `log_replication.truncate`, `log_recovery` (after a power cut) and `repair`, which removes both files
  of checks instead.
- `segment_swap` puts a cleaned segment in the place of others.
- `log_replication.start_over` begins a log anew.
- A copy is no cut, but `log_replication.append_copied` makes `GAPS_FILE` before it writes batches with a gap.
"""


def file_stem(offset: int) -> str:
    return f"{offset:020d}"


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """Return the offsets in the names of files with this suffix, ascending."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def index_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of segments that have an index, ascending, each once."""
    return sorted({int(name.partition(".")[0]) for name in names if is_index(name)})


def is_derived(name: str) -> bool:
    """True if this file of a partition's folder is one of `DERIVED_FILES`."""
    return name.endswith(DERIVED_FILES)


def is_index(name: str) -> bool:
    return name.endswith(INDEX_SUFFIXES) and name.partition(".")[0].isdigit()


class FoundFiles(NamedTuple):
    """The files that a starting node finds in a partition's folder."""

    leftovers: list[str]
    """Files of interrupted writes and deletions. The starting node removes them, before it opens the log."""
    base_offsets: list[int]
    """The base offsets of the segments, ascending."""
    lone_indexes: list[str]
    """Indexes without a segment, sorted by name."""

    def missing_segment(self) -> str:
        """Return the name of the first segment file that somebody removed; "" for none.

        A segment that is removed in order loses its indexes first. Only an index before the log's first segment is no
        sign of a loss: a checkpoint may finish that index just after retention took its segment away.
        """
        first = file_stem(self.base_offsets[0]) if self.base_offsets else ""
        for name in self.lone_indexes:
            stem = name.rpartition(".")[0]
            if not stem < first:
                return stem + LOG_SUFFIX
        return ""


def found_files(names: Iterable[str]) -> FoundFiles:
    """Sort the files of a folder by kind. `names` may be in any order, and leftovers keep that order."""
    leftovers: list[str] = []
    kept: list[str] = []
    for name in names:
        is_leftover = name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX))
        (leftovers if is_leftover else kept).append(name)
    base_offsets = offsets_of(kept, LOG_SUFFIX)
    stems = {file_stem(base_offset) for base_offset in base_offsets}
    indexes = sorted(name for name in kept if name.endswith(INDEX_SUFFIXES))
    lone = [name for name in indexes if name.rpartition(".")[0] not in stems]
    return FoundFiles(leftovers, base_offsets, lone)


class Swap(NamedTuple):
    """A replacement of segments by a cleaned one that a crash interrupted after it was decided."""

    base_offset: int
    name: str
    """The name of the cleaned segment's file."""

    def replaced(self, names: Iterable[str], end_offset: int) -> tuple[int, ...]:
        """Return the base offsets of the segments that the cleaned one replaces.

        The cleaned one ends at `end_offset`.
        """
        end = max(end_offset, 1)
        others = offsets_of(names, LOG_SUFFIX)
        return (self.base_offset, *(each for each in others if self.base_offset < each < end))


class SwapsFound(NamedTuple):
    """The replacements of segments by a cleaned one that a crash interrupted, as a starting node finds them."""

    undone: list[str]
    """Files of replacements that were not decided. The starting node removes them, before it opens the log."""
    decided: list[Swap]


def swaps_found(names: Iterable[str]) -> SwapsFound:
    """Return the interrupted replacements of segments among a folder's file names.

    A replacement is decided once its `.log.swap` exists, which is renamed last.
    """
    ordered = sorted(names)
    known = set(ordered)
    undone = [name for name in ordered if name.endswith(CLEANED_SUFFIX)]
    decided = []
    for name in ordered:
        if not name.endswith(SWAP_SUFFIX):
            continue
        log = name.removesuffix(SWAP_SUFFIX).rpartition(".")[0] + LOG_SUFFIX + SWAP_SUFFIX
        if log not in known:
            undone.append(name)
        elif name == log:
            decided.append(Swap(int(name.partition(".")[0]), name))
    return SwapsFound(undone, decided)
