"""One run of the demo: it starts everything, kills the Spark driver, oncelog with the producer, and the driver again,
then proves the result.

One thread runs the producer. The main one watches the checkpoint, decides when to kill, and shows what happens. Each
kill hits while a micro-batch runs. oncelog is killed while the producer is in the middle of a transaction as well. The
producer dies with oncelog and is started anew. The dead instance then tries to commit what it had open, and must be
refused.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oncelog.errors import OncelogError
from oncelog_server.demo.checkpoint import PipelineProgress, read_progress
from oncelog_server.demo.given_log import GivenLog
from oncelog_server.demo.pipeline import PipelineSettings
from oncelog_server.demo.processes import OncelogServer
from oncelog_server.demo.producer import DemoProducer
from oncelog_server.demo.proof import Check
from oncelog_server.demo.reader import CommittedReader
from oncelog_server.demo.scenario import Scenario, offsets_per_trigger, transaction_rows
from oncelog_server.demo.screen import Screen
from oncelog_server.demo.spark_driver import SparkDriver
from oncelog_server.demo.topics import make_topics

TICK_S = 0.05
IDLE_CHECK_EVERY_S = 0.5
INTO_THE_BATCH_S = 0.3
STALL_TIMEOUT_S = 150.0
DECIDED_TIMEOUT_S = 30.0


class DemoFailed(OncelogError):
    """The run could not be finished, so there is nothing to prove."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A planned kill: it is due once Spark has processed the part `share` (0 to 1) of the rows."""

    name: str
    share: float


FAULTS = (Fault("spark", 0.15), Fault("oncelog", 0.35), Fault("spark", 0.70))


class Gate:
    """Stops the producer in the middle of one transaction, and keeps it there until oncelog has been killed."""

    def __init__(self, first_row: int) -> None:
        self._first_row = first_row
        self.is_holding = threading.Event()
        self.is_open = threading.Event()

    def halfway(self, first_row: int) -> bool:
        """Called by the producer in the middle of the transaction that begins at `first_row`. From the gate's row on it
        waits until the gate is open, and returns True: the producer is to crash. Before that row, and once the gate is
        open, it returns False.
        """
        if first_row < self._first_row or self.is_open.is_set():
            return False
        self.is_holding.set()
        self.is_open.wait()
        self.is_holding.clear()
        return True


