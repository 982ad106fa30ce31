"""What a test of the connector does with topics: fill one, copy it with a query, see what a consumer would see."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.listener.requests_by_vocabulary import request_of
from tests.spark.call_proxy import CallProxy

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.connection import Deadline
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity
from oncelog.client.partition_reader import ReadPlan, read_partition
from oncelog.client.produce_pipeline import ProducePipeline
from oncelog.ids import Partition
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_CALLS
from oncelog.protocol.versions import APIS, LIST_OFFSETS
from oncelog.spark.attempt import (
    AttemptName,
    BranchOutcome,
    TaskIdentity,
    commit_batch,
    join_attempt,
    new_nonce,
    open_attempt,
    seal_branch,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCE_PARTITIONS = 2
SINK_PARTITIONS = 3
VISIBLE_S = 20


class Lab:
    def __init__(self, spark, proxy: CallProxy, folder: Path, name: str) -> None:
        self.spark = spark
        self.proxy = proxy
        self.folder = folder
        self.source = f"{name}-in"
        self.sink = f"{name}-out"
        self.sink_id = f"{name}-sink"
        self.checkpoint = str(folder / "checkpoint")
        self.bootstrap = str(proxy.address)
        self.cluster = Cluster([proxy.address], ClientSettings(call_timeout_ms=30_000))
        self.cluster.create_topic(self.source, SOURCE_PARTITIONS)
        self.cluster.create_topic(self.sink, SINK_PARTITIONS)
        self._filled = 0
        self._drivers: list[subprocess.Popen] = []

    def close(self) -> None:
        for driver in self._drivers:
            if driver.poll() is None:
                driver.kill()
            driver.wait()
        self.cluster.close()

    def fill(self, values: list[str]) -> None:
        """Committed records in the source topic, spread over its partitions."""
        attempt = AttemptName(f"{self.source}-fill", new_nonce())
        open_attempt(self.cluster, attempt, 60_000)
        task = TaskIdentity("fill", "fill", self._filled, 0, 0)
        self._filled += 1
        branch = join_attempt(self.cluster, attempt, task, False)
        assert branch is not None
        accumulator = BatchAccumulator(ProducerIdentity(branch.producer_id, branch.producer_epoch))
        pipeline = ProducePipeline(self.cluster, branch.transactional_id)
        closed = []
        for index, value in enumerate(values):
            partition = Partition(self.source, index % SOURCE_PARTITIONS)
            row = (1_700_000_000_000 + index, value.encode(), value.encode(), [])
            closed += accumulator.add(partition, [row])
        for batch in closed + accumulator.close_all():
            pipeline.send(batch)
        pipeline.flush()
        pipeline.close()
        seal_branch(
            self.cluster, attempt, branch, pipeline.last_sequences, len(values), pipeline.crc32c
        )
        outcome = BranchOutcome(
            attempt, "fill", 0, branch.producer_id, branch.producer_epoch, len(values)
        )
        commit_batch(self.cluster, attempt.sink, task.batch_id, [outcome])
        self.wait_decided(self.source)

    def wait_decided(self, topic: str) -> None:
        """Until no undecided transaction is left in the topic: its stable offsets are its end offsets."""
        deadline = time.monotonic() + VISIBLE_S
        while self.ends(topic) != self.log_ends(topic):
            assert time.monotonic() < deadline, f"topic {topic} keeps an open transaction"
            time.sleep(0.02)

    def describe(self):
        request = PRIVATE_CALLS[KEY_OF_METHOD["DescribeSink"]].request(sink=self.sink_id)
        return self.cluster.private_call("DescribeSink", request)

    def call(self, api_key: int, version: int, **words):
        """The answer to a request in these words."""
        schema, request = schema_of(api_key, version), request_of(APIS[api_key], version, words)
        with self.cluster.open_connection(self.proxy.address) as connection:
            return connection.call(schema, request, Deadline(10_000))

    def log_ends(self, topic: str) -> dict[Partition, int]:
        """Partition → high watermark."""
        latest = {"name": topic, "timestamp": -1, "replica_id": -1}
        ends = {}
        for partition in self.ends(topic):
            number = partition.partition
            answer = self.call(LIST_OFFSETS, 6, **latest, partition_index=number)
            ends[partition] = answer.topics[0].partitions[0].offset
        return ends

    def ends(self, topic: str) -> dict[Partition, int]:
        """Partition → last stable offset."""
        count = self.cluster.partition_counts([topic])[topic]
        return self.cluster.list_offsets({Partition(topic, number): -1 for number in range(count)})

    def visible(self, topic: str | None = None) -> list[str]:
        """The values a read_committed consumer sees, sorted."""
        values = []
        for partition, end in self.ends(topic or self.sink).items():
            for columns in read_partition(self.cluster, ReadPlan(partition, 0, end), print):
                values += [value.decode() for value in columns.values.to_pylist()]
        return sorted(values)

    def visible_settled(self) -> list[str]:
        self.wait_decided(self.sink)
        return self.visible()

    def reader(self, **options):
        """Of the source topic, unless the options name others."""
        topics = {} if "assign" in options else {"subscribe": self.source}
        options = {"bootstrap.servers": self.bootstrap} | topics | options
        return self.spark.read.format("oncelog").options(**options)

    def stream(self, **options):
        """The source topic, as a stream."""
        frame = self.spark.readStream.format("oncelog").option("subscribe", self.source)
        return frame.option("bootstrap.servers", self.bootstrap).options(**options).load()

    @property
    def to_sink(self) -> dict[str, str]:
        """The options of who writes into the sink topic."""
        return {
            "bootstrap.servers": self.bootstrap,
            "topic": self.sink,
            "transactionalId": self.sink_id,
        }

    def write(self, frame, mode="append", **options) -> None:
        """A batch job; into the sink topic, unless the options name another."""
        given = self.to_sink | options
        if "topic" in frame.columns and "topic" not in options:
            del given["topic"]
        frame.write.format("oncelog").mode(mode).options(**given).save()

    def start_copy(
        self,
        transform: Callable | None = None,
        limit: int = 500_000,
        source: dict[str, str] | None = None,
        **options,
    ):
        """A query that copies the source topic into the sink topic, up to what is there now."""
        options_of_source = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit)}
        frame = self.stream(**options_of_source | (source or {})).select("key", "value")
        if transform is not None:
            frame = frame.mapInArrow(transform, "key binary, value binary")
        return (
            frame.writeStream.format("oncelog")
            .options(**self.to_sink)
            .option("checkpointLocation", self.checkpoint)
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )

    def copy(self, transform: Callable | None = None, limit: int = 500_000, **options) -> None:
        """Run such a query to its end; raises what the query failed with."""
        query = self.start_copy(transform, limit, **options)
        assert query.awaitTermination(180), "the query does not end"

    def start_driver(self, limit: int = 500_000, *options: str) -> subprocess.Popen:
        """The same query in a driver of its own; `options` as `driver_app.py` takes them."""
        command = [sys.executable, str(ROOT / "tests" / "spark" / "driver_app.py"), self.bootstrap]
        command += [self.source, self.sink, self.checkpoint, self.sink_id]
        command += ["--offsets-per-trigger", str(limit), *options]
        log = (self.folder / f"driver{len(self._drivers)}.log").open("wb")
        driver = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self._drivers.append(driver)
        return driver
