"""PromQL queries for oncelog's own series in a Prometheus. They give the same families of lines as the gateway's memory
(`rate_ring`), for times that this does not reach.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from oncelog_gateway.core.rate_ring import Line

WINDOW_MIN_S: Final = 60
"""Seconds that a rate is taken over at least: four scrapes at the usual interval."""
_PROCESS: Final = "* on (job, instance) group_right oncelog_process"
"""A join with the series `oncelog_process`. Its value is 1, and its labels name the role and the node of a process.
Under `oncelog up` all roles are scraped at one address.
"""


class Query(NamedTuple):
    text: str
    """The query. `{window}` stands for the time that a rate is taken over."""
    labels: tuple[str, ...] = ()
    """Labels whose values name a line."""
    name: str = ""
    """The name of the line, where the query has only one."""


def _of_topics(name: str) -> tuple[Query, ...]:
    series = f"oncelog_storage_topic_{name}_total"
    return (Query(f"sum by (topic) (rate({series}[{{window}}]))", ("topic",)),)


def _quantile(wanted: str) -> str:
    series = 'oncelog_coordinator_markers_seconds_bucket{{outcome="commit"}}'
    return f"histogram_quantile({wanted}, sum by (le) (rate({series}[{{window}}])))"


def _of_groups(name: str) -> tuple[Query, ...]:
    # Every gateway tells the same.
    series = f"max_over_time(oncelog_group_{name}[{{window}}])"
    return (Query(f"sum by (group) (max by (group, topic) ({series}))", ("group",)),)


QUERIES: Final[Mapping[str, tuple[Query, ...]]] = {
    **{
        name: _of_topics(name)
        for name in ("produced_bytes", "produced_records", "consumed_bytes", "consumed_records")
    },
    "transactions": (
        Query(
            "sum by (outcome) (rate(oncelog_coordinator_transaction_seconds_count[{window}]))",
            ("outcome",),
        ),
    ),
    "commit_latency": (
        Query(_quantile("0.5"), name="p50"),
        Query(_quantile("0.99"), name="p99"),
    ),
    "lso_lag": (
        Query(
            "max by (topic, partition) (max_over_time(oncelog_partition_lso_lag[{window}])) > 0",
            ("topic", "partition"),
        ),
    ),
    "group_readable": _of_groups("readable_records"),
    "group_held_back": _of_groups("held_back_records"),
    "marker_queue": (
        Query("sum(max_over_time(oncelog_marker_sender_queued_markers[{window}]))", name="markers"),
    ),
    "cpu": (
        Query(
            "max by (role, node_id) (rate(process_cpu_seconds_total[{window}]) " + _PROCESS + ")",
            ("role", "node_id"),
        ),
    ),
    "memory": (
        Query(
            "max by (role, node_id) (process_resident_memory_bytes " + _PROCESS + ")",
            ("role", "node_id"),
        ),
    ),
}


def text_of(query: Query, step_ms: int) -> str:
    return query.text.format(window=f"{max(step_ms // 1000, WINDOW_MIN_S)}s")


def line_of(
    query: Query,
    labels: Mapping[str, str],
    points: Sequence[Sequence[object]],
    first_s: float,
    step_s: float,
    steps: int,
) -> Line:
    """Return one series of Prometheus as a line, named by the query's labels. `points` are pairs of Unix time and text,
    as Prometheus gives them. A step without a point is None.
    """
    values: list[float | None] = [None] * steps
    for time_s, text in points:
        number = round((float(str(time_s)) - first_s) / step_s)
        value = float(str(text))
        if 0 <= number < steps and math.isfinite(value):
            values[number] = value
    separator = "-" if "partition" in query.labels else " "
    name = query.name or separator.join(
        labels.get(one, "").replace("_", " ") if one == "role" else labels.get(one, "")
        for one in query.labels
    )
    return Line("" if name == "(others)" else name, values)
