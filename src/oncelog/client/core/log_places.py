"""How ListOffsets and Fetch name places in a log, and who may see what is open there."""

from typing import Final

EARLIEST_TIMESTAMP: Final = -2
"""Where a log begins."""
LATEST_TIMESTAMP: Final = -1
"""Where it ends."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
