"""Threads that send more than there is room for: who waits, in which order, and for how long."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from oncelog.client.blocking.intake import Intake
from oncelog.client.blocking.io_thread import IoThread
from oncelog.client.core.producer_batch import Record
from oncelog.client.core.producer_settings import producer_settings
from oncelog.client.delivery import Delivery
from oncelog.client.errors import BufferExhaustedError

WAIT_S = 30
LINE_BYTES = 10_000


class SlowProducer:
    """Its line is full until `drained`. It takes what comes then."""

    def __init__(self, max_block_ms):
        self.settings = producer_settings({"buffer_memory": 40_000, "max_block_ms": max_block_ms})
        self.line = SimpleNamespace(size_bytes=LINE_BYTES, exhausted_count=0)
        self.is_drained, self.taken = None, []

    async def ready(self):
        await self.is_drained.wait()

    async def begin(self):
        self.is_drained = asyncio.Event()

    def take(self, record, delivery, on_delivery):
        self.taken.append(record.value)

    def drain(self):
        self.line.size_bytes = 0
        self.is_drained.set()


@pytest.fixture
def io():
    thread = IoThread("producer")
    thread.start()
    yield thread
    thread.stop()


def test_an_interruption_at_the_hand_over_cancels_the_work(io, monkeypatch):
    """Else `oncelog produce` told of lines that it wrote before a Ctrl-C, and went on writing."""
    begun, ended = threading.Event(), threading.Event()
    post = io.post

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupted(job):
        monkeypatch.setattr(io, "post", post)
        post(job)
        assert begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        io.wait(work)
    assert ended.wait(5)


def intake_of(io, max_block_ms):
    producer = SlowProducer(max_block_ms)
    io.wait(producer.begin)
    return Intake(io, producer), producer


def test_an_interruption_at_a_send_stops_no_later_one(io, monkeypatch):
    """Else the flag "the I/O thread will look" stayed set, and nobody looked again: the next flush waited for ever."""
    intake, producer = intake_of(io, 10_000)
    producer.line.size_bytes = 0
    post = io.post

    def interrupted(job):
        monkeypatch.setattr(io, "post", post)
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(intake, b"pressed")
    put(intake, b"next")
    io.do(lambda: None)
    assert producer.taken == [b"next"]


def put(intake, value):
    record = Record("t", None, 0, None, value, [])
    intake.put(record, Delivery.of(record), None)


def test_a_record_without_room_waits_for_max_block_ms(io):
    intake, producer = intake_of(io, 200)
    began = time.monotonic()
    with pytest.raises(BufferExhaustedError, match=r"no room in buffer\.memory=40000 within max"):
        put(intake, b"v")
    assert time.monotonic() - began >= 0.2
    io.do(lambda: None)
    assert producer.line.exhausted_count == 1
    assert not producer.taken


def test_threads_that_wait_are_served_in_their_order(io):
    intake, producer = intake_of(io, WAIT_S * 1000)
    values = [b"%d" % number for number in range(20)]
    threads = []
    for value in values:
        threads.append(threading.Thread(target=put, args=(intake, value)))
        threads[-1].start()
        while len(intake._waiting) < len(threads):
            time.sleep(0.001)
    io.do(producer.drain)
    for thread in threads:
        thread.join(WAIT_S)
    io.do(lambda: None)
    assert producer.taken == values


def test_one_who_gives_up_lets_the_others_go_on(io):
    intake, producer = intake_of(io, 300)
    with pytest.raises(BufferExhaustedError):
        put(intake, b"late")
    producer.line.size_bytes = 0
    put(intake, b"next")
    io.do(lambda: None)
    assert producer.taken == [b"next"]
