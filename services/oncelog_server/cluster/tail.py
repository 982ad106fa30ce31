"""The end of a log, for who must tell why a process ended."""

from pathlib import Path
from typing import Final

LOG_TAIL_LINES: Final = 15


def tail_of(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
