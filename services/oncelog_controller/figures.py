"""What a controller tells on `/metrics`: whether it is active, and what it decided."""

from collections.abc import Iterator

from oncelog.process.figures import Figure, counters_by, gauge
from oncelog_controller.wiring import ControllerRole


def controller_figures(role: ControllerRole) -> Iterator[Figure]:
    """Decisions are of this process: a standby's stand still."""
    yield gauge("oncelog_controller_active", "1: this controller holds the lease", role.is_active)
    yield counters_by(
        "oncelog_controller_decisions", "Decisions taken by this process", "decision", role.labels
    )
