"""Every planted bug, by what has it."""

from typing import Final

from robustness.planted.bug import Bug
from robustness.planted.client_bugs import CLIENT_BUGS
from robustness.planted.coordinator_bugs import COORDINATOR_BUGS
from robustness.planted.log_bugs import LOG_BUGS
from robustness.planted.storage_bugs import STORAGE_BUGS

BUGS: Final[tuple[Bug, ...]] = (
    *STORAGE_BUGS,
    *LOG_BUGS,
    *COORDINATOR_BUGS,
    *CLIENT_BUGS,
)
