"""The lakehouse example as a process that is killed at drawn moments, its topics, and its table."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from deltalake import DeltaTable
from tests.incidents.scenes import new_topic
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.topic_tools import ROOT

from oncelog.client.blocking import Producer
from oncelog.client.cluster import Cluster
from oncelog.client.partition_reader import ReadPlan, read_partition
from oncelog.ids import Partition

EXAMPLE = ROOT / "examples" / "lakehouse" / "lakehouse.py"
START_S = 240
"""A JVM, a session and a first query, on a busy machine."""
ROWS_OF_A_BATCH = 40
MOMENTS = ("planned", "in the table", "ended", "published")
"""A kill comes just behind one of these for some batch, or some milliseconds later."""


class Lakehouse:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        self.folder.mkdir()
        self.server = OncelogProcess(folder)
        self._log = folder / "driver.log"
        self._drivers: list[subprocess.Popen] = []
        self.source = EXAMPLE.read_text().replace('"100000"', f'"{ROWS_OF_A_BATCH}"')
        self.sent = 0

    def start(self) -> None:
        self.server.start()
        self.bootstrap = str(self.server.address)
        new_topic(self.bootstrap, "orders", 2)
        new_topic(self.bootstrap, "ledger", 2)

    def close(self) -> None:
        for driver in self._drivers:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        self.server.stop()

    def send(self, count: int) -> None:
        with Producer(self.bootstrap) as producer:
            for _ in range(count):
                order = {"id": self.sent, "account": f"a{self.sent % 7}", "amount": self.sent * 3}
                producer.send("orders", json.dumps(order), partition=self.sent % 2)
                self.sent += 1
            producer.flush()

    def start_driver(self) -> subprocess.Popen:
        program = self.folder / "lakehouse.py"
        program.write_text(self.source)
        options = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
        command = [sys.executable, str(program), self.bootstrap, str(self.folder)]
        with self._log.open("ab") as log:
            driver = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYSPARK_SUBMIT_ARGS": options},
                start_new_session=True,
            )
        self._drivers.append(driver)
        return driver

    def count(self, moment: str) -> int:
        """How many batches have come so far."""
        match moment:
            case "planned":
                return len(list(self.folder.glob("checkpoint/offsets/[0-9]*")))
            case "ended":
                return len(list(self.folder.glob("checkpoint/commits/[0-9]*")))
            case "in the table":
                # The first version has no rows.
                return max(0, len(list(self.folder.glob("orders/_delta_log/*.json"))) - 1)
            case _:
                position = self.folder / "published"
                return int(position.read_text()) if position.exists() else 0

    def kill_at(self, moment: str, more: int, delay_s: float) -> bool:
        """Kill the driver when there are so many more files of that moment. False: it ended before."""
        wanted = self.count(moment) + more
        driver = self.start_driver()
        deadline = time.monotonic() + START_S
        while self.count(moment) < wanted and driver.poll() is None:
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.001)
        if driver.poll() is not None:
            assert driver.returncode == 0, self._log.read_text()[-3000:]
            return False
        time.sleep(delay_s)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        return True

    def finish(self) -> None:
        """Undisturbed, to the end of what is there."""
        driver = self.start_driver()
        assert driver.wait(START_S) == 0, self._log.read_text()[-3000:]

    def has_batch_to_repeat(self) -> bool:
        """The table has a batch whose end the checkpoint does not have: what a crash between the two leaves."""
        return self.count("in the table") > self.count("ended")

    def in_topic(self) -> list[int]:
        with Cluster([self.server.address]) as cluster:
            partitions = [Partition("ledger", number) for number in range(2)]
            ends = cluster.list_offsets(dict.fromkeys(partitions, -1))
            found = []
            for partition, end in ends.items():
                for columns in read_partition(cluster, ReadPlan(partition, 0, end), print):
                    found += [json.loads(value)["id"] for value in columns.values.to_pylist()]
        return sorted(found)

    def wait_decided(self) -> None:
        """Markers come a moment behind the decision."""
        deadline = time.monotonic() + 30
        while len(self.in_topic()) < self.sent:
            assert time.monotonic() < deadline, (
                f"{len(self.in_topic())} of {self.sent} in the topic"
            )
            time.sleep(0.1)

    def in_table(self) -> list[int]:
        """The ids in the table's newest version."""
        return sorted(DeltaTable(str(self.folder / "orders")).to_pyarrow_table()["id"].to_pylist())


class Killer:
    """Draws the moments of one seed."""

    def __init__(self, lake: Lakehouse, seed: int) -> None:
        self._lake = lake
        self._draw = random.Random(seed)
        self.told: list[tuple[str, int, bool]] = []
        self.repeated = 0

    def kill(self) -> None:
        lake, draw = self._lake, self._draw
        lake.send(draw.randrange(2, 5) * ROWS_OF_A_BATCH)
        moment = draw.choice(MOMENTS)
        more = draw.randrange(1, 3)
        hit = lake.kill_at(moment, more, draw.choice([0, 0, draw.random() / 3]))
        self.told.append((moment, more, hit))
        self.repeated += lake.has_batch_to_repeat()
