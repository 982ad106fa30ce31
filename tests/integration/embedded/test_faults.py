"""Each fault of `oncelog.running(faults=True)`, met by unmodified clients."""

import asyncio
import time
import uuid

import pytest
from oncelog_robustness.clients.contract import Refused
from oncelog_robustness.clients.libraries import IN_CHAOS, LIBRARIES
from oncelog_robustness.history import Isolation
from tests.contracts.robustness_clients import Place

from oncelog.client import Admin, Partition
from oncelog.errors import OncelogError

WAIT_S = 60
DAY_S = 86_400


@pytest.fixture(params=IN_CHAOS)
async def place(request, oncelog_broker, anyio_backend):
    clients = LIBRARIES[request.param]([oncelog_broker.bootstrap_servers])
    place = Place(clients, f"faults-{uuid.uuid4().hex[:8]}")
    await place.make_topic()
    yield place
    await place.close()


@pytest.fixture
async def producer(place):
    """In a transaction, with a record in it."""
    producer = await place.producer()
    await producer.begin()
    await producer.send((place.topic, 0), "a")
    return producer


@pytest.fixture
def transactional_id(place):
    return f"{place.prefix}-id"


def met(fault):
    return asyncio.to_thread(fault.wait_until_met)


async def wait_for_values(place, values):
    """Markers are written after the commit is answered."""
    async with asyncio.timeout(WAIT_S):
        while await place.values() != values:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_held_commit_is_seen_when_it_is_released(
    place, producer, transactional_id, oncelog_faults
):
    with oncelog_faults.hold_end_txn(transactional_id) as held:
        commit = asyncio.create_task(producer.commit())
        await met(held)
        assert await place.values() == []
        assert not commit.done()
    await commit
    await wait_for_values(place, ["a"])


async def test_a_delayed_commit_comes_so_much_later(
    place, producer, transactional_id, oncelog_faults
):
    with oncelog_faults.delay_end_txn(transactional_id, seconds=0.5) as delayed:
        began = time.monotonic()
        await producer.commit()
        assert time.monotonic() - began >= 0.5
        assert delayed.met == 1
    await wait_for_values(place, ["a"])


async def test_the_commits_of_others_are_not_held(
    place, producer, transactional_id, oncelog_faults
):
    other = await place.producer("other")
    await other.begin()
    await other.send((place.topic, 0), "b")
    with oncelog_faults.hold_end_txn(transactional_id) as held:
        await other.commit()
        assert held.met == 0
        commit = asyncio.create_task(producer.commit())
        await met(held)
    await commit
    await wait_for_values(place, ["a", "b"])


async def test_a_commit_is_answered_while_its_markers_are_held(
    place, producer, transactional_id, oncelog_faults
):
    with oncelog_faults.hold_markers(transactional_id) as held:
        await producer.commit()
        await met(held)
        assert await place.values() == []
        assert await place.values(Isolation.READ_UNCOMMITTED) == ["a"]
    await wait_for_values(place, ["a"])


async def test_delayed_markers_arrive(place, producer, transactional_id, oncelog_faults):
    with oncelog_faults.delay_markers(transactional_id, seconds=0.5) as delayed:
        began = time.monotonic()
        await producer.commit()
        await wait_for_values(place, ["a"])
        assert time.monotonic() - began >= 0.5
        assert delayed.met == 1


async def test_lost_markers_are_sent_again(place, producer, transactional_id, oncelog_faults):
    with oncelog_faults.drop_markers(transactional_id, count=3) as dropped:
        await producer.commit()
        await wait_for_values(place, ["a"])
        assert dropped.met == 3


async def test_a_commit_outlives_its_coordinator(place, producer, oncelog_faults):
    with oncelog_faults.kill_coordinator() as killed:
        commit = asyncio.create_task(producer.commit())
        await met(killed)
        assert not commit.done()
    await commit
    await wait_for_values(place, ["a"])
    await producer.begin()
    await producer.send((place.topic, 0), "b")
    await producer.commit()
    await wait_for_values(place, ["a", "b"])


