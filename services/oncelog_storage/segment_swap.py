"""The exchange of old segments for the cleaned one made of them; a crash anywhere leaves one or the other.

```
1  write <base>.index .timeindex .txnindex .log, each + .cleaned, synced        a crash: removed at start
2  mark the old segments as unsure in segments-checkpoint
3  rename the indexes, and last the .log, from .cleaned to .swap; sync names    the .log.swap decides: a start goes on
4  rename the old .log and all files of the other old segments to .deleted
5  rename the indexes, and last the .log, from .swap to their own names
```

Steps 1 to 3 are a worker thread's; 4 and 5 are one step of the event loop, which from then on reads the new segment.
All three indexes are always written, an empty one too: while a `.log.swap` is there, an index of that name without
`.swap` is the old one if the other is there too. Else it is the new one. `segment_files.DERIVED_FILES` says why no
other file of the partition changes.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog_storage.core.replay import BASE_OFFSET, BATCH_LENGTH, LAST_OFFSET_DELTA
from oncelog_storage.core.segment_files import (
    ABORTED_INDEX_SUFFIX,
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    file_stem,
    swaps_found,
)
from oncelog_storage.files import rename_deleted, sync_directory
from oncelog_storage.segment_checks import forget_checks

Step = Callable[[str], None]
"""A callback after each change of the folder, at which tests stop."""


class Replacement(NamedTuple):
    """A cleaned segment and the base offsets of the segments it replaces. Its own base offset is the first of them."""

    directory: Path
    replaced: tuple[int, ...]

    @property
    def base_offset(self) -> int:
        return self.replaced[0]


def _no_step(_name: str) -> None:
    return


def discard(directory: Path, base_offset: int) -> None:
    """Remove the `.cleaned` files of a cleaned segment that is not used (step 1 of the module). Raises OSError."""
    for suffix in SUFFIXES:
        _path(directory, base_offset, suffix + CLEANED_SUFFIX).unlink(missing_ok=True)


def commit(replacement: Replacement, forget: Callable[[], None], step: Step = _no_step) -> None:
    """Mark the old segments as unsure with `forget`, and rename the new files to `.swap` (steps 2 and 3 of the module).

    If the node crashes after that, its next start finishes the replacement. A worker thread calls this. Raises OSError.
    """
    directory = replacement.directory
    forget()
    step("checks")
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        if suffix == LOG_SUFFIX:
            sync_directory(directory)
        source = _path(directory, replacement.base_offset, suffix)
        os.rename(f"{source}{CLEANED_SUFFIX}", f"{source}{SWAP_SUFFIX}")
        step(f"swap{suffix}")
    sync_directory(directory)


def finish(replacement: Replacement, step: Step = _no_step) -> list[str]:
    """Give the new files the names of the old ones (steps 4 and 5 of the module). Return the old files, renamed, to be
    removed later.

    Raises OSError.
    """
    directory, deleted = replacement.directory, []
    own = _path(directory, replacement.base_offset, LOG_SUFFIX)
    old = [own] if os.path.exists(f"{own}{SWAP_SUFFIX}") else []
    old += [
        _path(directory, base_offset, suffix)
        for base_offset in replacement.replaced[1:]
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX)
    ]
    for path in old:
        if path.exists():
            # To remove a large file takes milliseconds, which a worker thread has.
            deleted.append(rename_deleted(path))
            step(f"deleted{path.suffix}")
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        path = _path(directory, replacement.base_offset, suffix)
        if os.path.exists(f"{path}{SWAP_SUFFIX}"):
            os.replace(f"{path}{SWAP_SUFFIX}", path)
            step(f"own{suffix}")
    aborted = _path(directory, replacement.base_offset, ABORTED_INDEX_SUFFIX)
    if aborted.exists() and not aborted.stat().st_size:
        aborted.unlink()
    return deleted


def undo(replacement: Replacement) -> None:
    """Remove the `.swap` files that `commit` made, because the old segments are no longer what they were. Raises
    OSError.
    """
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        path = _path(replacement.directory, replacement.base_offset, suffix + SWAP_SUFFIX)
        path.unlink(missing_ok=True)


def finish_interrupted(directory: Path) -> None:
    """Finish every replacement that was committed before a crash, and undo the others. Raises OSError."""
    names = os.listdir(directory)
    found = swaps_found(names)
    for name in found.undone:
        (directory / name).unlink()
    for swap in found.decided:
        replaced = swap.replaced(names, _end_offset(directory / swap.name))
        # A checkpoint after the commit may have told of the old segments again.
        forget_checks(directory, replaced)
        finish(Replacement(directory, replaced))
        sync_directory(directory)


def _end_offset(path: Path) -> int:
    """Return the offset behind the last batch of a segment file that was synced whole."""
    end_offset, position = -1, 0
    with path.open("rb") as file:
        while len(head := file.read(HEADER_BYTES)) == HEADER_BYTES:
            fields = HEADER.unpack(head)
            end_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
            position += max(fields[BATCH_LENGTH], 1) + LENGTH_PREFIX_BYTES
            file.seek(position)
    return end_offset


def _path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / f"{file_stem(base_offset)}{suffix}"
