"""The metrics of a marker sender on `/metrics`: the markers that wait, by the node they wait for."""

from collections.abc import Iterator

from oncelog.process.role_metrics import RoleMetric, gauges_by
from oncelog_marker_sender.wiring import MarkerSenderRole


def marker_sender_metrics(role: MarkerSenderRole) -> Iterator[RoleMetric]:
    depths: dict[str, float] = {}
    ages: dict[str, float] = {}
    for queue in role.sender.depths():
        # A node that leads partitions and coordinates groups has two queues.
        name = str(queue.node_id) if queue.node_id >= 0 else "leader unknown"
        depths[name] = depths.get(name, 0) + queue.depth
        ages[name] = max(ages.get(name, 0), queue.oldest_age_ms / 1000)
    yield gauges_by(
        "oncelog_marker_sender_queued_markers",
        "Markers that wait for a node or are in flight to it, one for each partition",
        "node",
        depths,
    )
    yield gauges_by(
        "oncelog_marker_sender_oldest_marker_seconds",
        "Since the decision of the oldest marker that waits for this node",
        "node",
        ages,
    )
