"""The commit of a batch on Apache Kafka, without Spark around it: many drivers call it often, and rows show once."""

import random
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.spark.call_proxy import Fault
from tests.spark.kafka_lab import write_directly

from oncelog.client.blocking import Admin
from oncelog.errors import KafkaError, OncelogError
from oncelog.spark.attempt import (
    FencedError,
    QueryChangedError,
    ReplayRefusedError,
    TaskIdentity,
    new_nonce,
)
from oncelog.spark.commit_token import place_of_job, place_of_stream
from oncelog.spark.connecting import cluster_of
from oncelog.spark.kafka_commit import commit_on_kafka
from oncelog.spark.kafka_sink import collect_rows, prepare
from oncelog.spark.options import parse_sink_options

TASKS = 2
API_CALLS = ["FindCoordinator", "InitProducerId", "Metadata", "ListOffsets", "Fetch", "Produce"]


class Driver:
    """What Spark does with the sink for a batch."""

    def __init__(self, lab, query="query", **options):
        quick = {"kafka.delivery.timeout.ms": "20000", "kafka.retry.backoff.max.ms": "100"}
        self.options = parse_sink_options(lab.to_sink | quick | options)
        self.query = query
        self.place = place_of_stream(lab.sink_id)

    def prepared(self):
        with cluster_of(self.options) as cluster:
            prepare(cluster, self.options, self.place)
        return self

    def tasks(self, values, batch_id):
        """The messages of a try of the batch."""
        nonce = new_nonce()
        return [
            self.task(values[number::TASKS], batch_id, number, nonce) for number in range(TASKS)
        ]

    def task(self, values, batch_id, number, nonce):
        encoded = [value.encode() for value in values]
        batch = pa.record_batch({"key": encoded, "value": encoded})
        identity = TaskIdentity(self.query, "run", batch_id or 0, number, number)
        with cluster_of(self.options) as cluster:
            return collect_rows(self.options, cluster, nonce, identity, batch_id, iter([batch]))

    def commit(self, values, batch_id):
        sink = self.options.transactional_id
        commit_on_kafka(self.options, sink, self.place, self.tasks(values, batch_id))


def rows_of(batch_id, count=12):
    return [f"row-{batch_id:03}-{number:03}" for number in range(count)]


def test_batches_are_written_once_with_their_tokens(kafka_topics):
    driver = Driver(kafka_topics, **{"kafka.compression.type": "gzip"}).prepared()
    for batch_id in range(3):
        driver.commit(rows_of(batch_id), batch_id)
    assert kafka_topics.visible_settled() == rows_of(0) + rows_of(1) + rows_of(2)
    token = kafka_topics.token()
    assert [(one.batch_id, one.row_count) for one in token.batches] == [(0, 12), (1, 12), (2, 12)]


def test_batch_committed_again_by_another_try_writes_nothing(kafka_topics):
    driver = Driver(kafka_topics).prepared()
    driver.commit(rows_of(0), 0)
    kafka_topics.wait_decided(kafka_topics.sink)
    ends = kafka_topics.ends(kafka_topics.sink)
    kafka_topics.proxy.reset()
    driver.commit(rows_of(0)[::-1], 0)
    assert kafka_topics.proxy.calls["Produce"] == 0
    assert kafka_topics.ends(kafka_topics.sink) == ends
    with pytest.raises(ReplayRefusedError, match="has 13 rows now, and was committed with 12"):
        driver.commit([*rows_of(0), "more"], 0)
    assert kafka_topics.visible_settled() == rows_of(0)


def test_another_query_is_refused_until_it_adopts(kafka_topics):
    Driver(kafka_topics).prepared().commit(rows_of(0), 0)
    with pytest.raises(QueryChangedError, match=r"onNewQuery=adopt"):
        Driver(kafka_topics, "other").commit(rows_of(1), 0)
    Driver(kafka_topics, "other", onNewQuery="adopt").commit(rows_of(1), 0)
    with pytest.raises(QueryChangedError, match="belongs to query 'other'"):
        Driver(kafka_topics, onNewQuery="adopt").commit(rows_of(2), 1)
    assert kafka_topics.visible_settled() == rows_of(0) + rows_of(1)


def test_a_sink_whose_topic_was_deleted_refuses_to_go_on(kafka_topics):
    driver = Driver(kafka_topics).prepared()
    driver.commit(rows_of(0), 0)
    with Admin(kafka_topics.bootstrap) as admin:
        admin.delete_topic(driver.place.topic)
    driver.prepared()
    with pytest.raises(QueryChangedError, match=r"the sink's topic was deleted.*onNewQuery=adopt"):
        driver.commit(rows_of(1), 1)
    assert kafka_topics.visible_settled() == rows_of(0)


