"""Every planted bug, by the service that has it."""

from typing import Final

from robustness.planted.bug import Bug
from robustness.planted.coordinator_bugs import COORDINATOR_BUGS
from robustness.planted.storage_bugs import STORAGE_BUGS

BUGS: Final[tuple[Bug, ...]] = (*STORAGE_BUGS, *COORDINATOR_BUGS)
