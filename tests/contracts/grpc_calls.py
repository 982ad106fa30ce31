"""What oncelog relies on in `grpc.aio` itself, call by call, from the real library and from the simulator's.

A subclass names its `medium`, as of `SessionContract`. Requests and answers are plain bytes.
"""

import asyncio
import gc
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

DEADLINE_S = 90
OPTIONS = [
    ("grpc.max_receive_message_length", 100_000),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


class Scripted(grpc.GenericRpcHandler):
    """`/t/<what>`: a method for each thing that a server can do."""

    def __init__(self):
        self.begun = self.ended = self.cancelled = 0
        self.seen = []
        self.told = asyncio.Event()

    def service(self, details):
        name = details.method.removeprefix("/t/")
        made = {
            "echo": grpc.stream_stream_rpc_method_handler(self.echo),
            "echo_by_iteration": grpc.stream_stream_rpc_method_handler(self.echo_by_iteration),
            "count": grpc.unary_stream_rpc_method_handler(self.count),
            "count_then_abort": grpc.unary_stream_rpc_method_handler(self.count_then_abort),
            "join": grpc.stream_unary_rpc_method_handler(self.join),
            "twice": grpc.unary_unary_rpc_method_handler(self.twice),
            "waits": grpc.unary_unary_rpc_method_handler(self.waits),
            "until_told": grpc.unary_unary_rpc_method_handler(self.until_told),
            "silent": grpc.stream_stream_rpc_method_handler(self.silent),
            "a_bug": grpc.unary_unary_rpc_method_handler(self.a_bug),
            "with_code": grpc.unary_unary_rpc_method_handler(self.with_code),
            "metadata": grpc.unary_unary_rpc_method_handler(self.metadata),
        }
        return made.get(name)

    async def echo(self, requests, context):
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    async def echo_by_iteration(self, requests, context):
        async for message in requests:
            yield message

    async def count(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number

    async def count_then_abort(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number
        await context.abort(grpc.StatusCode.DATA_LOSS, "no more")

    async def join(self, requests, context):
        return b"".join([message async for message in requests])

    async def twice(self, request, context):
        return request * 2

    async def waits(self, request, context):
        await self._wait(asyncio.Event())

    async def silent(self, requests, context):
        await context.send_initial_metadata(())
        await self._wait(asyncio.Event())

    async def until_told(self, request, context):
        await self._wait(self.told)
        return b"told"

    async def _wait(self, event):
        self.begun += 1
        try:
            await event.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended += 1

    async def a_bug(self, request, context):
        raise ValueError("not this way")

    async def with_code(self, request, context):
        context.set_code(grpc.StatusCode.ALREADY_EXISTS)
        context.set_details("it is there")
        return b""

    async def metadata(self, request, context):
        self.seen = dict(context.invocation_metadata())
        context.set_trailing_metadata((("trailing", "t"),))
        await context.send_initial_metadata((("initial", "i"),))
        return context.peer().encode()

    async def until(self, holds):
        async with asyncio.timeout(DEADLINE_S):
            # No condition: a handler that is cancelled a second time could not tell of it.
            while not holds(self):  # noqa: ASYNC110
                await asyncio.sleep(0.005)


@asynccontextmanager
async def served(port=0, calls_max=None):
    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=calls_max)
    scripted = Scripted()
    server.add_generic_rpc_handlers((scripted,))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield scripted, port, server
    finally:
        await server.stop(0)


def channel_to(port):
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)


class GrpcContract:
    def in_world(self, scenario):
        async def inside():
            async with (
                served() as (self.scripted, port, self.server),
                channel_to(port) as self.channel,
            ):
                await scenario()

        self.medium.in_world(inside)

    @pytest.mark.parametrize("method", ["/t/echo", "/t/echo_by_iteration"])
    async def test_messages_go_both_ways_in_order(self, method):
        call = self.channel.stream_stream(method)()
        for number in range(100):
            await call.write(b"%d" % number)
            assert await call.read() == b"%d" % number
        await call.write(b"last")
        await call.done_writing()
        assert await call.read() == b"last"
        assert await call.read() is grpc.aio.EOF
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        assert call.done()
        with pytest.raises(asyncio.InvalidStateError, match="already finished"):
            await call.write(b"late")

    async def test_a_closed_half_is_written_to_no_more(self):
        call = self.channel.stream_stream("/t/silent")()
        await call.done_writing()
        with pytest.raises(asyncio.InvalidStateError, match="half closed"):
            await call.write(b"more")

    async def test_requests_may_come_from_an_iterator(self):
        async def requests():
            for part in (b"a", b"b", b"c"):
                yield part

        assert await self.channel.stream_unary("/t/join")(requests()) == b"abc"
        assert [m async for m in self.channel.stream_stream("/t/echo")(requests())] == [
            b"a",
            b"b",
            b"c",
        ]

    async def test_a_status_comes_after_all_messages(self):
        seen = [message async for message in self.channel.unary_stream("/t/count")(b"50")]
        assert seen == [b"%d" % number for number in range(50)]
        call = self.channel.unary_stream("/t/count_then_abort")(b"50")
        seen = []
        with pytest.raises(grpc.aio.AioRpcError) as failure:  # noqa: PT012
            async for message in call:
                seen.append(message)
        assert len(seen) == 50
        assert failure.value.code() is grpc.StatusCode.DATA_LOSS
        assert failure.value.details() == "no more"

    @pytest.mark.parametrize(
        ("method", "code", "words"),
        [
            ("/t/a_bug", grpc.StatusCode.UNKNOWN, "Unexpected <class 'ValueError'>: not this way"),
            ("/t/with_code", grpc.StatusCode.ALREADY_EXISTS, "it is there"),
            ("/t/nothing", grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
        ],
    )
    async def test_errors_are_statuses(self, method, code, words):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await self.channel.unary_unary(method)(b"")
        assert (failure.value.code(), failure.value.details()) == (code, words)
        assert await self.channel.unary_unary("/t/twice")(b"x") == b"xx"

    async def test_metadata_goes_both_ways(self):
        call = self.channel.unary_unary("/t/metadata")(b"", metadata=(("mine", "m"),))
        assert (await call).startswith(b"ipv4:127.0.0.1:")
        assert self.scripted.seen["mine"] == "m"
        assert dict(await call.initial_metadata())["initial"] == "i"
        assert dict(await call.trailing_metadata())["trailing"] == "t"

    async def test_cancelling_a_call_ends_it_on_both_sides_and_no_other(self):
        other = self.channel.unary_unary("/t/until_told")(b"")
        call = self.channel.stream_stream("/t/silent")()
        await call.wait_for_connection()
        await self.scripted.until(lambda it: it.begun == 2)
        reading = asyncio.ensure_future(call.read())
        await asyncio.sleep(0.01)
        assert call.cancel()
        assert not call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert call.cancelled()
        await self.scripted.until(lambda it: it.cancelled == 1)
        self.scripted.told.set()
        assert await other == b"told"

    async def test_cancelling_whoever_awaits_cancels_the_call(self):
        async def ask():
            await self.channel.unary_unary("/t/waits")(b"")

        async def read():
            call = self.channel.stream_stream("/t/silent")()
            await call.initial_metadata()
            reading.set()
            await call.read()

        reading = asyncio.Event()
        for ended, what in enumerate((ask, read), 1):
            task = asyncio.create_task(what())
            await self.scripted.until(lambda it, ended=ended: it.begun == ended)
            if what is read:
                # Who gives up waiting for the metadata leaves the call as it is.
                await reading.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await self.scripted.until(lambda it, ended=ended: it.cancelled == ended)

    async def test_a_dropped_call_goes_on_until_its_channel_closes(self):
        call = self.channel.stream_stream("/t/silent")()
        await call.initial_metadata()
        del call
        gc.collect()
        for _ in range(20):
            assert await self.channel.unary_unary("/t/twice")(b"x") == b"xx"
        assert self.scripted.begun == 1
        assert self.scripted.cancelled == 0
        await self.channel.close()
        await self.scripted.until(lambda it: it.cancelled == 1)

    async def test_closing_the_channel_ends_its_calls(self):
        call = self.channel.stream_stream("/t/silent")()
        await self.scripted.until(lambda it: it.begun == 1)
        await self.channel.close()
        await self.scripted.until(lambda it: it.cancelled == 1)
        assert call.done()
        with pytest.raises(grpc.aio.UsageError):
            await self.channel.unary_unary("/t/twice")(b"")

    async def test_a_deadline_ends_the_call_on_both_sides(self):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await self.channel.unary_unary("/t/waits")(b"", timeout=0.1)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert failure.value.details() == "Deadline Exceeded"
        await self.scripted.until(lambda it: it.cancelled == 1)

    @pytest.mark.parametrize("size", [60_000, 200_000])
    async def test_a_message_over_the_limit_fails_its_call(self, size):
        # The answer to the first is too large for the client, the second for the self.server.
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await self.channel.unary_unary("/t/twice")(b"x" * size)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max" in failure.value.details()
        assert await self.channel.unary_unary("/t/twice")(b"x") == b"xx"

    async def test_too_many_calls_are_refused(self):
        async with (
            served(calls_max=1) as (scripted, port, _server),
            channel_to(port) as channel,
        ):
            waits = channel.unary_unary("/t/until_told")(b"")
            await scripted.until(lambda it: it.begun == 1)
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await channel.unary_unary("/t/twice")(b"")
            assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            scripted.told.set()
            assert await waits == b"told"

    async def test_a_writer_waits_for_a_reader_that_does_not_read(self):
        call = self.channel.stream_stream("/t/silent")()
        sent = 0

        async def push():
            nonlocal sent
            while True:
                await call.write(b"x" * 50_000)
                sent += 1

        pushing = asyncio.create_task(push())
        await asyncio.sleep(0.5)
        before = sent
        await asyncio.sleep(0.5)
        assert 0 < sent == before
        pushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pushing
        await self.scripted.until(lambda it: it.cancelled == 1)

    async def test_a_stopping_server_gives_calls_their_grace(self):
        patient = self.channel.unary_unary("/t/until_told")(b"")
        await self.scripted.until(lambda it: it.begun == 1)
        stopping = asyncio.create_task(self.server.stop(DEADLINE_S))
        await asyncio.sleep(0.05)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await self.channel.unary_unary("/t/twice")(b"")
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        self.scripted.told.set()
        assert await patient == b"told"
        await stopping

    async def test_a_server_that_stops_at_once_ends_its_calls(self):
        call = self.channel.unary_unary("/t/waits")(b"")
        await self.scripted.until(lambda it: it.begun == 1)
        await self.server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        await self.scripted.until(lambda it: it.cancelled == 1)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE

    async def test_a_channel_connects_again(self):
        async with served() as (_, port, _server):
            pass
        async with channel_to(port) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await channel.unary_unary("/t/twice")(b"")
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "failed to connect to all addresses" in failure.value.details()
            for _ in range(2):
                async with served(port):
                    await self._answered(channel)

    @staticmethod
    async def _answered(channel):
        async with asyncio.timeout(DEADLINE_S):
            while True:
                call = channel.unary_unary("/t/twice")(b"x")
                code = await call.code()
                if code is grpc.StatusCode.OK:
                    assert await call == b"xx"
                    return
                assert code is grpc.StatusCode.UNAVAILABLE
                await asyncio.sleep(0.05)

    async def test_an_address_belongs_to_one_server(self):
        async with served() as (_, port, _server):
            other = grpc.aio.server(options=OPTIONS)
            with pytest.raises(RuntimeError, match="Failed to bind to address"):
                other.add_insecure_port(f"127.0.0.1:{port}")