@pytest.mark.parametrize("call", [*API_CALLS, "EndTxn"])
@pytest.mark.parametrize("fault", [Fault.CUT, Fault.CUT_AFTER])
def test_a_lost_request_or_answer_is_not_noticed(kafka_topics, call, fault):
    driver = Driver(kafka_topics).prepared()
    driver.commit(rows_of(0), 0)
    plan = kafka_topics.proxy.plan(call, fault, times=2)
    driver.commit(rows_of(1), 1)
    assert plan.happened.is_set()
    assert kafka_topics.visible_settled() == rows_of(0) + rows_of(1)


def test_a_commit_that_comes_late_is_fenced(kafka_topics):
    """The first driver is cut off at EndTxn. The second one commits, and then the first one's EndTxn arrives."""
    driver = Driver(kafka_topics).prepared()
    held = kafka_topics.proxy.plan("EndTxn", Fault.HOLD)
    found = []

    def late():
        try:
            driver.commit(rows_of(0), 0)
        except FencedError as error:
            found.append(str(error))

    first = threading.Thread(target=late)
    first.start()
    assert held.happened.wait(30)
    Driver(kafka_topics).commit(rows_of(0), 0)
    held.released.set()
    first.join(60)
    assert not first.is_alive()
    # Kafka may answer first that the second transaction is being completed. Then the driver looks, and finds its batch.
    assert all("FENCED" in said for said in found)
    assert kafka_topics.visible_settled() == rows_of(0)


def test_a_token_that_lands_elsewhere_is_not_committed(kafka, kafka_topics):
    """As if a deposed leader had shown an older end: what was read may not be the newest."""
    driver = Driver(kafka_topics).prepared()
    driver.commit(rows_of(0), 0)
    kafka_topics.token()
    written = []

    def before(method):
        if method == "Produce" and not written:
            written.append(method)
            write_directly(kafka, driver.place.topic, b"{}")

    kafka.proxy.reset()
    kafka.proxy.on_call = before
    driver.commit(rows_of(1), 1)
    # A commit that was given up, and one that was made: two transactions, of which one shows.
    assert kafka.proxy.calls["InitProducerId"] == 2
    assert kafka_topics.visible_settled() == rows_of(0) + rows_of(1)


def test_a_record_that_is_no_token_is_refused(kafka, kafka_topics):
    driver = Driver(kafka_topics).prepared()
    driver.commit(rows_of(0), 0)
    kafka_topics.token()
    write_directly(kafka, driver.place.topic, b"{}", key=driver.place.key.encode())
    with pytest.raises(OncelogError, match="no token of a sink"):
        driver.commit(rows_of(1), 1)
    assert kafka_topics.visible_settled() == rows_of(0)


def test_jobs_with_an_id_are_written_once_and_others_each_time(kafka_topics):
    driver = Driver(kafka_topics)
    driver.query = "monday"
    driver.place = place_of_job(kafka_topics.sink_id, "monday")
    driver.prepared()
    driver.commit(rows_of(0), 0)
    driver.commit(rows_of(0), 0)
    driver.place = place_of_job(kafka_topics.sink_id, None)
    driver.query = "unnamed"
    driver.commit(rows_of(1), None)
    driver.commit(rows_of(1), None)
    driver.query = "monday"
    driver.place = place_of_job(kafka_topics.sink_id, "monday")
    driver.commit(rows_of(0), 0)
    assert kafka_topics.visible_settled() == sorted(rows_of(0) + rows_of(1) * 2)


def test_an_unnamed_job_whose_answer_is_lost_is_written_once(kafka_topics):
    driver = Driver(kafka_topics)
    driver.place = place_of_job(kafka_topics.sink_id, None)
    driver.prepared()
    plan = kafka_topics.proxy.plan("EndTxn", Fault.CUT_AFTER)
    driver.commit(rows_of(0), None)
    assert plan.happened.is_set()
    assert kafka_topics.visible_settled() == rows_of(0)


