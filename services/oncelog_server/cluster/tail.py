"""Reads the end of a process's log, for errors that say why the process ended."""

from pathlib import Path
from typing import Final

LOG_TAIL_LINES: Final = 15


def tail_of(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log; empty when there is no log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
