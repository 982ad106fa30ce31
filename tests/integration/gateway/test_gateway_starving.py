"""Clients that send half a request, or read no answer, take REST and `/health` from nobody."""

import asyncio
import contextlib
import json

from tests.integration.gateway.gateway_cluster import gateway_cluster

HALF_HEAD = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HALF_BODY = (
    b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1000\r\n\r\n{"name": '
)


@contextlib.asynccontextmanager
async def starving(tmp_path, **settings):
    async with (
        gateway_cluster(tmp_path, **settings) as cluster,
        asyncio.timeout(30),
        contextlib.AsyncExitStack() as stack,
    ):
        yield cluster, stack


async def _opened(cluster, stack, sent, local="127.0.0.1"):
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port, local_addr=(local, 0))
    # The stack keeps the writer: one that nobody has is closed.
    stack.callback(writer.close)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def test_210_half_sent_requests_starve_nobody(tmp_path):
    async with starving(tmp_path) as (cluster, stack):
        for sent in (b"", HALF_HEAD, HALF_BODY):
            for _ in range(70):
                await _opened(cluster, stack, sent)
        for path in ("/health", "/v1/topics", "/ready"):
            assert (await cluster.get(path)).status == 200


async def test_a_client_with_many_connections_takes_none_from_another(tmp_path):
    async with starving(tmp_path, connections_max=20) as (cluster, stack):
        reader, writer = await _opened(cluster, stack, HALF_HEAD, local="127.0.0.2")
        for _ in range(60):
            await _opened(cluster, stack, HALF_HEAD)
        assert (await cluster.get("/health")).status == 200
        writer.write(b"done\r\n\r\n")
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"


async def test_a_request_that_dribbles_ends_in_time(tmp_path):
    async with starving(tmp_path, request_timeout_ms=400) as (cluster, stack):
        quiet, _ = await _opened(cluster, stack, b"")
        half_body, _ = await _opened(cluster, stack, HALF_BODY)
        half_head, writer = await _opened(cluster, stack, HALF_HEAD)

        async def dribble():
            with contextlib.suppress(OSError):
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert await quiet.read() == b""
        for reader in (half_body, half_head):
            assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        dribbling.cancel()


async def test_a_connection_is_used_again_and_again(tmp_path):
    async with starving(tmp_path, request_timeout_ms=500) as (cluster, stack):
        reader, writer = await _opened(cluster, stack, b"")
        for _ in range(4):
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            await reader.readuntil(b'{"status":"alive"}')
            await asyncio.sleep(0.2)


async def test_a_head_without_end_is_refused_before_it_is_all_here(tmp_path):
    async with starving(tmp_path) as (cluster, stack):
        reader, writer = await _opened(cluster, stack, HALF_HEAD)
        writer.write(b"x" * 600_000)
        await writer.drain()
        assert await reader.readline() == (b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert b"application/problem+json" in head
        assert json.loads(body)["status"] == 431


async def test_health_is_answered_while_every_role_is_silent(tmp_path):
    async with starving(tmp_path, connections_max=20, call_timeout_ms=1500) as (cluster, stack):
        cluster.coordinator.is_silent = True
        request = b"GET /v1/transactions HTTP/1.1\r\nHost: localhost\r\n\r\n"
        hanging = [(await _opened(cluster, stack, request))[0] for _ in range(15)]
        while (await cluster.get("/v1/topics")).status != 503:
            pass
        assert (await cluster.get("/health")).status == 200
        for reader in hanging:
            assert await reader.readline() == b"HTTP/1.1 504 Gateway Timeout\r\n"
        assert (await cluster.get("/v1/topics")).status == 200


async def test_a_client_that_reads_no_answer_is_dropped(tmp_path):
    async with starving(tmp_path, request_timeout_ms=300) as (cluster, stack):
        _, writer = await _opened(cluster, stack, b"")
        writer.transport.pause_reading()
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(request * 100)
                await writer.drain()
        assert (await cluster.get("/health")).status == 200


async def test_the_longest_transactional_id_fits_into_a_request(tmp_path):
    async with starving(tmp_path) as (cluster, _):
        path = "/v1/transactions/" + "%C3%A4" * (32_767 // 2)
        assert (await cluster.get(path)).status == 404
