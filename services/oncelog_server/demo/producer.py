"""The demo's producer. It sends every row exactly once, though oncelog is killed meanwhile, and the producer itself
too.

It stores nothing. After any doubt a new instance begins with the same transactional.id: `init_transactions` fences the
old instance and ends whatever it left open. From then on every earlier transaction is decided. Rows are sent in order,
one transaction after another. So the largest committed row number says where to go on. It is read from the end of each
partition at read_committed. The outcome of a commit without an answer is not guessed but looked up.
"""

import threading
import time
from collections.abc import Callable

from oncelog.client.blocking import Producer
from oncelog.client.errors import AbortableError, ClientError, TimedOutError
from oncelog.errors import OncelogError
from oncelog_server.cli.client_config import login_properties
from oncelog_server.demo.reader import CommittedReader, ReadFailed
from oncelog_server.demo.scenario import Scenario

TRANSACTION_TIMEOUT_MS = 120_000
CALL_TIMEOUT_MS = 20_000
DELIVERY_TIMEOUT_MS = 60_000
INSTANCES_MAX = 20
RETRY_PAUSE_S = 0.5


class ProducerGaveUp(OncelogError):
    """The producer was restarted too often, and has not sent all rows."""


class ProducerCrashed(Exception):
    """Raised within a producer's instance to make it crash, as if its process died: nothing is cleaned up."""


class DemoProducer:
    """Sends all rows of a scenario. `run` blocks; other threads may read the counters meanwhile."""

    def __init__(
        self, bootstrap: str, scenario: Scenario, transactional_id: str, transaction_rows: int
    ) -> None:
        self._bootstrap = bootstrap
        self._scenario = scenario
        self._transactional_id = transactional_id
        self._transaction_rows = transaction_rows
        self.instances = 0
        self.rows_committed = 0
        self.is_zombie_fenced: bool | None = None
        self.stopped = threading.Event()

    def run(self, on_halfway: Callable[[int], bool]) -> None:
        """Send every row. `on_halfway(first row)` is called in the middle of each transaction. When it returns True,
        the instance crashes there, and a new one goes on.

        Raises ProducerGaveUp when INSTANCES_MAX instances were not enough.
        """
        zombie: Producer | None = None
        last_error: Exception | None = None
        while self.instances < INSTANCES_MAX and not self.stopped.is_set():
            self.instances += 1
            producer = self._new_producer()
            try:
                producer.start()
                row = self._next_row()
                if zombie is not None:
                    self.is_zombie_fenced = _is_fenced(zombie)
                    zombie.close(0)
                    zombie = None
                self._send_from(producer, row, on_halfway)
                return
            except ProducerCrashed:
                zombie = producer
            except (ClientError, ReadFailed) as error:
                # Whatever it was, a new instance finds out what is committed and goes on from there.
                last_error = error
                self.stopped.wait(RETRY_PAUSE_S)
            finally:
                if producer is not zombie:
                    producer.close(0)
        if not self.stopped.is_set():
            raise ProducerGaveUp(f"the producer gave up after {self.instances} tries: {last_error}")

    def _new_producer(self) -> Producer:
        return Producer(
            str(self._bootstrap),
            login_properties(self._bootstrap),
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_block_ms=CALL_TIMEOUT_MS,
            compression_type="lz4",
            reconnect_backoff_max_ms=500,
        )

    def _next_row(self) -> int:
        with CommittedReader(self._bootstrap) as reader:
            numbers = [
                self._scenario.row_number(record.value)
                for record in reader.last_of_each_partition(self._scenario.input_topic)
            ]
        self.rows_committed = max(numbers, default=-1) + 1
        return self.rows_committed

    def _send_from(self, producer: Producer, row: int, on_halfway: Callable[[int], bool]) -> None:
        rows = self._scenario.rows_from(row)
        while row < self._scenario.row_count and not self.stopped.is_set():
            count = min(self._transaction_rows, self._scenario.row_count - row)
            batch = [next(rows) for _ in range(count)]
            self._send_transaction(producer, row, batch, on_halfway)
            row += count
            self.rows_committed = row

    def _send_transaction(
        self,
        producer: Producer,
        first_row: int,
        batch: list[tuple[bytes, bytes]],
        on_halfway: Callable[[int], bool],
    ) -> None:
        topic, half = self._scenario.input_topic, len(batch) // 2
        while True:
            try:
                producer.begin_transaction()
                producer.send_all(topic, batch[:half])
                if on_halfway(first_row):
                    raise ProducerCrashed
                producer.send_all(topic, batch[half:])
                _commit(producer)
                return
            except AbortableError:
                # The coordinator will not commit this one. The same rows go into the next.
                producer.abort_transaction()


def _commit(producer: Producer) -> None:
    """Commit the transaction. If the answer does not come in time, the commit is repeated until the delivery timeout
    has passed.
    """
    deadline = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000
    while True:
        try:
            producer.commit_transaction()
            return
        except TimedOutError:
            if time.monotonic() > deadline:
                raise


def _is_fenced(zombie: Producer) -> bool:
    """Let the old instance try to commit its open transaction. Returns True when that is refused, as it must be.

    Raises TimedOutError.
    """
    try:
        zombie.commit_transaction()
    except TimedOutError:
        raise  # Nobody has said anything.
    except ClientError:
        return True
    return False
