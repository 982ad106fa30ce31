"""A transaction's requests are answered in the step that reads them, and exactly as by the long way (ADR 0048)."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import timedelta

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.loops import UvLoopOfATest
from tests.worlds.listener.wire_client import WireClient

from oncelog.process.sources import Sources
from oncelog.protocol.messages import schema_of
from oncelog_coordinator.servicer import TransactionCoordinatorServicer
from oncelog_listener.routes import ROUTES
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

INIT, ADD, OFFSETS, END, DESCRIBE = 22, 24, 25, 26, 65
MINUTE = timedelta(seconds=60)
NOT_YET = (14, 15, 16, 51)
STEPS = 30


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": UvLoopOfATest}


@pytest.fixture
def long_way(monkeypatch):
    """How often the coordinator was asked by the long way, by method."""
    asked = Counter()

    def count(name):
        real = getattr(TransactionCoordinatorServicer, name)

        async def counted(self, request, context):
            asked[name] += 1
            return await real(self, request, context)

        monkeypatch.setattr(TransactionCoordinatorServicer, name, counted)

    count("AddPartitionsToTxn")
    count("AddOffsetsToTxn")
    count("EndTxn")
    return asked


@contextmanager
def nothing_at_once():
    before = {key: ROUTES[key] for key in (ADD, OFFSETS, END)}
    for key, route in before.items():
        ROUTES[key] = route._replace(at_a_glance=None)
    try:
        yield
    finally:
        ROUTES.update(before)


@asynccontextmanager
async def embedded_log(folder):
    settings = EmbeddedSettings(data=folder, port=0, gateway_port=0)
    async with embedded_roles(settings, folder, Sources()) as log:
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        (made,) = admin.create_topics([NewTopic("orders", 4)]).values()
        await asyncio.to_thread(made.result, 60)
        yield log


class Producer:
    """A client of TV1 that does what it is told, right or wrong, on any of its connections."""

    def __init__(self, log, name):
        self.port, self.name = int(log.bootstrap.rpartition(":")[2]), name
        self.clients = {}
        self.identity = (-1, -1)

    async def call(self, number, api_key, version, **fields):
        if number not in self.clients:
            self.clients[number] = await WireClient.connect(self.port)
        return await self.clients[number].call(api_key, version, **fields)

    async def init(self):
        code = 51
        while code in NOT_YET:
            answer = await self.call(
                0, INIT, 1, transactional_id=self.name, transaction_timeout=MINUTE
            )
            code = answer.error_code
        self.identity = answer.producer_id, answer.producer_epoch
        return code, answer.producer_epoch

    async def add(self, *partitions, topic="orders", on=0, off=(0, 0), version=0):
        types = schema_of(ADD, version).request_types
        named = types.AddPartitionsToTxnTopic(name=topic, partitions=partitions)
        fields = self._fields(off, "v3_and_below_")
        return await self.call(on, ADD, version, **fields, v3_and_below_topics=(named,))

    async def offsets(self, group_id, on=0, off=(0, 0), version=0):
        return await self.call(on, OFFSETS, version, **self._fields(off), group_id=group_id)

    async def end(self, commit, on=0, off=(0, 0), version=1):
        return await self.call(on, END, version, **self._fields(off), committed=commit)

    def _fields(self, off, prefix=""):
        return {
            f"{prefix}transactional_id": self.name,
            f"{prefix}producer_id": self.identity[0] + off[0],
            f"{prefix}producer_epoch": self.identity[1] + off[1],
        }

    async def state(self):
        """Once the markers of a decision are written."""
        while (found := await self._described()).transaction_state.startswith("Prepare"):
            pass
        topics = [(topic.topic, topic.partitions) for topic in found.topics]
        return found.transaction_state, found.producer_epoch, topics

    async def _described(self):
        answer = await self.call(0, DESCRIBE, 0, transactional_ids=(self.name,))
        (found,) = answer.transaction_states
        return found

    def close(self):
        for client in self.clients.values():
            client.close()


@asynccontextmanager
async def producers(log, *names):
    made = [Producer(log, name) for name in names]
    for one in made:
        assert (await one.init())[0] == 0
    yield made
    for one in made:
        one.close()


async def test_a_transaction_needs_no_task_and_no_message(tmp_path, long_way):
    async with embedded_log(tmp_path) as log, producers(log, "pay") as (producer,):
        for commit in (True, False):
            answer = await producer.add(0, 2)
            (topic,) = answer.results_by_topic_v3_and_below
            assert [one.partition_error_code for one in topic.results_by_partition] == [0, 0]
            assert (await producer.offsets("readers")).error_code == 0
            assert (await producer.end(commit)).error_code == 0
            assert not long_way
            assert (await producer.state())[0] == ("CompleteCommit" if commit else "CompleteAbort")


def drawn(chance):
    """A step of a client that is often right."""
    on, off = chance.choice([0, 0, 0, 1]), chance.choice([(0, 0)] * 6 + [(0, -1), (0, 1), (1, 0)])
    version, group_id = chance.randrange(3), chance.choice(["readers", "others", ""])
    kind = chance.randrange(12)
    if kind >= 10:
        return lambda one: one.offsets(group_id, on=on, off=off, version=version)
    if kind < 5:
        partitions = chance.choices([0, 1, 2, 3, 9], [8, 8, 8, 8, 1], k=chance.randint(1, 3))
        topic = chance.choice(["orders"] * 9 + ["gone", "__transaction_state"])
        return lambda one: one.add(*partitions, topic=topic, on=on, off=off, version=version)
    if kind < 9:
        commit = chance.random() < 0.6
        return lambda one: one.end(commit, on=on, off=off, version=version)
    return lambda one: one.init()


@pytest.mark.parametrize("seed", range(8))
async def test_both_ways_answer_the_same(tmp_path, seed, long_way):
    chance = random.Random(seed)
    async with (
        embedded_log(tmp_path) as log,
        producers(log, "at-once", "long-way") as (at_once, other),
    ):
        labels = log.roles.coordinator.role.shards.labels
        for _ in range(STEPS):
            step = drawn(chance)
            told = []
            for one, way in ((at_once, nullcontext()), (other, nothing_at_once())):
                before = Counter(labels)
                with way:
                    answer = await step(one)
                # What follows a decision by itself is told before the state is.
                state = await one.state()
                decided = Counter(labels) - before
                del decided["described"]
                told.append((answer, state, decided))
            assert told[0] == told[1]
    assert long_way.total() > STEPS / 2


async def test_a_failed_append_decides_nothing_at_once(tmp_path, long_way):
    """The long way decides anew, and has its append refused or done."""
    async with embedded_log(tmp_path) as log, producers(log, "pay") as (producer,):
        driver = log.roles.coordinator.role.shards.term_of("pay").driver
        at_once = driver._append_at_once
        tried = []

        def refused(records):
            tried.append(driver.machine.txn.transaction("pay").state)
            return False

        driver._append_at_once = refused
        await producer.add(0)
        driver._append_at_once = at_once
        assert len(set(tried)) == 2, "the second try is the long way's, which has applied it"
        assert long_way == {"AddPartitionsToTxn": 1}
        assert (await producer.end(True)).error_code == 0
        assert long_way == {"AddPartitionsToTxn": 1}
