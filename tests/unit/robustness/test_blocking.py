"""A blocking call on a loop: it waits by giving the loop its turn."""

import asyncio
import time

import pytest
from oncelog_robustness.clients.blocking import blocking

from oncelog.client import produce_pipeline
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import Address
from oncelog.errors import ErrorCode, KafkaError


def sleeps_in_turn(name, seconds, trace):
    for step in range(2):
        trace.append(f"{name}{step}")
        produce_pipeline.time.sleep(seconds)
    return name


async def test_two_calls_sleep_side_by_side():
    trace = []
    calls = (blocking(sleeps_in_turn, name, 0.01, trace) for name in "ab")
    assert await asyncio.gather(*calls) == ["a", "b"]
    assert sorted(trace[:2]) == ["a0", "b0"]
    assert sorted(trace[2:]) == ["a1", "b1"]


async def test_what_a_call_raises_is_raised():
    def fails():
        produce_pipeline.time.sleep(0)
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        await blocking(fails)


async def test_a_cancelled_call_ends_where_it_waits():
    trace = []

    def waits():
        try:
            produce_pipeline.time.sleep(60)
        finally:
            trace.append("ended")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await blocking(waits)
    assert trace == ["ended"]


async def test_a_connection_of_the_client_is_one_of_the_loop():
    async def serve(reader, writer):
        await reader.readexactly(4)
        writer.write(b"pong")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname()[:2])

    def talk():
        connection = Connection.connect(address, "test", Deadline(20_000))
        connection._stream.sendall(b"ping")
        answer = bytes(connection._read_exactly(4, Deadline(20_000)))
        with pytest.raises(KafkaError) as ended:
            connection._read_exactly(1, Deadline(20_000))
        return answer, ended.value.error_code

    found = await blocking(talk)
    server.close()
    assert found == (b"pong", ErrorCode.NETWORK_EXCEPTION)


def test_elsewhere_the_client_sleeps_as_ever():
    began = time.monotonic()
    produce_pipeline.time.sleep(0.01)
    assert time.monotonic() - began >= 0.009
