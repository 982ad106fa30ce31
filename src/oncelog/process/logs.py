"""One line a log record, from every process alike. Times are UTC.

It is logfmt, `time=… level=info node=11 at=oncelog_storage.log msg="…"`, or a JSON object with the same names.

A line that a person can read and `grep` can cut is also what log collectors parse without being told how. A traceback
stays on the line of its record, escaped: half of one is worse than none.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> "LogLevel | None":
        """Return the level of a name in any case, such as `INFO`: Python writes levels in capitals."""
        return next((one for one in cls if one.value == str(value).lower()), None)


class LogFormat(StrEnum):
    LOGFMT = "logfmt"
    JSON = "json"


class Lines(logging.Formatter):
    """A log formatter that writes each record as one line of logfmt or JSON."""

    def __init__(self, node_id: int, log_format: LogFormat) -> None:
        super().__init__()
        self.node_id = node_id
        self._write = json.dumps if log_format is LogFormat.JSON else _logfmt

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, str | int] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "node": self.node_id,
            "at": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return self._write(fields)


def log_to_stderr(level: LogLevel, node_id: int, log_format: LogFormat = LogFormat.LOGFMT) -> None:
    """Write log records of level `level` and above to stderr; of other people's libraries only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(node_id, log_format))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("oncelog", *_ROLES):
        logging.getLogger(name).setLevel(level.upper())
    logging.captureWarnings(True)


def log_as_node(node_id: int) -> None:
    """Use this node id in log lines from now on. A process starts with 0 if the controller gives it a node id."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, Lines):
            handler.formatter.node_id = node_id


_ROLES: Final = (
    "oncelog_controller",
    "oncelog_coordinator",
    "oncelog_gateway",
    "oncelog_listener",
    "oncelog_marker_sender",
    "oncelog_server",
    "oncelog_storage",
)


_QUOTED: Final = ("msg", "exception")


def _logfmt(fields: Mapping[str, str | int]) -> str:
    return " ".join(
        f"{name}={json.dumps(value, ensure_ascii=False) if name in _QUOTED else value}"
        for name, value in fields.items()
    )
