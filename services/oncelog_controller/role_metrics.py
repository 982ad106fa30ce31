"""The metrics of a controller for `/metrics`: whether it is active, and its decisions."""

from collections.abc import Iterator

from oncelog.process.role_metrics import RoleMetric, counters_by, gauge
from oncelog_controller.wiring import ControllerRole


def controller_metrics(role: ControllerRole) -> Iterator[RoleMetric]:
    """Yield the controller's metrics. It counts decisions of this process, so a standby's count does not grow."""
    yield gauge("oncelog_controller_active", "1: this controller holds the lease", role.is_active)
    yield counters_by(
        "oncelog_controller_decisions", "Decisions taken by this process", "decision", role.labels
    )
