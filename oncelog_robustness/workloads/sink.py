"""The workload `sink`: writers of micro-batches to a Spark sink, without Spark. It shows that each batch is in the
topic once and whole, by one attempt and one try of each task, or not at all.

An attempt is one try to write a micro-batch. Several drivers of one query open attempts, write, seal, commit and
abort. They die in the middle, repeat batches that were committed, and leave tasks behind that go on as zombies.
They are slower than their attempt may be. Now and then a driver begins with a new checkpoint, as another query that
takes the sink over.

All of it is the sink's own code, `oncelog.spark.attempt` and the blocking client; only rows of Arrow are left out.
The private calls are oncelog's, so this runs against no other broker.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from pydantic import Field

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity, Row
from oncelog.client.produce_pipeline import ProducePipeline
from oncelog.errors import OncelogError
from oncelog.ids import Partition, ProducerEpoch, ProducerId
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_CALLS
from oncelog.spark.attempt import (
    NONCE_BYTES,
    AttemptName,
    BranchOutcome,
    FencedError,
    JoinedBranch,
    TaskIdentity,
    abort_attempts,
    commit_batch,
    join_attempt,
    open_attempt,
    seal_branch,
)
from oncelog_robustness.clients.blocking import blocking
from oncelog_robustness.clients.login import chosen_login
from oncelog_robustness.history import Outcome, WorkloadFact
from oncelog_robustness.workload_facts import SparkBatchEnded, SparkTask, note
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import live_on
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Sends,
    Share,
    Timeout,
    Watched,
)
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)

SURE_WITHIN_MS: Final = 1_000
"""The longest time, in milliseconds, in which the answer that another attempt committed the batch is surely right.
The coordinator knows who decided the last twenty batches, and a later answer may come after twenty more."""

HASTY_MS_MAX: Final = 3_000
"""The longest of the short attempt timeouts, in milliseconds, which may pass while the attempt is still being
written. Shorter ones are drawn so that each power of ten is as likely as any other."""


class SinkParameters(Watched):
    partitions: Partitions = 3
    drivers: ClientCount = 2
    """The number of drivers of the one query, each of which works as if it were the only one."""
    tasks: int = Field(default=3, ge=1, le=32)
    rows_max: Sends = 5
    """The most rows in a task."""
    second_try_share: Share = 0.2
    """The share of the tasks that run twice at once, as a speculative task does."""
    zombie_share: Share = 0.15
    """The share of the tasks of which one more try is started and left behind. It goes on when its attempt may be
    over."""
    zombie_pause_ms: Pause = 2_000
    give_up_share: Share = 0.1
    """The share of the attempts (tries to write a micro-batch) that are aborted when all their tasks are sealed."""
    repeat_share: Share = 0.2
    """The share of the batches that are written again though they are committed already. It is also the share of
    the commits that are requested twice."""
    think_ms: Pause = 600
    attempt_timeout_ms: Timeout = 10_000
    hasty_share: Share = 0.25
    """The share of the attempts with a timeout so short that it may pass at any of their steps."""
    new_query_share: Share = 0.06
    """The share of the batches that are the first of a new query, which takes the sink over."""


class _Turn(NamedTuple):
    """The micro-batch that a driver writes next: one of the query that owns the sink, or the first one of a new
    query, which takes the sink over."""

    query: str
    batch: int
    adopts: bool


class Sink:
    def __init__(self, name: str, parameters: SinkParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions = partitions_of(name, parameters.partitions)

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = watchers(lab, self.name, self.partitions, given)
        for number in range(given.drivers):
            work = partial(self._drive, lab, lab.clients[number % len(lab.clients)].bootstrap)
            name = f"{self.name}-driver-{number}"
            works.append(live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms))
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        limit_ms = self.parameters.attempt_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, limit_ms)

    async def _drive(self, lab: Lab, bootstrap: Sequence[str], process: ClientProcess) -> None:
        driver = _Driver(lab, process, self.name, self.parameters, bootstrap)
        while not lab.is_over:
            try:
                await driver.run_batch()
            except OncelogError:
                # The query fails, and is started again.
                driver.run += 1
            await lab.sleep(lab.random.randint(0, self.parameters.think_ms))
        await driver.bury_zombies()


@dataclass(frozen=True, slots=True)
class _Try:
    """A finished try of one task of a micro-batch: the name of the try, and the outcome that the task reported to
    its driver."""

    branch: str
    outcome: BranchOutcome


class _Driver:
    """One start of a driver: the part of a Spark query that opens an attempt (one try to write it) for each
    micro-batch, runs the tasks and commits."""

    def __init__(
        self,
        lab: Lab,
        process: ClientProcess,
        sink: str,
        given: SinkParameters,
        bootstrap: Sequence[str],
    ) -> None:
        self._lab = lab
        self._process = process
        self._sink = sink
        self._given = given
        self._bootstrap = parse_addresses(",".join(bootstrap))
        self._settings = ClientSettings(
            login=chosen_login(),
            client_id=process.name,
            request_timeout_ms=5_000,
            call_timeout_ms=15_000,
        )
        self._zombies: list[asyncio.Task[_Try | None]] = []
        self._tries = 0
        self._queries = 0
        self.run = 0
        """The number of the query's run: Spark gives each start another run id."""

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, self._settings)

    async def run_batch(self) -> None:
        """Write one micro-batch: open an attempt (one try to write it), run its tasks, commit or abort it, and
        record how it ended. Raises OncelogError where Spark would fail the query."""
        with self._cluster() as cluster:
            attempt = AttemptName(self._sink, self._lab.random.randbytes(NONCE_BYTES))
            # The attempt is opened first, because the sink exists only from its first attempt on.
            await blocking(open_attempt, cluster, attempt, self._timeout_ms())
            turn = await self._turn(cluster)
            began_ms = self._lab.now_ms()
            failed = self._ended(attempt, turn, Outcome.FAIL, (), began_ms)
            # Only its driver can commit an attempt.
            self._process.last_word(attempt.nonce.hex(), failed)
            outcome = Outcome.FAIL
            winners: Sequence[tuple[int, _Try]] = ()
            try:
                winners = await self._run_tasks(attempt, turn)
                outcome = await self._decide(cluster, attempt, turn, winners)
            finally:
                ended = self._ended(attempt, turn, outcome, winners, began_ms)
                self._process.settle(attempt.nonce.hex(), ended)

    def _timeout_ms(self) -> int:
        draw, given = self._lab.random, self._given
        longest_ms = given.attempt_timeout_ms
        if draw.random() < given.hasty_share:
            power: float = min(longest_ms, HASTY_MS_MAX) ** draw.random()
            return max(1, round(power))
        return longest_ms

    async def _turn(self, cluster: Cluster) -> _Turn:
        draw, given = self._lab.random, self._given
        described = await blocking(_describe, cluster, self._sink)
        if draw.random() < given.new_query_share:
            self._queries += 1
            return _Turn(f"{self._process.name}-{self._queries}", 0, adopts=True)
        batch = described.last_committed_batch_id + 1
        if batch > 0 and draw.random() < given.repeat_share:
            batch -= 1
        return _Turn(described.query_id or self._sink, batch, adopts=False)

    async def _run_tasks(self, attempt: AttemptName, turn: _Turn) -> Sequence[tuple[int, _Try]]:
        """Run all tasks of the attempt to write a micro-batch, some of them twice at once. Return the number of each
        task with one successful try of it, which the commit will name as its winner. Raises OncelogError when a task
        has none."""
        draw, given = self._lab.random, self._given
        running: list[tuple[int, asyncio.Task[_Try | None]]] = []
        for task in range(given.tasks):
            count = 2 if draw.random() < given.second_try_share else 1
            running += [(task, self._start_try(attempt, turn, task, 0)) for _ in range(count)]
            if draw.random() < given.zombie_share:
                pause_ms = given.zombie_pause_ms
                self._zombies.append(self._start_try(attempt, turn, task, pause_ms))
        done = await asyncio.gather(*[one for _, one in running])
        sealed: dict[int, list[_Try]] = {task: [] for task in range(given.tasks)}
        for (task, _), found in zip(running, done, strict=True):
            if found is not None:
                sealed[task].append(found)
        if not all(sealed.values()):
            with self._cluster() as cluster:
                await blocking(abort_attempts, cluster, self._sink, [attempt.nonce])
            raise OncelogError("a task failed")
        return [(task, draw.choice(tries)) for task, tries in sealed.items()]

    async def _decide(
        self,
        cluster: Cluster,
        attempt: AttemptName,
        turn: _Turn,
        winners: Sequence[tuple[int, _Try]],
    ) -> Outcome:
        draw, given = self._lab.random, self._given
        if draw.random() < given.give_up_share:
            await blocking(abort_attempts, cluster, self._sink, [attempt.nonce])
            return Outcome.FAIL
        outcomes = [one.outcome for _, one in winners]
        requested_ms = self._lab.now_ms()
        unknown = self._ended(attempt, turn, Outcome.INFO, winners, requested_ms)
        self._process.last_word(attempt.nonce.hex(), unknown)
        try:
            await blocking(commit_batch, cluster, self._sink, turn.batch, outcomes)
        except FencedError as error:
            is_late = self._lab.now_ms() - requested_ms > SURE_WITHIN_MS
            is_other = str(error).startswith("ALREADY_OTHER")
            return Outcome.INFO if is_late and is_other else Outcome.FAIL
        except OncelogError:
            return Outcome.INFO
        if all(one.skipped for one in outcomes):
            # The batch was committed before; this attempt has written nothing.
            await blocking(abort_attempts, cluster, self._sink, [attempt.nonce])
            return Outcome.FAIL
        if draw.random() < given.repeat_share:
            # Spark commits again after a crash; whatever answer it receives then, the batch is committed.
            with suppress(OncelogError):
                await blocking(commit_batch, cluster, self._sink, turn.batch, outcomes)
        return Outcome.OK

    def _ended(
        self,
        attempt: AttemptName,
        turn: _Turn,
        outcome: Outcome,
        winners: Sequence[tuple[int, _Try]],
        began_ms: int,
    ) -> WorkloadFact:
        fact = SparkBatchEnded(
            sink=self._sink,
            query=turn.query,
            batch=turn.batch,
            attempt=attempt.nonce.hex(),
            outcome=outcome.value,
            winners=tuple((task, one.branch) for task, one in winners if not one.outcome.skipped),
        )
        return note(
            fact,
            client=self._process.name,
            invoked_ms=began_ms,
            completed_ms=self._lab.now_ms(),
        )

    # ------------------------------------------------------------------------------------------------- tasks

    def _start_try(
        self, attempt: AttemptName, turn: _Turn, task: int, pause_ms: int
    ) -> "asyncio.Task[_Try | None]":
        self._tries += 1
        identity = TaskIdentity(
            query_id=turn.query,
            run_id=f"{self._process.name}-{self.run}",
            batch_id=turn.batch,
            task_partition=task,
            task_attempt_id=self._tries,
        )
        return asyncio.get_running_loop().create_task(
            self._try(attempt, identity, pause_ms, turn.adopts)
        )

    async def _try(
        self, attempt: AttemptName, identity: TaskIdentity, pause_ms: int, adopts: bool
    ) -> _Try | None:
        """Run one try of a task of the micro-batch: join the attempt to write it, write rows, and seal them, which
        tells the coordinator that they are complete. Return None when it failed. `pause_ms` is the longest pause before
        writing and before sealing. `adopts` is true if the query may take the sink over."""
        name = str(identity.task_attempt_id)
        draw = self._lab.random
        try:
            with self._cluster() as cluster:
                branch = await blocking(join_attempt, cluster, attempt, identity, adopts)
                if branch is None:
                    skipped = BranchOutcome(
                        attempt, identity.query_id, identity.task_partition, skipped=True
                    )
                    return _Try(name, skipped)
                await self._lab.sleep(draw.randint(0, pause_ms))
                rows = draw.randint(1, self._given.rows_max)
                pipeline = ProducePipeline(cluster, branch.transactional_id)
                try:
                    await self._write(pipeline, attempt, identity, branch, rows)
                finally:
                    pipeline.close()
                await self._lab.sleep(draw.randint(0, pause_ms))
                await blocking(
                    seal_branch,
                    cluster,
                    attempt,
                    branch,
                    pipeline.last_sequences,
                    rows,
                    pipeline.crc32c,
                )
        except OncelogError:
            return None
        return _Try(
            name,
            BranchOutcome(
                attempt,
                identity.query_id,
                identity.task_partition,
                branch.producer_id,
                branch.producer_epoch,
                rows,
            ),
        )

    async def _write(
        self,
        pipeline: ProducePipeline,
        attempt: AttemptName,
        identity: TaskIdentity,
        branch: JoinedBranch,
        rows: int,
    ) -> None:
        """Record in the history which values this try is about to write, then write them to the log."""
        partitions = self._given.partitions
        prefix = f"{self._process.name}/{identity.batch_id}/{identity.task_attempt_id}"
        values = tuple(
            (self._sink, self._lab.random.randrange(partitions), f"{prefix}/{row}")
            for row in range(rows)
        )
        fact = SparkTask(
            sink=self._sink,
            query=identity.query_id,
            batch=identity.batch_id,
            attempt=attempt.nonce.hex(),
            task=identity.task_partition,
            branch=str(identity.task_attempt_id),
            values=values,
        )
        now_ms = self._lab.now_ms()
        self._lab.record(
            note(fact, client=self._process.name, invoked_ms=now_ms, completed_ms=now_ms)
        )
        accumulator = BatchAccumulator(
            ProducerIdentity(ProducerId(branch.producer_id), ProducerEpoch(branch.producer_epoch))
        )
        stamp_ms = int(time.time() * 1000)
        closed = []
        for topic, number, value in values:
            row: Row = (stamp_ms, None, value.encode(), [])
            closed += accumulator.add(Partition(topic, number), [row])
        for batch in (*closed, *accumulator.close_all()):
            await blocking(pipeline.send, batch)
        await blocking(pipeline.flush)

    async def bury_zombies(self) -> None:
        await asyncio.gather(*self._zombies)


def _describe(cluster: Cluster, sink: str) -> Any:
    """Return the DescribeSinkResponse of the sink: which query owns it, and its last committed batch."""
    request = PRIVATE_CALLS[KEY_OF_METHOD["DescribeSink"]].request(sink=sink)
    return cluster.private_call("DescribeSink", request)
