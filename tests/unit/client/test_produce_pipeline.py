"""Batches arrive once and in order, whatever is cut or refused on the way (facts 9)."""

import pytest
from kio.schema.errors import ErrorCode as KioError
from tests.unit.client.kafka_peer import Hangup, KafkaPeer

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity
from oncelog.client.produce_pipeline import ProducePipeline, ProducerFencedError
from oncelog.errors import KafkaError, OncelogError
from oncelog.ids import Partition, ProducerEpoch, ProducerId
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch

QUICK = ClientSettings(
    request_timeout_ms=5_000, call_timeout_ms=500, backoff_min_ms=1, backoff_max_ms=5
)
PARTITIONS = [Partition("orders", number) for number in range(3)]


@pytest.fixture
def peer():
    with KafkaPeer({"orders": 3}) as peer:
        yield peer


def batches(count):
    accumulator = BatchAccumulator(ProducerIdentity(ProducerId(7), ProducerEpoch(0)))
    for number in range(count):
        for partition in PARTITIONS:
            accumulator.add(partition, [(0, None, str(number).encode(), [])])
        yield from accumulator.close_all()


def produce(peer, content, settings=QUICK):
    with Cluster([peer.address], settings) as cluster:
        pipeline = ProducePipeline(cluster, "sink")
        try:
            for batch in content:
                pipeline.send(batch)
            pipeline.flush()
        finally:
            pipeline.close()
        return pipeline


def stored(peer, number):
    log = bytes(peer.partitions["orders", number].log)
    return [
        int(record.value)
        for position, _ in iter_headers(log)
        for record in decode_batch(log, position)
    ]


def test_batches_arrive_in_order_with_acks_of_all(peer):
    pipeline = produce(peer, batches(20))
    for number in range(3):
        assert stored(peer, number) == list(range(20))
    assert pipeline.last_sequences == dict.fromkeys(PARTITIONS, 19)
    requests = [request for key, request in peer.requests if key == versions.PRODUCE]
    assert {(request.acks, request.transactional_id) for request in requests} == {(-1, "sink")}


def test_lost_answers_and_cut_connections_repeat_nothing(peer):
    numbers = iter(range(10_000))

    def cut(api_key, request):
        if api_key == versions.PRODUCE and next(numbers) % 7 == 3:
            raise Hangup  # the batch is stored; its answer is lost

    peer.before_answer = cut
    produce(peer, batches(30))
    for number in range(3):
        assert stored(peer, number) == list(range(30))


def test_refused_batch_and_its_successors_go_out_again(peer):
    numbers = iter(range(10_000))
    codes = {
        2: KioError.not_leader_or_follower,
        9: KioError.not_enough_replicas,
        15: KioError.network_exception,
    }

    def refuse(request):
        code = codes.get(next(numbers))
        if code is None:
            return None
        types = schema_of(versions.PRODUCE, 12).response_types
        topic = request.topic_data[0]
        return KafkaPeer.produce_response(
            types, topic.name, topic.partition_data[0].index, code, -1
        )

    peer.instead[versions.PRODUCE] = refuse
    produce(peer, batches(12))
    for number in range(3):
        assert stored(peer, number) == list(range(12))


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (
            KioError.invalid_producer_epoch,
            ProducerFencedError,
            "refuses producer 'sink' with INVALID_PRODUCER_EPOCH",
        ),
        (KioError.invalid_txn_state, ProducerFencedError, "INVALID_TXN_STATE"),
        (
            KioError.message_too_large,
            OncelogError,
            r"orders-\d refuses a batch of \d+ bytes.*max.message.bytes",
        ),
        (KioError.topic_authorization_failed, KafkaError, r"TOPIC_AUTHORIZATION_FAILED.*orders-\d"),
        (KioError.not_leader_or_follower, KafkaError, "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_final_refusal_is_raised_with_its_reason(peer, code, error, text):
    def refuse(request):
        topic = request.topic_data[0]
        types = schema_of(versions.PRODUCE, 12).response_types
        return KafkaPeer.produce_response(
            types, topic.name, topic.partition_data[0].index, code, -1
        )

    peer.instead[versions.PRODUCE] = refuse
    with pytest.raises(error, match=text):
        produce(peer, batches(3))


def test_at_most_five_batches_of_a_partition_are_under_way(peer):
    waiting: dict[int, int] = {}

    class Watched(ProducePipeline):
        def _transmit(self, batch):
            super()._transmit(batch)
            for partition, queue in self._unanswered.items():
                waiting[partition.partition] = max(waiting.get(partition.partition, 0), len(queue))

    with Cluster([peer.address], QUICK) as cluster:
        pipeline = Watched(cluster, "sink")
        for batch in batches(30):
            pipeline.send(batch)
        pipeline.flush()
        pipeline.close()
    assert waiting == {0: 5, 1: 5, 2: 5}
