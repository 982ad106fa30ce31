"""Rates (such as bytes a second) and levels (such as lag) over time, from what this gateway has recorded since it
started.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from oncelog.api.v1.storage_pb2 import PartitionDescription
from oncelog.process.latency_bounds import LATENCY_BOUNDS_S
from oncelog.runtime.clock import Clock
from oncelog_gateway.core.charts import Span
from oncelog_gateway.core.held_back import unread
from oncelog_gateway.core.quantiles import quantile
from oncelog_gateway.core.rate_families import BUCKETS
from oncelog_gateway.core.rate_ring import Line
from oncelog_gateway.groups import Groups
from oncelog_gateway.prometheus_history import PrometheusHistory
from oncelog_gateway.rate_recorder import GroupLevels, RateRecorder, TopicRate
from oncelog_gateway.roles import Roles
from oncelog_gateway.time_budget import time_budget

QUANTILES: Final = (("p50", 0.5), ("p99", 0.99))
GROUPS_READ_MAX: Final = 500
PARTITIONS_READ_MAX: Final = 5_000
CALL_S: Final = 2.0
ALL_S: Final = 4.0


class Rates:
    """The recorded rates, for console pages and REST. Asking for the time or for topics' rates makes the recorder read
    more often for two minutes.
    """

    def __init__(
        self, recorder: RateRecorder, clock: Clock, history: PrometheusHistory | None = None
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self.history = history
        """The configured Prometheus; None: there is none."""
        self._looks: dict[str, dict[str, int]] = {}

    def record_groups(self, groups: Groups, roles: Roles) -> None:
        """Let the recorder read the lags of consumer groups too. It is called once the objects that read them exist."""
        self._recorder.read_groups = partial(group_levels, groups, roles)

    def now(self) -> int:
        self._recorder.touch()
        return self._clock.now()

    @property
    def since_ms(self) -> int | None:
        """Time at which this gateway began to record; None: it has not."""
        return self._recorder.since_ms

    @property
    def silent(self) -> Mapping[str, str]:
        """Why each process that did not answer the last reading was silent, by the name of the process."""
        return self._recorder.silent

    @property
    def versions(self) -> Mapping[int, str]:
        """The version of oncelog on each node that answered, by node id."""
        return self._recorder.versions

    def topic_rates(self) -> tuple[Mapping[str, TopicRate], int]:
        self._recorder.touch()
        return self._recorder.topic_rates()

    def lines(self, family: str, span: Span) -> list[Line]:
        ring = self._recorder.ring
        if family == "transactions":
            # Commits first: there are more of them.
            return ring.lines(family, *span)[::-1]
        if family != "commit_latency":
            return ring.lines(family, *span)
        buckets = [ring.sums("marker_buckets", name, *span) for name in BUCKETS]
        steps = list(zip(*buckets, strict=True))
        return [
            Line(
                name,
                [
                    quantile(wanted, [one or 0.0 for one in step], LATENCY_BOUNDS_S)
                    for step in steps
                ],
            )
            for name, wanted in QUANTILES
        ]

    def looks(self, of: str) -> dict[str, int]:
        """Return the looks (colour and dashes) that charts gave to names of this kind, such as topics, by name. Charts
        add to it, so a name looks the same in all of them.
        """
        return self._looks.setdefault(of, {})

    def coarse(self, span: Span) -> list[bool]:
        """Return for each step whether one reading covers much more time than the step, so that its course
        is not known.
        """
        return self._recorder.ring.coarse(*span)

    def line(self, family: str, name: str, span: Span, called: str) -> list[Line]:
        """Return the line of this name, renamed to `called`, as a list of one. The list is empty if the name has no
        line of its own.
        """
        return [one._replace(name=called) for one in self.lines(family, span) if one.name == name]


async def group_levels(groups: Groups, roles: Roles) -> GroupLevels:
    """Return by group how many offsets it can read and how many an open transaction holds back. Groups with a partition
    that is not known are left out, and so are groups whose coordinator is silent.
    """
    with time_budget(CALL_S, ALL_S):
        known, _ = await groups.known(GROUPS_READ_MAX)
        offsets = await groups.offsets_of([one.group_id for one in known])
        asked = dict.fromkeys(partition for one in offsets.values() for partition, _ in one)
        described = await roles.describe_partitions(list(asked)[:PARTITIONS_READ_MAX])
    levels: dict[str, tuple[float, float]] = {}
    for group_id, of_group in offsets.items():
        found = [
            (offset, described.get(partition)) for partition, offset in of_group if offset >= 0
        ]
        left = [
            unread(offset, one.last_stable_offset, one.high_watermark)
            for offset, one in found
            if isinstance(one, PartitionDescription)
        ]
        if left and len(left) == len(found):
            levels[group_id] = (
                float(sum(one.readable for one in left)),
                float(sum(one.held_back for one in left)),
            )
    return levels
