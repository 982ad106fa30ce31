"""Kafka's numbers for the start and end of a log in ListOffsets, and for isolation levels."""

from typing import Final

EARLIEST_TIMESTAMP: Final = -2
"""The timestamp that asks for the start of a log."""
LATEST_TIMESTAMP: Final = -1
"""The timestamp that asks for the end of a log."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