class DemoRun:
    """One run of the demo, with its files in `folder`."""

    def __init__(
        self, scenario: Scenario, folder: Path, server: OncelogServer | GivenLog, screen: Screen
    ) -> None:
        self._scenario = scenario
        self._folder = folder
        self._server = server
        self._screen = screen
        self._checkpoint = folder / "checkpoint"
        self._faults = list(FAULTS)
        self._gate = Gate(scenario.row_count // 2)
        self._producer_error: Exception | None = None
        self._idle_checked_at = 0.0
        self._was_idle = False

    def run(self) -> list[Check]:
        """Run to the end and return the checks of the proof. Raises OncelogError when the run cannot be finished."""
        bootstrap = self._server.bootstrap
        self._create_topics()
        self._producer = DemoProducer(
            bootstrap, self._scenario, "demo-producer", transaction_rows(self._scenario.row_count)
        )
        self._spark = SparkDriver(self._pipeline_settings(bootstrap), self._folder)
        thread = threading.Thread(target=self._produce, name="demo producer", daemon=True)
        try:
            self._spark.start()
            self._screen.phase("Spark starts", "15 to 60 s; the producer does not wait for it")
            thread.start()
            self._supervise(thread)
            self._screen.event("everything is sent and processed; Spark may stop")
            self._spark.begin_to_stop()
            return self._prove()
        finally:
            self._producer.stopped.set()
            self._gate.is_open.set()
            self._spark.kill()

    def _create_topics(self) -> None:
        for name, error in make_topics(self._server.bootstrap, self._scenario).items():
            if error is not None:
                raise DemoFailed(
                    f"cannot create topic {name}: {error}; the demo makes its topics, so delete what is there: "
                    f"oncelog topics delete {name}"
                ) from error

    def _pipeline_settings(self, bootstrap: str) -> PipelineSettings:
        scratch = self._folder / "spark-scratch"
        scratch.mkdir()
        return PipelineSettings(
            bootstrap=str(bootstrap),
            client_config=self._server.client_config,
            input_topic=self._scenario.input_topic,
            checkpoint=str(self._checkpoint),
            transactional_id=self._server.sink_name,
            offsets_per_trigger=offsets_per_trigger(self._scenario.row_count),
            numeric_columns=self._scenario.numeric_columns,
            scratch=str(scratch),
        )

    def _produce(self) -> None:
        try:
            self._producer.run(self._gate.halfway)
        except (
            Exception
        ) as error:  # The thread's edge: whatever it was ends the run, in _supervise.
            self._producer_error = error

    def _supervise(self, producer_thread: threading.Thread) -> None:
        signature: tuple[object, ...] = ()
        changed_at = time.monotonic()
        while True:
            if self._producer_error is not None:
                raise DemoFailed(f"the producer failed: {self._producer_error}")
            if self._spark.restart_if_dead():
                self._screen.phase("Spark starts again", "from its checkpoint; it ended by itself")
            progress = self._progress()
            self._screen.progress(self._producer.rows_committed, progress.offsets_done)
            is_producing = producer_thread.is_alive()
            if self._faults:
                self._inject_when_due(progress, is_producing=is_producing)
            elif not is_producing and self._is_idle(progress):
                return
            seen = (self._producer.rows_committed, progress, len(self._faults))
            if seen != signature:
                signature, changed_at = seen, time.monotonic()
            elif time.monotonic() - changed_at > STALL_TIMEOUT_S:
                raise DemoFailed(
                    f"nothing has moved for {STALL_TIMEOUT_S:.0f} s: {seen}; see the logs in {self._folder}"
                )
            time.sleep(TICK_S)

    def _progress(self) -> PipelineProgress:
        return read_progress(self._checkpoint, self._scenario.input_topic)

    def _is_idle(self, progress: PipelineProgress) -> bool:
        """True if Spark has processed everything that can be read now. oncelog is asked for that at most every half
        second.
        """
        if time.monotonic() - self._idle_checked_at >= IDLE_CHECK_EVERY_S:
            with CommittedReader(self._server.bootstrap) as reader:
                ends = reader.stable_ends(self._scenario.input_topic)
            self._was_idle = any(ends.values()) and progress.has_reached(ends)
            self._idle_checked_at = time.monotonic()
        return self._was_idle and progress == self._progress()

    def _inject_when_due(self, progress: PipelineProgress, *, is_producing: bool) -> None:
        fault = self._faults[0]
        is_due = progress.offsets_done >= fault.share * self._scenario.row_count
        if fault.name == "oncelog":
            is_due = is_due and self._gate.is_holding.is_set()
        if progress.batch_under_way is None or not is_due:
            # Once everything is read and nothing more will come by itself, no better moment will either.
            is_more_to_come = is_producing and not self._gate.is_holding.is_set()
            if is_more_to_come or not self._is_idle(progress):
                return
        else:
            time.sleep(INTO_THE_BATCH_S)
        self._faults.pop(0)
        batch = self._progress().batch_under_way
        where = "between micro-batches" if batch is None else f"in micro-batch {batch}"
        inject: Callable[[str], None] = (
            self._kill_oncelog if fault.name == "oncelog" else self._kill_spark
        )
        inject(where)
        self._idle_checked_at = time.monotonic()
        self._was_idle = False

    def _kill_spark(self, where: str) -> None:
        self._spark.kill()
        self._screen.event(f"[bold red]SIGKILL[/bold red] Spark driver and workers, {where}")
        self._spark.start()
        self._screen.phase("Spark starts again", "from its checkpoint")

    def _kill_oncelog(self, where: str) -> None:
        if isinstance(self._server, GivenLog):
            self._screen.event(f"the producer dies in its open transaction, {where}")
            self._gate.is_open.set()
            return
        self._server.kill()
        self._screen.event(
            f"[bold red]SIGKILL[/bold red] oncelog, {where}, and the producer in its open transaction"
        )
        started_at = time.monotonic()
        self._server.start()
        self._screen.event(f"oncelog is back after {time.monotonic() - started_at:.2f} s")
        self._gate.is_open.set()

    def _prove(self) -> list[Check]:
        topics = (self._scenario.input_topic, *self._scenario.output_topics)
        proof = self._scenario.proof()
        with CommittedReader(self._server.bootstrap) as reader:
            undecided = reader.wait_until_decided(topics, DECIDED_TIMEOUT_S)
            self._screen.phase("the reader reads", "independent of Spark, all topics")
            for topic in topics:
                for record in reader.read(topic):
                    proof.add(topic, record.key, record.value)
        is_fenced = self._producer.is_zombie_fenced
        return [
            *proof.checks(),
            Check(
                "offsets in open transactions",
                "0",
                str(sum(undecided.values())),
                not any(undecided.values()),
            ),
            Check(
                "dead producer's commit after its successor",
                "refused",
                "refused" if is_fenced else "not tried" if is_fenced is None else "ACCEPTED",
                is_fenced is True,
            ),
        ]
