"""The file `segments-checkpoint` of a partition, which shows a starting node lost segments (`core.segment_checks`).

The event loop writes it when a segment begins, unsynced: after a kill it is there. A worker thread writes it with each
checkpoint, synced. Each content gets a number when it is taken, on the event loop, and never replaces a newer one.
"""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from oncelog_storage.core.aborted_index import AbortedCheck, decode_old_checks
from oncelog_storage.core.segment_checks import LogChecks, decode_checks, encode_checks
from oncelog_storage.core.segment_files import CHECKS_FILE, OLD_CHECKS_FILE, TEMPORARY_SUFFIX
from oncelog_storage.files import sync_directory, write_atomically, write_file


class TakenChecks(NamedTuple):
    """The content of `segments-checkpoint` to be written, as it was on the event loop, with a number that rises."""

    number: int
    checks: LogChecks


class ChecksFile:
    def __init__(self, directory: Path) -> None:
        self._path = directory / CHECKS_FILE
        self._lock = threading.Lock()
        """The lock that a thread holds while a file takes its name, but not while it syncs."""
        self._taken = 0
        self._written = 0

    def prepare_write(self, checks: LogChecks) -> TakenChecks:
        """Return the checks with the next number, for `write`. Only the event loop calls this."""
        self._taken += 1
        return TakenChecks(self._taken, checks)

    def is_newest(self, taken: TakenChecks) -> bool:
        return taken.number == self._taken

    def write(self, taken: TakenChecks, *, sync: bool) -> None:
        """Write `segments-checkpoint`, unless newer content is written already. Any thread may call this. Raises
        OSError.
        """
        # Two threads may write at one time.
        temporary = f"{self._path}.{taken.number}{TEMPORARY_SUFFIX}"
        try:
            write_file(temporary, encode_checks(taken.checks), sync=sync)
            with self._lock:
                if taken.number > self._written:
                    os.replace(temporary, self._path)
                    self._written = taken.number
        finally:
            # The file is still there if it did not take its name: a newer one is there, or the disk is full.
            Path(temporary).unlink(missing_ok=True)
        if sync:
            sync_directory(self._path.parent)


def read_checks(directory: Path) -> LogChecks | None:
    """Return the content of `segments-checkpoint`; None: the file is missing or damaged. Raises OSError."""
    try:
        return decode_checks((directory / CHECKS_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def read_old_checks(directory: Path) -> dict[int, AbortedCheck] | None:
    """Return the checks of aborted indexes that an older version stored, by base offset. Raises OSError.

    None: their file is missing or damaged.
    """
    try:
        return decode_old_checks((directory / OLD_CHECKS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return None


def forget_checks(directory: Path, base_offsets: Iterable[int]) -> None:
    """Mark these segments as unsure in `segments-checkpoint`, because they are about to be cut, replaced or removed.

    No other thread may write that file meanwhile. Raises OSError.
    """
    checks = read_checks(directory)
    if checks is None:
        return
    changed = checks.unsure_of(set(base_offsets))
    if changed != checks:
        write_atomically(directory / CHECKS_FILE, encode_checks(changed), sync=True)


def remove_checks(directory: Path) -> None:
    """Remove `segments-checkpoint`, so that the next start takes all segments as they are. Raises OSError."""
    (directory / CHECKS_FILE).unlink(missing_ok=True)
    remove_old_checks(directory)


def remove_old_checks(directory: Path) -> None:
    """Remove the aborted-index checks of an older version, which `segments-checkpoint` replaces. Raises OSError."""
    (directory / OLD_CHECKS_FILE).unlink(missing_ok=True)
