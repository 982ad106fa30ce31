"""What every adapter in `oncelog_robustness/clients` must do, against a real server or a simulated one.

A test module subclasses `ClientContract` and says with `run` where a scenario takes place. A scenario gets a `Place`:
the library's clients, names of its own, and a way to lose answers.
"""

import asyncio
import itertools

import pytest
from oncelog_robustness.clients.contract import Fenced, Refused, Unanswered
from oncelog_robustness.history import Isolation

TIMEOUT_MS = 30_000
PRODUCE, METADATA, END_TXN = 0, 3, 26
POLL_MS = 500
WAIT_S = 40.0

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


class Place:
    """Where one scenario takes place. Subclasses lose answers."""

    _numbers = itertools.count()

    def __init__(self, clients, prefix):
        self.clients = clients
        self.prefix = f"{prefix}-{next(self._numbers)}"
        self._open = []

    def lose_answers(self, api_key, times):
        """The next `times` answers to this request are lost on their way."""
        raise AssertionError("a subclass loses answers")

    @property
    def topic(self):
        return f"{self.prefix}-topic"

    async def close(self):
        while self._open:
            await self._open.pop().close()

    async def make_topic(self, partitions=1):
        admin = await self.clients.admin("admin")
        self._open.append(admin)
        await admin.create_topic(self.topic, partitions, 1, {})
        return admin

    async def producer(self, name="id", timeout_ms=TIMEOUT_MS):
        producer = await self.clients.producer(name, f"{self.prefix}-{name}", timeout_ms)
        self._open.append(producer)
        await producer.init_transactions()
        return producer

    async def values(self, isolation=COMMITTED, partition=0):
        """What a reader finds between the start and the end of a partition, and that its position gets to the end."""
        admin = await self.clients.admin("admin")
        place = (self.topic, partition)
        start, end = (await admin.bounds([place], isolation))[place]
        consumer = await self.clients.consumer("reader", isolation, None)
        await consumer.assign({place: start})
        found = []
        async with asyncio.timeout(WAIT_S):
            while await consumer.position(place) < end:
                found += [read.value for read in await consumer.poll(POLL_MS)]
        await consumer.close()
        await admin.close()
        return found

    async def await_values(self, wanted, isolation=COMMITTED, partition=0):
        """Until a reader finds these: a broker may answer EndTxn before its markers are written."""
        async with asyncio.timeout(WAIT_S):
            while (found := await self.values(isolation, partition)) != wanted:
                assert len(found) < len(wanted), found


