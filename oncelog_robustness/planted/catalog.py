"""The list of every planted bug, by the part of the system that has it."""

from typing import Final

from oncelog_robustness.planted.bug import Bug
from oncelog_robustness.planted.client_bugs import CLIENT_BUGS
from oncelog_robustness.planted.coordinator_bugs import COORDINATOR_BUGS
from oncelog_robustness.planted.log_bugs import LOG_BUGS
from oncelog_robustness.planted.storage_bugs import STORAGE_BUGS
from oncelog_robustness.planted.two_phase_bugs import TWO_PHASE_BUGS

BUGS: Final[tuple[Bug, ...]] = (
    *STORAGE_BUGS,
    *LOG_BUGS,
    *COORDINATOR_BUGS,
    *CLIENT_BUGS,
    *TWO_PHASE_BUGS,
)
