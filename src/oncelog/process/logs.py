"""One line a log record, in logfmt: `time=… level=info at=oncelog_storage.log node=11 msg="…"`.

A line that a person can read and `grep` can cut is also what log collectors parse without being told how. A traceback
stays on the line of its record, escaped: half of one is worse than none.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Logfmt(logging.Formatter):
    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = (
            f"time={time.replace('+00:00', 'Z')} level={record.levelname.lower()} "
            f"node={self._node_id} at={record.name} msg={_quoted(record.getMessage())}"
        )
        if record.exc_info:
            line += f" exception={_quoted(self.formatException(record.exc_info))}"
        return line


def log_to_stderr(level: LogLevel, node_id: int) -> None:
    """All loggers of this process, from `level` on. Other people's libraries speak only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Logfmt(node_id))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("oncelog", *_ROLES):
        logging.getLogger(name).setLevel(level.upper())
    logging.captureWarnings(True)


_ROLES: Final = (
    "oncelog_controller",
    "oncelog_coordinator",
    "oncelog_gateway",
    "oncelog_listener",
    "oncelog_marker_sender",
    "oncelog_storage",
)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
