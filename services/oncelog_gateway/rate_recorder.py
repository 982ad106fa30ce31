"""Asks every process of the cluster for its counters at intervals, and keeps how much they grew in the gateway's memory
of a day (`core.rate_ring`).

It asks every five seconds while somebody looks at rates, each minute otherwise. It imports nothing of the web
framework: in `oncelog up` it begins with the process, long before the first client of the gateway.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1.process_pb2 import DescribeProcessRequest, DescribeProcessResponse
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.sessions import MethodMissing, PeerUnavailable
from oncelog.rpc.stubs import ProcessStub
from oncelog.runtime.clock import Clock
from oncelog_gateway.core.counter_growth import CounterGrowth, Counters, Grown, Told
from oncelog_gateway.core.rate_families import BUCKETS, GROUPS
from oncelog_gateway.core.rate_ring import RateRing

logger = logging.getLogger(__name__)

WATCHED_EVERY_MS: Final = 5_000
IDLE_EVERY_MS: Final = 60_000
WATCHED_FOR_MS: Final = 120_000
CALL_TIMEOUT_S: Final = 2.0
RECENT_MS: Final = 60_000
_LATE_FACTOR: Final = 2.5
"""A reading that comes later than this multiple of the interval leaves a gap."""
_GROUPS_SHARE: Final = 10
"""Groups are read again after this multiple of the time that reading them took, most of which is waiting."""
OLDER: Final = "says nothing (older version)"

GroupLevels = Mapping[str, tuple[float, float]]
"""By consumer group, how many offsets it can read and how many open transactions hold back from it."""
Answer = DescribeProcessResponse | str
"""The answer of a process, or the reason why there is none."""


class TopicRate(NamedTuple):
    """The numbers of records and bytes of one topic that are written and read each second."""

    records_in: float
    bytes_in: float
    records_out: float
    bytes_out: float


NO_RATE: Final = TopicRate(0.0, 0.0, 0.0, 0.0)
"""The rates of a topic for which nothing was counted."""


class RateRecorder:
    """Reads the counters of all processes in the background. `start` begins that; `touch` says that somebody looks at
    rates, so it reads more often for two minutes.
    """

    def __init__(self, metadata: MetadataFollower, directory: Directory, clock: Clock) -> None:
        self._metadata = metadata
        self._directory = directory
        self._clock = clock
        self.ring = RateRing(GROUPS)
        self.since_ms: int | None = None
        """Time of the first reading; None: there is none yet."""
        self.silent: Mapping[str, str] = {}
        """Processes that did not answer the last reading, and why."""
        self.versions: Mapping[int, str] = {}
        """The version of oncelog on each node, by node id."""
        self.read_groups: Callable[[], Awaitable[GroupLevels]] | None = None
        """Reads the levels of groups. It is set once the rest of the gateway is loaded."""
        self._growth = {name: CounterGrowth() for name in ("topic", "transactions", "cpu")}
        self._recent: deque[Grown] = deque()
        self._recent_until_ms = 0
        self._read_ms: int | None = None
        self._groups_read_ms: int | None = None
        self._groups_due_ms = 0
        self._interval_ms = WATCHED_EVERY_MS
        self._touched_ms: int | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="rates")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def touch(self) -> None:
        was_watched = self._is_watched()
        self._touched_ms = self._clock.now()
        if not was_watched:
            self._wake.set()

    def topic_rates(self) -> tuple[Mapping[str, TopicRate], int]:
        """Return the rates of the last minute by topic, and how many milliseconds they are taken over: 0 before the
        second reading.
        """
        if not self._recent:
            return {}, 0
        span_ms = self._recent_until_ms - self._recent[0].since_ms
        sums: dict[str, list[float]] = {}
        for one in self._recent:
            for topic, values in one.by.items():
                known = sums.setdefault(topic, [0.0] * len(values))
                for at, value in enumerate(values):
                    known[at] += value * 1000 / span_ms
        return {topic: TopicRate(*values) for topic, values in sums.items()}, span_ms

    # Reading.

    async def _run(self) -> None:
        while True:
            try:
                await self.read()
            except Exception:  # A bug here must end nothing else.
                logger.exception("rates were not read")
            self._interval_ms = WATCHED_EVERY_MS if self._is_watched() else IDLE_EVERY_MS
            if self.since_ms is None or self._read_ms == self.since_ms:
                # Two readings make the first rate.
                self._interval_ms = WATCHED_EVERY_MS
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_ms / 1000):
                    await self._wake.wait()

    def _is_watched(self) -> bool:
        touched_ms = self._touched_ms
        return touched_ms is not None and self._clock.now() - touched_ms < WATCHED_FOR_MS

    async def read(self) -> None:
        """Ask all processes of the cluster once for their counters, and add the growth since the last answers to the
        rings of recent values.
        """
        answers = await self._asked()
        now = self._clock.now()
        before, longest_ms = self._read_ms, round(self._interval_ms * _LATE_FACTOR)
        self._read_ms = now
        if self.since_ms is None:
            self.since_ms = now
        self.silent = {name: one for name, one in answers.items() if isinstance(one, str)}
        told = {name: one for name, one in answers.items() if not isinstance(one, str)}
        self.versions = {one.node_id: one.version for one in told.values()}
        is_known = before is not None and 0 < now - before <= longest_ms
        if before is not None and is_known:
            self.ring.cover(before, now)
        self._take_growth(now, told, longest_ms)
        if before is None or not is_known:
            return
        self._take_levels(before, now, told)
        await self._take_groups(now)

    def _take_growth(
        self, now: int, told: Mapping[str, DescribeProcessResponse], longest_ms: int
    ) -> None:
        topics = self._growth["topic"].taken(
            now, _topics(told), self._expected(told, "storage"), longest_ms
        )
        self._remember(now, topics)
        if topics is not None:
            self.ring.add_reading("topic", topics.since_ms, now, topics.by)
        ended = self._growth["transactions"].taken(
            now, _transactions(told), self._expected(told, "coordinator"), longest_ms
        )
        if ended is not None:
            self.ring.add_reading(
                "ended", ended.since_ms, now, {key: one[:1] for key, one in ended.by.items()}
            )
            if "commit" in ended.by:
                buckets = zip(BUCKETS, ended.by["commit"][1:], strict=True)
                self.ring.add_reading(
                    "buckets", ended.since_ms, now, {name: (count,) for name, count in buckets}
                )
        cpu = {name: Told(one.started_ms, {name: (one.cpu_seconds,)}) for name, one in told.items()}
        used = self._growth["cpu"].taken(now, cpu, cpu.keys(), longest_ms)
        if used is not None:
            self.ring.add_reading("cpu", used.since_ms, now, used.by)

    def _expected(self, told: Iterable[str], role: str) -> set[str]:
        """Return the names of the processes whose answers are needed before this role's counters can be added up.
        `told` are the processes that answered. Silent ones of an older version, which cannot answer, are left out.
        """
        silent = [name for name, why in self.silent.items() if why != OLDER]
        return {name for name in (*told, *silent) if name.startswith((f"{role} ", "node "))}

    def _take_levels(
        self, before: int, now: int, told: Mapping[str, DescribeProcessResponse]
    ) -> None:
        memory = {name: (one.resident_bytes,) for name, one in told.items() if one.resident_bytes}
        self.ring.add_reading("memory", before, now, memory)
        if self._expected(told, "storage") <= told.keys():
            held = {
                f"{one.topic}-{one.partition}": (one.lso_lag,)
                for answer in told.values()
                for one in answer.held
            }
            self.ring.add_reading("held", before, now, held)
        queued = [one.queued_markers for one in told.values() if one.HasField("queued_markers")]
        if queued and self._expected(told, "marker sender") <= told.keys():
            self.ring.add_reading("markers", before, now, {"markers": (sum(queued),)})

    async def _take_groups(self, now: int) -> None:
        """Record the lags of consumer groups if that is due. They are read less often than the rest, because it takes
        the offsets of all groups and the ends of their partitions.
        """
        if self.read_groups is None:
            return
        before = self._groups_read_ms
        if before is not None and now < self._groups_due_ms:
            return
        levels = await self.read_groups()
        taken_ms = self._clock.now() - now
        self._groups_read_ms = now
        # Half a pause early: the next reading comes a little sooner or later than asked.
        pause_ms = max(min(taken_ms * _GROUPS_SHARE, IDLE_EVERY_MS), self._interval_ms)
        self._groups_due_ms = now + pause_ms - WATCHED_EVERY_MS // 2
        is_known = before is not None and now - before <= IDLE_EVERY_MS * _LATE_FACTOR
        since = before if before is not None and is_known else now - WATCHED_EVERY_MS
        self.ring.add_reading("group", since, now, levels)

    def _remember(self, now: int, topics: Grown | None) -> None:
        if topics is None:
            return
        if self._recent_until_ms != topics.since_ms:
            self._recent.clear()
        written = {topic: values for topic, values in topics.by.items() if any(values)}
        self._recent.append(Grown(topics.since_ms, written))
        self._recent_until_ms = now
        while len(self._recent) > 1 and self._recent[1].since_ms <= now - RECENT_MS:
            self._recent.popleft()

    async def _asked(self) -> dict[str, Answer]:
        """Return what each process answered, or why it did not, by the name of the process."""
        asked: dict[str, ProcessStub | None] = {}
        for node_id, node in sorted(self._metadata.image.nodes.items()):
            name = process_name(node_id, node.roles)
            if node.fenced:
                continue
            try:
                asked[name] = self._directory.process(node_id)
            except KeyError:
                asked[name] = None
        controllers = self._directory.controller_processes()
        answers = await asyncio.gather(
            *map(_ask, [*asked.values(), *controllers.values()]),
        )
        found = dict(zip([*asked, *controllers], answers, strict=True))
        for address in controllers:
            answer = found.pop(address)
            which = address if isinstance(answer, str) else str(answer.node_id)
            found[f"controller {which}"] = answer
        return found


def process_name(node_id: int, roles: Sequence[int]) -> str:
    """Return the name of a process for people: `storage 3`, or `node 1` for one with every role."""
    if len(roles) != 1:
        return f"node {node_id}"
    word = controller_pb2.Role.Name(controller_pb2.Role.ValueType(roles[0]))
    return f"{word.removeprefix('ROLE_').lower().replace('_', ' ')} {node_id}"


async def _ask(stub: ProcessStub | None) -> Answer:
    if stub is None:
        return "has no known address yet"
    try:
        return await stub.DescribeProcess(DescribeProcessRequest(), timeout=CALL_TIMEOUT_S)
    except MethodMissing:
        return OLDER
    except TimeoutError:
        return f"did not answer within {CALL_TIMEOUT_S:.0f} s"
    except PeerUnavailable:
        return "cannot be reached"


def _topics(told: Mapping[str, DescribeProcessResponse]) -> dict[str, Told]:
    return {
        name: Told(
            answer.started_ms,
            {
                one.topic: (
                    one.produced_records,
                    one.produced_bytes,
                    one.consumed_records,
                    one.consumed_bytes,
                )
                for one in answer.topics
            },
        )
        for name, answer in told.items()
    }


def _transactions(told: Mapping[str, DescribeProcessResponse]) -> dict[str, Told]:
    """Return each process's counters of ended transactions, by outcome. A process of a version with other latency
    buckets counts for the number of transactions, and not for the latency.
    """

    def counters(answer: DescribeProcessResponse) -> Counters:
        return {
            one.outcome: (
                one.ended,
                *(
                    one.marker_buckets
                    if len(one.marker_buckets) == len(BUCKETS)
                    else [0] * len(BUCKETS)
                ),
            )
            for one in answer.transactions
        }

    return {name: Told(answer.started_ms, counters(answer)) for name, answer in told.items()}
