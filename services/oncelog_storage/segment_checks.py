"""The file `segments-checkpoint` of one partition (`core.segment_checks`).

The event loop writes it when a segment begins, unsynced: after a kill it is there. A worker thread writes it with each
checkpoint, synced. Each content gets a number when it is taken, on the event loop, and never replaces a newer one.
"""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from oncelog_storage.core.aborted_index import OLD_CHECKS_FILE, AbortedCheck, decode_old_checks
from oncelog_storage.core.segment_checks import CHECKS_FILE, LogChecks, decode_checks, encode_checks
from oncelog_storage.core.segment_files import TEMPORARY_SUFFIX
from oncelog_storage.files import sync_directory, write_atomically, write_file


class TakenChecks(NamedTuple):
    """What is to be written down, as it was on the event loop."""

    number: int
    checks: LogChecks


class ChecksFile:
    def __init__(self, directory: Path) -> None:
        self._path = directory / CHECKS_FILE
        self._lock = threading.Lock()
        """Held while a file takes its name, not while it is synced."""
        self._taken = 0
        self._written = 0

    def take(self, checks: LogChecks) -> TakenChecks:
        """On the event loop."""
        self._taken += 1
        return TakenChecks(self._taken, checks)

    def is_newest(self, taken: TakenChecks) -> bool:
        return taken.number == self._taken

    def write(self, taken: TakenChecks, *, sync: bool) -> None:
        """In any thread. Raises OSError."""
        # Two threads may write at one time.
        temporary = f"{self._path}.{taken.number}{TEMPORARY_SUFFIX}"
        try:
            write_file(temporary, encode_checks(taken.checks), sync=sync)
            with self._lock:
                if taken.number > self._written:
                    os.replace(temporary, self._path)
                    self._written = taken.number
        finally:
            # What did not take its name: there is a newer one, or the disk is full.
            Path(temporary).unlink(missing_ok=True)
        if sync:
            sync_directory(self._path.parent)


def read_checks(directory: Path) -> LogChecks | None:
    """None: nothing is known. Raises OSError."""
    try:
        return decode_checks((directory / CHECKS_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def read_old_checks(directory: Path) -> dict[int, AbortedCheck] | None:
    """What a version wrote that kept no others. None: nothing is known. Raises OSError."""
    try:
        return decode_old_checks((directory / OLD_CHECKS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return None


def forget_checks(directory: Path, base_offsets: Iterable[int]) -> None:
    """These segments are about to be cut, replaced or removed. While nobody else writes. Raises OSError."""
    checks = read_checks(directory)
    if checks is None:
        return
    changed = checks.unsure_of(set(base_offsets))
    if changed != checks:
        write_atomically(directory / CHECKS_FILE, encode_checks(changed), sync=True)


def remove_checks(directory: Path) -> None:
    """All segments are as they should be. Raises OSError."""
    (directory / CHECKS_FILE).unlink(missing_ok=True)
    remove_old_checks(directory)


def remove_old_checks(directory: Path) -> None:
    """The new ones are there. Raises OSError."""
    (directory / OLD_CHECKS_FILE).unlink(missing_ok=True)