async def test_decided_markers_outlive_their_coordinator(
    place, producer, transactional_id, oncelog_faults
):
    """The coordinator dies between its decision and the markers; the next one sends them."""
    with oncelog_faults.hold_markers(transactional_id) as held:
        await producer.commit()
        await met(held)
        with oncelog_faults.kill_coordinator():
            assert await place.values() == []
        assert await place.values() == []
    await wait_for_values(place, ["a"])


async def test_an_expired_transaction_is_aborted(place, producer, transactional_id, oncelog_faults):
    await asyncio.to_thread(oncelog_faults.expire_transaction, transactional_id)
    with pytest.raises(Refused):
        await producer.commit()
    successor = await place.producer()
    await successor.begin()
    await successor.send((place.topic, 0), "b")
    await successor.commit()
    await wait_for_values(place, ["b"])


async def test_a_fenced_producer_cannot_commit(place, producer, transactional_id, oncelog_faults):
    await asyncio.to_thread(oncelog_faults.fence_producer, transactional_id)
    with pytest.raises(Refused):
        await producer.commit()
    assert await place.values() == []
    assert await place.values(Isolation.READ_UNCOMMITTED) == ["a"]


async def test_a_full_disk_keeps_a_record_waiting(place, oncelog_faults):
    producer = await place.producer()
    await producer.begin()
    with oncelog_faults.disk_full() as full:
        sending = asyncio.create_task(producer.send((place.topic, 0), "a"))
        await met(full)
        assert not sending.done()
        assert await place.values(Isolation.READ_UNCOMMITTED) == []
    await sending
    await producer.commit()
    await wait_for_values(place, ["a"])
    assert await place.values(Isolation.READ_UNCOMMITTED) == ["a"]


async def test_a_full_disk_keeps_a_commit_waiting(place, producer, oncelog_faults):
    """The coordinator cannot write its decision; what it held in memory is dropped and read again."""
    with oncelog_faults.disk_full() as full:
        commit = asyncio.create_task(producer.commit())
        await met(full)
        assert await place.values() == []
    await commit
    await wait_for_values(place, ["a"])


async def test_a_transaction_times_out_when_the_clock_moves(place, producer, oncelog_faults):
    with oncelog_faults.move_clock(seconds=29):
        pass
    with oncelog_faults.move_clock(seconds=31), pytest.raises(Refused):
        await producer.commit()
    assert await place.values() == []


async def test_producer_ids_expire_when_the_clock_moves(oncelog_own_broker):
    log = oncelog_own_broker
    place = Place(LIBRARIES["oncelog"]([log.bootstrap_servers]), "clock")
    await place.make_topic()
    producer = await place.producer()
    await producer.begin()
    await producer.send((place.topic, 0), "a")
    await producer.commit()
    await wait_for_values(place, ["a"])
    partition = Partition(place.topic, 0)
    async with Admin(log.bootstrap_servers) as admin:

        async def active():
            return len((await admin.describe_producers([partition]))[partition])

        assert await active() == 1
        with log.faults.move_clock(seconds=DAY_S - 60):
            assert await active() == 1
            # What was moved twice is moved by the sum.
            with log.faults.move_clock(seconds=120):
                assert await active() == 0
    await place.close()


async def test_ids_that_nobody_uses_expire_when_the_clock_moves(oncelog_own_broker):
    faults = oncelog_own_broker.faults
    place = Place(LIBRARIES["oncelog"]([oncelog_own_broker.bootstrap_servers]), "clock")
    await place.producer()
    name = f"{place.prefix}-id"
    with pytest.raises(OncelogError, match=f"no transaction of '{name}' is open, it is Empty"):
        faults.expire_transaction(name)
    with (
        faults.move_clock(seconds=8 * DAY_S),
        pytest.raises(OncelogError, match="the log knows no transactional id yet"),
    ):
        faults.expire_transaction(name)
    await place.close()
