"""Apache Kafka behind the proxy, and what a test of the sink does with it."""

from pathlib import Path

from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.spark.call_proxy import CallProxy
from tests.spark.topic_tools import SOURCE_PARTITIONS, Lab

from oncelog.client.cluster import Cluster
from oncelog.client.core.addresses import Address
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity
from oncelog.client.produce_pipeline import ProducePipeline
from oncelog.client.single_transaction import SingleTransaction
from oncelog.ids import Partition
from oncelog.spark.commit_token import CommitToken, place_of_stream
from oncelog.spark.kafka_commit import newest_token

PROPERTIES = """\
listeners=PLAINTEXT://127.0.0.1:{broker},CLIENT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},CLIENT://{proxy}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT
log.retention.ms=-1
"""
"""The tests' records are years old."""


class ProxiedKafka:
    """A broker whose clients come through `proxy`. What it says to itself does not."""

    def __init__(self, folder: Path) -> None:
        broker, client, controller = free_block(3)
        self.proxy = CallProxy()
        self.proxy.upstream = lambda: Address("127.0.0.1", client)
        ports = {"broker": broker, "controller": controller}
        more = PROPERTIES.format(client=client, proxy=self.proxy.address, **ports)
        self.broker = KafkaBroker(folder, **ports, more=more)
        self.direct = Address("127.0.0.1", broker)

    def __enter__(self) -> "ProxiedKafka":
        self.broker.__enter__()
        self.proxy.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()
        self.broker.__exit__()


class KafkaLab(Lab):
    def fill(self, values: list[str]) -> None:
        name = f"{self.source}-fill"
        transaction = SingleTransaction.opened(self.cluster, name, 60_000)
        identity = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        accumulator = BatchAccumulator(identity)
        pipeline = ProducePipeline(self.cluster, name)
        closed = []
        for index, value in enumerate(values):
            partition = Partition(self.source, index % SOURCE_PARTITIONS)
            row = (1_700_000_000_000 + index, value.encode(), value.encode(), [])
            closed += accumulator.add(partition, [row])
        for batch in closed + accumulator.close_all():
            pipeline.send(batch)
        pipeline.flush()
        pipeline.close()
        transaction.commit()
        self.wait_decided(self.source)

    def token(self) -> CommitToken | None:
        place = place_of_stream(self.sink_id)
        self.wait_decided(place.topic)
        return newest_token(self.cluster, place)[1]


def write_directly(kafka: ProxiedKafka, topic: str, value: bytes, key: bytes = b"not ours") -> None:
    """A record of somebody else in partition 0, on a way past the proxy."""
    with Cluster([kafka.direct]) as cluster:
        transaction = SingleTransaction.opened(cluster, "somebody else", 60_000)
        identity = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        accumulator = BatchAccumulator(identity)
        accumulator.add(Partition(topic, 0), [(0, key, value, [])])
        pipeline = ProducePipeline(cluster, "somebody else")
        for batch in accumulator.close_all():
            pipeline.send(batch)
        pipeline.flush()
        pipeline.close()
        transaction.commit()
