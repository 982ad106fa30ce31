"""One storage node, a few producers, and a disk that dies again and again; after each death the log is judged.

What was answered must be there, once, at its offset, for ever, and a transaction that was ended shows all of its
records or none. What was not answered is sent again until it is.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from oncelog_robustness.simulator import extremes
from oncelog_robustness.simulator.process import ProcessState
from tests.integration.storage.storage_node import Node, topic

from oncelog.record.batch import iter_headers
from oncelog.record.records import Record, decode_batch, encode_batch
from oncelog.runtime import SystemClock

HOST = "storage-1"
RETRIABLE = {6, 7, 56}
"""NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR."""
CONFIRMED, ABORTED, OPEN = "confirmed", "aborted", "open"


@dataclass
class Sent:
    """One batch, of as many records as it has values."""

    values: list[bytes]
    sequence: int
    offset: int = -1
    """-1 as long as it was not answered."""
    outcome: str = CONFIRMED


@dataclass
class Producer:
    producer_id: int
    topic: str
    is_transactional: bool
    batches: list[Sent] = field(default_factory=list)
    open_from: int | None = None
    """Index of the transaction's first batch."""
    end_wanted: bool | None = None

    @property
    def next_sequence(self):
        return sum(len(batch.values) for batch in self.batches)


class Storm:
    def __init__(self, small, *, is_powered):
        self.small = small
        self.is_powered = is_powered
        self.draw = small.world.streams.stream("storm")
        self.settings = {
            name.removeprefix("ONCELOG_STORAGE_").lower(): value
            for name, value in extremes.draw_storage_settings(self.draw).items()
        }
        if is_powered:
            self.settings["flush_policy"] = "always"
        extremes.replace_constants(self.draw)
        self.topics = [
            topic(name, **{k.replace(".", "_"): v for k, v in configs.items()})
            for name, configs in (
                ("orders", extremes.draw_topic_config(self.draw)),
                ("bills", extremes.draw_topic_config(self.draw)),
            )
        ]
        self.producers = [
            Producer(100 + index, self.draw.choice(("orders", "bills")), index % 3 != 0)
            for index in range(5)
        ]
        self.process = None
        self.node = None
        self.died = None
        self.answered = 0
        self.lives = 0
        self.must_cut = False

    async def run(self, lives):
        for _ in range(lives):
            await self.live()
        return self.answered, self.small.digest

    # Lives.

    async def live(self):
        self.lives += 1
        world, disks = self.small.world, self.small.disks
        self.process, self.died = world.new_process(HOST), asyncio.Event()
        self.process.on_end(self.died.set)
        if self.lives > 1 and self.draw.random() < 0.3:
            # Killed while it recovers, too.
            disks.crash_after(self.process, self.draw.randint(0, 60))
        self.node = Node(
            disks.folder(HOST) / "data", self.topics, clock=SystemClock(), **self.settings
        )
        started = await self.call(self.node.role.start)
        disks.disarm(self.process)
        if started is not DIED:
            await self.judge()
            await self.work()
        self.process.end()
        disks.heal(HOST)
        if self.must_cut or (self.is_powered and self.draw.random() < 0.7):
            self.must_cut = False
            disks.power_cut(HOST)

    async def work(self):
        world, disks = self.small.world, self.small.disks
        workers = [world.loop.create_task(self.produce(each)) for each in self.producers]
        fate = self.draw.random()
        if fate < 0.3:
            disks.slow(HOST, self.draw.choice((0.005, 0.1)))
        await asyncio.sleep(self.draw.uniform(0, 2.0))
        if 0.3 < fate < 0.4:
            disks.fill(HOST, self.draw.randint(0, 2000))
            await asyncio.sleep(self.draw.uniform(0, 1.0))
            if self.draw.random() < 0.5:
                disks.heal(HOST)
                await asyncio.sleep(self.draw.uniform(0, 1.0))
        elif self.is_powered and 0.4 < fate < 0.5:
            # Only the page cache has it now, and a node that is just started again would believe the page cache.
            self.must_cut = True
            disks.fail_syncs(HOST, self.draw.randint(1, 3))
            await asyncio.sleep(self.draw.uniform(0, 1.0))
        if self.draw.random() < 0.2:
            stopping = asyncio.ensure_future(self.call(self.node.role.stop))
            if self.draw.random() < 0.5:
                disks.crash_after(self.process, self.draw.randint(0, 40))
            await asyncio.wait({stopping}, timeout=20)
        elif self.draw.random() < 0.6:
            disks.crash_after(self.process, self.draw.randint(0, 60))
            await asyncio.sleep(2.0)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for worker in workers:
            with contextlib.suppress(asyncio.CancelledError):
                worker.result()

    async def call(self, function, *args, **kwargs):
        """The result of something that the node does; DIED when it died meanwhile."""
        if self.process.state is ProcessState.DEAD:
            return DIED
        task = self.process.spawn(function(*args, **kwargs), "call")
        waiting = asyncio.ensure_future(self.died.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if self.process.state is ProcessState.DEAD:
                self.small.world.keep_for_ever(task)
                return DIED
            return task.result()
        finally:
            waiting.cancel()

    # Producing.

    async def produce(self, producer):
        while True:
            await asyncio.sleep(self.draw.uniform(0, 0.05))
            if producer.end_wanted is not None:
                is_done = await self.end(producer, producer.end_wanted)
            elif producer.batches and producer.batches[-1].offset < 0:
                is_done = await self.send(producer, producer.batches[-1])
            elif producer.open_from is not None and self.draw.random() < 0.4:
                producer.end_wanted = self.draw.random() < 0.5
                is_done = await self.end(producer, producer.end_wanted)
            else:
                is_done = await self.send(producer, self.next_batch(producer))
            if not is_done:
                await asyncio.sleep(0.2)

    def next_batch(self, producer):
        number = len(producer.batches)
        values = [
            b"%d.%d.%d" % (producer.producer_id, number, index) + b"x" * self.draw.choice((0, 300))
            for index in range(self.draw.randint(1, 3))
        ]
        batch = Sent(values, producer.next_sequence)
        if producer.is_transactional:
            batch.outcome = OPEN
            if producer.open_from is None:
                producer.open_from = number
        producer.batches.append(batch)
        return batch

    async def send(self, producer, batch):
        now = SystemClock().now()
        records = encode_batch(
            [Record(b"k", value, now) for value in batch.values],
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=batch.sequence,
            is_transactional=producer.is_transactional,
        )
        answer = await self.call(
            self.node.produce,
            producer.topic,
            records,
            transactional_id=f"t{producer.producer_id}" if producer.is_transactional else "",
        )
        if answer is DIED or answer.error_code in RETRIABLE:
            return False
        assert answer.error_code == 0, f"{producer}: {answer}"
        batch.offset = answer.base_offset
        self.answered += 1
        return True

    async def end(self, producer, is_commit):
        codes = await self.call(
            self.node.mark, producer.topic, (producer.producer_id, 0, is_commit)
        )
        if codes is DIED or codes[0] in RETRIABLE:
            return False
        assert codes == [0], codes
        for batch in producer.batches[producer.open_from :]:
            batch.outcome = CONFIRMED if is_commit else ABORTED
        producer.open_from = producer.end_wanted = None
        self.answered += 1
        return True

    # Judging.

    async def judge(self):
        for each in self.topics:
            everything = await self.read(each.name, is_committed=False)
            if everything is DIED:
                return
            committed = await self.read(each.name, is_committed=True)
            self.judge_topic(each.name, everything, committed)

    def judge_topic(self, name, everything, committed):
        places = {}
        for offset, value in everything.items():
            assert value not in places, f"{value} is at {places[value]} and {offset}"
            places[value] = offset
        for producer in self.producers:
            if producer.topic != name:
                continue
            for batch in producer.batches:
                found = [places.pop(value, None) for value in batch.values]
                if batch.offset >= 0:
                    wanted = list(range(batch.offset, batch.offset + len(batch.values)))
                    assert found == wanted, f"{producer.producer_id}: {batch} is at {found}"
                else:
                    assert len({offset is None for offset in found}) == 1, f"{batch} is at {found}"
                if found[0] is not None:
                    self.judge_outcome(producer, batch, [offset in committed for offset in found])
        assert not places, f"nobody sent {places}"

    def judge_outcome(self, producer, batch, is_shown):
        if batch.outcome == CONFIRMED:
            # Behind an open transaction of somebody else it is not shown yet.
            return
        if batch.outcome == ABORTED or producer.end_wanted is None:
            assert not any(is_shown), f"{producer.producer_id}: {batch} is shown"

    async def read(self, name, *, is_committed):
        """Record value by offset, as a consumer sees it."""
        found, offset = {}, 0
        while True:
            answer = await self.call(self.node.fetch, name, offset, committed=is_committed)
            if answer is DIED:
                return DIED
            assert answer.error_code == 0, f"{name} at {offset}: {answer}"
            if not answer.records:
                break
            open_aborted = set()
            starts = sorted((t.first_offset, t.producer_id) for t in answer.aborted_transactions)
            for position, header in iter_headers(answer.records):
                offset = header.base_offset + header.last_offset_delta + 1
                while starts and starts[0][0] <= header.base_offset:
                    open_aborted.add(starts.pop(0)[1])
                if header.is_control:
                    open_aborted.discard(header.producer_id)
                elif not (is_committed and header.producer_id in open_aborted):
                    for record in decode_batch(memoryview(answer.records), position):
                        found[record.offset] = record.value
        if not is_committed:
            assert offset == answer.high_watermark, f"{name} ends at {offset}: {answer}"
        return found


class _Died:
    pass


DIED = _Died()