class ClientContract:
    def run(self, scenario):
        """Run `scenario(place)` to its end."""
        raise AssertionError("a subclass runs the scenario")

    def in_world(self, scenario):
        async def at(place):
            self.place = place
            await scenario()
            await place.close()

        self.run(at)

    async def test_what_was_committed_is_read(self):
        await self.place.make_topic(partitions=2)
        producer = await self.place.producer()
        await producer.begin()
        offsets = await asyncio.gather(
            producer.send((self.place.topic, 0), "a"),
            producer.send((self.place.topic, 0), "b"),
            producer.send((self.place.topic, 1), "c"),
        )
        assert offsets == [0, 1, 0]
        assert await self.place.values() == []
        await producer.commit()
        await self.place.await_values(["a", "b"])
        await self.place.await_values(["c"], partition=1)

    async def test_what_was_aborted_is_read_by_none_that_ask_for_committed(self):
        await self.place.make_topic()
        producer = await self.place.producer()
        for value, ending in (("a", producer.abort), ("b", producer.commit)):
            await producer.begin()
            await producer.send((self.place.topic, 0), value)
            await ending()
        await self.place.await_values(["b"])
        await self.place.await_values(["a", "b"], UNCOMMITTED)

    async def test_a_transaction_of_nothing_commits(self):
        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        await producer.commit()
        await producer.begin()
        await producer.abort()
        await producer.begin()
        await producer.send((self.place.topic, 0), "a")
        await producer.commit()
        await self.place.await_values(["a"])

    async def test_a_zombie_is_fenced_and_its_transaction_is_gone(self):
        await self.place.make_topic()
        zombie = await self.place.producer()
        await zombie.begin()
        await zombie.send((self.place.topic, 0), "zombie")
        successor = await self.place.producer()
        with pytest.raises(Fenced):
            await zombie.commit()
        with pytest.raises(Fenced):
            await zombie.begin()
        await successor.begin()
        await successor.send((self.place.topic, 0), "successor")
        await successor.commit()
        await self.place.await_values(["successor"])

    async def test_a_zombie_that_writes_hears_by_its_abort_it_is_fenced(self):
        await self.place.make_topic()
        zombie = await self.place.producer()
        await zombie.begin()
        await zombie.send((self.place.topic, 0), "before")
        await self.place.producer()
        with pytest.raises(Refused):
            await zombie.send((self.place.topic, 0), "after")
        with pytest.raises(Fenced):
            await zombie.abort()
        assert await self.place.values() == []

    async def test_a_commit_whose_answer_is_lost_once_is_repeated(self):
        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        await producer.send((self.place.topic, 0), "a")
        self.place.lose_answers(END_TXN, 1)
        await producer.commit()
        await producer.begin()
        await producer.send((self.place.topic, 0), "b")
        await producer.commit()
        await self.place.await_values(["a", "b"])

    @pytest.mark.slow
    async def test_a_commit_without_an_answer_is_unanswered_not_refused(self):
        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        await producer.send((self.place.topic, 0), "a")
        self.place.lose_answers(END_TXN, 1000)
        with pytest.raises(Unanswered):
            await producer.commit()
        with pytest.raises((Refused, Unanswered)):
            await producer.begin()
        self.place.lose_answers(END_TXN, 0)
        # It had happened at the first try.
        await self.place.await_values(["a"])

    async def test_a_commit_that_is_fenced_at_its_second_try_is_unanswered(self):
        """The first try decided it, and then a successor came."""

        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        await producer.send((self.place.topic, 0), "a")
        self.place.lose_answers(END_TXN, 1000)
        commit = asyncio.create_task(producer.commit())
        async with asyncio.timeout(WAIT_S):
            while not await self.place.values():
                pass
        await self.place.producer()
        self.place.lose_answers(END_TXN, 0)
        with pytest.raises(Unanswered):
            await commit

    async def test_a_send_whose_answer_is_lost_is_in_the_log_once(self):
        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        self.place.lose_answers(PRODUCE, 1)
        assert await producer.send((self.place.topic, 0), "a") == 0
        assert await producer.send((self.place.topic, 0), "b") == 1
        await producer.commit()
        await self.place.await_values(["a", "b"])

    async def test_sends_under_way_together_keep_the_order_of_their_calls(self):
        """Also while the library still has to learn where the topic is, and is not answered at first."""

        await self.place.make_topic()
        producer = await self.place.producer()
        await producer.begin()
        self.place.lose_answers(METADATA, 2)
        sends = [producer.send((self.place.topic, 0), str(number)) for number in range(12)]
        assert await asyncio.gather(*sends) == list(range(12))
        await producer.abort()

    async def test_an_idempotent_send_is_in_the_log_once(self):
        await self.place.make_topic()
        producer = await self.place.clients.producer("plain", None, TIMEOUT_MS)
        self.place.lose_answers(PRODUCE, 1)
        assert await producer.send((self.place.topic, 0), "a", "key") == 0
        assert await producer.send((self.place.topic, 0), None, "key") == 1
        await self.place.await_values(["a", None])
        await producer.close()

    async def test_offsets_are_committed_with_their_transaction(self):
        admin = await self.place.make_topic()
        group, partition = f"{self.place.prefix}-group", (self.place.topic, 0)
        assert await admin.committed(group, [partition]) == {partition: -1}
        producer = await self.place.producer()
        for offset, ending in ((7, producer.commit), (9, producer.abort)):
            await producer.begin()
            await producer.send_offsets({partition: offset}, group)
            await ending()
        assert await admin.committed(group, [partition]) == {partition: 7}

    async def test_members_of_a_group_share_and_take_over(self):
        await self.place.make_topic(partitions=2)
        group = f"{self.place.prefix}-group"
        both = {(self.place.topic, 0), (self.place.topic, 1)}
        producer = await self.place.producer()
        await producer.begin()
        for partition in sorted(both):
            for value in ("a", "b"):
                await producer.send(partition, f"{value}{partition[1]}")
        await producer.commit()

        one = await self.place.clients.consumer("one", COMMITTED, group)
        await one.subscribe([self.place.topic])
        assert await next_positions(one) == dict.fromkeys(both, 0)
        found = []
        async with asyncio.timeout(WAIT_S):
            while len(found) < 4:
                found += [read.value for read in await one.poll(POLL_MS)]
        assert sorted(found) == ["a0", "a1", "b0", "b1"]
        await one.commit({(self.place.topic, 0): 1, (self.place.topic, 1): 2})

        other = await self.place.clients.consumer("other", COMMITTED, group)
        await other.subscribe([self.place.topic])
        owned, taken = {}, {}
        async with asyncio.timeout(WAIT_S):
            while len(owned) != 1 or len(taken) != 1:
                owned, taken = await asyncio.gather(
                    _positions(one, owned), _positions(other, taken)
                )
        assert owned | taken == {(self.place.topic, 0): 1, (self.place.topic, 1): 2}

        await one.close()
        assert await next_positions(other) == {(self.place.topic, 0): 1, (self.place.topic, 1): 2}
        await other.close()

    async def test_a_consumer_may_not_commit_what_it_was_not_given(self):
        await self.place.make_topic()
        group = f"{self.place.prefix}-group"
        member = await self.place.clients.consumer("member", COMMITTED, group)
        await member.subscribe([self.place.topic])
        await next_positions(member)
        with pytest.raises(Refused):
            await member.commit({(f"{self.place.topic}-other", 0): 1})
        await member.close()

    async def test_offsets_of_a_generation_that_is_over_are_refused(self):
        """KIP-447; a library that sends no generation notices by itself."""

        admin = await self.place.make_topic(partitions=2)
        group, partition = f"{self.place.prefix}-group", (self.place.topic, 0)
        member = await self.place.clients.consumer("member", COMMITTED, group)
        await member.subscribe([self.place.topic])
        await next_positions(member)
        other = await self.place.clients.consumer("other", COMMITTED, group)
        await other.subscribe([self.place.topic])
        await next_positions(other)
        producer = await self.place.producer()
        await producer.begin()
        with pytest.raises(Refused):
            await producer.send_offsets({partition: 1}, member)
        await producer.abort()
        with pytest.raises(Refused):
            await member.commit({partition: 1})
        await next_positions(member)
        await producer.begin()
        await producer.send_offsets({partition: 2}, member)
        await producer.commit()
        assert await admin.committed(group, [partition]) == {partition: 2}
        for one in (member, other):
            await one.close()

    async def test_bounds_are_those_of_the_isolation_level(self):
        admin = await self.place.make_topic()
        partition = (self.place.topic, 0)
        producer = await self.place.producer()
        await producer.begin()
        await producer.send(partition, "a")
        assert (await admin.bounds([partition], UNCOMMITTED))[partition] == (0, 1)
        assert (await admin.bounds([partition], COMMITTED))[partition] == (0, 0)
        await producer.commit()
        async with asyncio.timeout(30):
            # A cluster answers EndTxn before its markers are written, as Kafka does.
            bounds = admin.bounds
            while (await bounds([partition], COMMITTED))[partition] != (0, 2):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await admin.delete_records({partition: 1})
        assert (await admin.bounds([partition], COMMITTED))[partition] == (1, 2)

    async def test_a_reader_does_not_jump_over_what_is_gone(self):
        admin = await self.place.make_topic()
        partition = (self.place.topic, 0)
        producer = await self.place.producer()
        await producer.begin()
        await producer.send(partition, "a")
        await producer.commit()
        await admin.delete_records({partition: 1})
        consumer = await self.place.clients.consumer("reader", COMMITTED, None)
        await consumer.assign({partition: 0})
        with pytest.raises(Refused):
            await _first_reads(consumer)
        await consumer.close()

    async def test_topics_are_made_grow_and_go_however_often_one_asks(self):
        admin = await self.place.make_topic()
        await admin.create_topic(self.place.topic, 1, 1, {})
        await admin.add_partitions(self.place.topic, 3)
        await admin.add_partitions(self.place.topic, 3)
        assert len(await admin.bounds([(self.place.topic, 2)], COMMITTED)) == 1
        await admin.delete_topic(self.place.topic)
        await admin.delete_topic(self.place.topic)


async def next_positions(consumer):
    """What the next rebalance that gives it something gives it."""
    async with asyncio.timeout(WAIT_S):
        while not (positions := await _positions(consumer, {})):
            pass
    return positions


async def _positions(consumer, positions):
    """What it has after another poll, which reads nothing."""
    assert await consumer.poll(POLL_MS) == ()
    taken = consumer.take_new_positions()
    return positions if taken is None else dict(taken)


async def _first_reads(consumer):
    async with asyncio.timeout(WAIT_S):
        while not (reads := await consumer.poll(POLL_MS)):
            pass
    return reads