def test_another_unnamed_job_in_between_hides_no_commit(kafka_topics):
    """The first job's answer is lost. Before it looks, a second job of the same transactionalId commits."""
    first, second = Driver(kafka_topics), Driver(kafka_topics)
    first.place = second.place = place_of_job(kafka_topics.sink_id, None)
    first.prepared()
    proxy = kafka_topics.proxy
    plan = proxy.plan("EndTxn", Fault.CUT_AFTER)
    came = []

    def before(method):
        if method == "InitProducerId" and plan.happened.is_set() and not came:
            came.append(method)
            second.commit(rows_of(1), None)

    proxy.on_call = before
    first.commit(rows_of(0), None)
    assert came
    assert kafka_topics.visible_settled() == rows_of(0) + rows_of(1)


def test_more_bytes_than_the_driver_may_hold_are_refused(kafka_topics):
    with pytest.raises(OncelogError, match=r"batch 0 has \d+ bytes .*maxBatchBytes=500\..*zstd"):
        Driver(kafka_topics, maxBatchBytes="500").prepared().commit(rows_of(0, 100), 0)
    # Each task is below the limit, and both together are not.
    half = Driver(kafka_topics, maxBatchBytes="1000")
    tasks = half.tasks(rows_of(0, 36), 0)
    assert all(task.size_bytes < 1000 for task in tasks)
    with pytest.raises(OncelogError, match="maxBatchBytes=1000"):
        commit_on_kafka(half.options, kafka_topics.sink_id, half.place, tasks)
    assert kafka_topics.visible_settled() == []


@pytest.mark.parametrize(
    ("partitions", "configs", "text"),
    [
        (1, {}, r"cleanup.policy=delete.*set cleanup.policy=compact"),
        (2, {"cleanup.policy": "compact"}, "has 2 partitions"),
        (
            1,
            {"cleanup.policy": "compact", "unclean.leader.election.enable": "true"},
            "set unclean.leader.election.enable=false",
        ),
    ],
)
def test_a_topic_that_could_lose_a_token_is_refused(kafka_topics, partitions, configs, text):
    driver = Driver(kafka_topics)
    kafka_topics.cluster.create_topic(driver.place.topic, partitions, configs)
    with pytest.raises(OncelogError, match=text):
        driver.prepared()


def test_the_old_transaction_protocol_is_refused(kafka_topics):
    with Admin(kafka_topics.bootstrap) as admin:
        admin.update_features({"transaction.version": 1}, allows_data_loss=True)
        try:
            with pytest.raises(OncelogError, match=r"finalized transaction.version=1.*KIP-890"):
                Driver(kafka_topics).prepared()
        finally:
            admin.update_features({"transaction.version": 2})
    Driver(kafka_topics).prepared().commit(rows_of(0), 0)
    assert kafka_topics.visible_settled() == rows_of(0)


def until_committed(driver, values, batch_id, tries):
    """As a supervised query: an error ends it, and it is started again. `tries` tells how often."""
    for _ in range(20):
        try:
            driver.commit(values, batch_id)
            return
        except (FencedError, KafkaError, OncelogError) as error:
            tries.append(str(error))
    raise AssertionError(f"batch {batch_id} does not come through: {tries}")


def faults(chance) -> Iterator[tuple[str, Fault, int]]:
    for _ in range(chance.randrange(4)):
        call = chance.choice([*API_CALLS, "EndTxn", "EndTxn"])
        fault = chance.choice([Fault.CUT, Fault.CUT_AFTER, Fault.HOLD])
        yield call, fault, chance.randrange(3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_two_drivers_and_faults_at_random_show_each_row_once(kafka, kafka_topics, seed):
    chance = random.Random(seed)
    lab = kafka_topics
    Driver(lab).prepared()
    batches = 5
    tries = []
    for batch_id in range(batches):
        for call, fault, skip in faults(chance):
            plan = lab.proxy.plan(call, fault, skip=skip)
            if fault is Fault.HOLD:
                threading.Timer(chance.uniform(0.05, 0.6), plan.released.set).start()
        drivers = [
            threading.Thread(
                target=until_committed, args=(Driver(lab), rows_of(batch_id), batch_id, tries)
            )
            for _ in range(chance.choice([1, 2, 2, 3]))
        ]
        for driver in drivers:
            driver.start()
        if chance.random() < 0.05:
            kafka.broker.kill()
            kafka.broker.start()
        for driver in drivers:
            driver.join(120)
            assert not driver.is_alive()
        lab.proxy.reset()
    expected = [row for batch_id in range(batches) for row in rows_of(batch_id)]
    assert lab.visible_settled() == expected, tries
    token = lab.token()
    assert [one.batch_id for one in token.batches] == list(range(batches))
