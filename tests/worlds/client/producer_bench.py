"""A producer's core without a network: leaders that keep Kafka's rules of sequences, and connections that break."""

from collections import deque
from dataclasses import dataclass, field

from oncelog.client.core.addresses import Address
from oncelog.client.core.cluster_view import ClusterView, Leader, Node, TopicView
from oncelog.client.core.produce_answers import PartitionAnswer
from oncelog.client.core.producer_batch import Record, builder_class
from oncelog.client.core.producer_settings import producer_settings
from oncelog.client.core.producing import ProducerCore
from oncelog.client.core.sequences import Identity
from oncelog.client.core.transaction_calls import Answer, EndTxn, InitProducerId
from oncelog.client.delivery import Delivery
from oncelog.client.errors import DisconnectedError
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.record.batch import read_header
from oncelog.record.records import decode_batch

TOPIC = "payments"
REMEMBERED = 5
PLAIN = {"enable_idempotence": False, "linger_ms": 0}
LOST = DisconnectedError("it broke", ErrorCode.NETWORK_EXCEPTION)


def view_of(partitions=1, nodes=1, leader=None, topic=TOPIC):
    """`leader`: partition number → (node, epoch)."""
    found = {one: Node(one, Address("host", 9000 + one), f"rack-{one}") for one in range(nodes)}
    leaders = tuple(
        Leader(*(leader or {}).get(number, (number % nodes, 0))) for number in range(partitions)
    )
    view = ClusterView()
    return view.with_answer(found.values(), [TopicView(topic, b"id", leaders)], "cluster", 0)


@dataclass
class ModelLeader:
    """One partition's log, and what it knows of its producers."""

    log: list = field(default_factory=list)
    producers: dict = field(default_factory=dict)

    def append(self, records):
        header = read_header(records)
        values = [one.value for one in decode_batch(records)]
        if not header.has_producer_id:
            return self._write(values)
        known = self.producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known["epoch"]:
            return PartitionAnswer(ErrorCode.INVALID_PRODUCER_EPOCH)
        is_new = known is None or header.producer_epoch > known["epoch"]
        if is_new:
            if header.base_sequence != 0:
                return PartitionAnswer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            known = self.producers[header.producer_id] = {
                "epoch": header.producer_epoch,
                "next": 0,
                "batches": deque(maxlen=REMEMBERED),
            }
        for sequence, count, offset in known["batches"]:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return PartitionAnswer(ErrorCode.NONE, offset)
        if header.base_sequence != known["next"]:
            return PartitionAnswer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        answer = self._write(values)
        known["next"] += header.record_count
        known["batches"].append((header.base_sequence, header.record_count, answer.base_offset))
        return answer

    def _write(self, values):
        offset = len(self.log)
        self.log.extend(values)
        return PartitionAnswer(ErrorCode.NONE, offset)


class Bench:
    """`settings`: of the producer. Its clock is moved by hand, in milliseconds."""

    def __init__(self, view=None, draw=lambda: 0.5, partitioner=None, **settings):
        self.settings = producer_settings(settings)
        self.core = ProducerCore(self.settings, builder_class(), draw, partitioner)
        self.core.view = view if view is not None else view_of()
        self.now_ms = 0.0
        self.reachable = lambda node_id: True
        self.leaders = {}
        self.wire = {}
        """Node → requests under way, each with bytes as they were sent."""
        self.calls = deque()
        self.next_ms = 0.0
        self.ids = 0
        self.epochs = {}

    def leader(self, number=0):
        return self.leaders.setdefault(Partition(TOPIC, number), ModelLeader())

    def log(self, number=0):
        return self.leader(number).log

    def send(self, value=b"v", key=None, partition=None, topic=TOPIC, headers=()):
        record = Record(topic, partition, int(self.now_ms), key, value, list(headers))
        delivery = Delivery(None, int(self.now_ms), -1, len(value or b""))
        batch = self.core.append_to_open(*record)
        batch = batch or self.core.append(record, self.now_ms)
        if batch is None:
            self.core.stand_in_line(record, self.now_ms, delivery.settled)
        else:
            delivery.placed(batch)
        return delivery

    def step(self, after_ms=0.0):
        self.now_ms += after_ms
        step = self.core.step(self.now_ms, self.reachable)
        for request in step.requests:
            frames = [(batch, bytes(batch.records)) for batch in request.batches]
            self.wire.setdefault(request.node_id, deque()).append((request, frames))
        if step.call is not None:
            self.calls.append(step.call)
        self.next_ms = step.next_ms
        return step

    def requests(self, node=0):
        return [request for request, _ in self.wire.get(node, ())]

    # ------------------------------------------------------------------------------- what the other side does

    def answer_call(self, error=ErrorCode.NONE, refused=()):
        call = self.calls.popleft()
        identity = None
        if error is ErrorCode.NONE and isinstance(call, InitProducerId):
            identity = self._identity(call.known)
        if error is ErrorCode.NONE and isinstance(call, EndTxn) and self.core.transactions.is_tv2:
            identity = call.identity._replace(producer_epoch=call.identity.producer_epoch + 1)
        answer = Answer(error, identity=identity, refused=refused)
        self.core.call_answered(answer, call, self.now_ms)
        return call

    def _identity(self, known):
        if known.is_known:
            return known._replace(producer_epoch=known.producer_epoch + 1)
        self.ids += 1
        return Identity(self.ids, 0)

    def receive(self, node=0, error=None, answer_is_lost=False):
        """The oldest request of a node arrives; `error`: it is answered so, and nothing is written."""
        _, frames = self.wire[node].popleft()
        self.core.request_done(node)
        for batch, records in frames:
            if error is None:
                answer = self.leader(batch.partition.partition).append(records)
            else:
                answer = PartitionAnswer(error)
            if answer_is_lost:
                self.core.batch_lost(batch, LOST, self.now_ms)
            else:
                self.core.batch_answered(batch, answer, self.now_ms)

    def break_connection(self, node=0, arrived=0):
        """So many of its requests had arrived; no answer comes any more."""
        frames_of = self.wire.pop(node, deque())
        for number, (_, frames) in enumerate(frames_of):
            self.core.request_done(node)
            for batch, records in frames:
                if number < arrived:
                    self.leader(batch.partition.partition).append(records)
                self.core.batch_lost(batch, LOST, self.now_ms)

    def settle(self, limit=2_000):
        """Everything works from now on: until nothing is left to do."""
        for _ in range(limit):
            self.step()
            busy = [node for node, requests in self.wire.items() if requests]
            for node in busy:
                self.receive(node)
            is_busy = bool(busy or self.calls)
            while self.calls:
                self.answer_call()
            if not is_busy:
                if not self.core.accumulator.unfinished and not self.core.line:
                    return
                self.now_ms = max(self.now_ms + 1, min(self.next_ms, self.now_ms + 1_000))
        raise AssertionError("it did not settle")


def started(view=None, **settings):
    """With its identity."""
    bench = Bench(view, linger_ms=settings.pop("linger_ms", 0), **settings)
    bench.send(b"first", partition=0)
    bench.step()
    bench.answer_call()
    bench.settle()
    return bench
