"""What sessions promise when the other side is killed, frozen, absent, greedy or restarted, over whatever carries them.

A subclass names its `medium`: what `grpc.aio` is there, how a scenario runs, and how a process is started and killed.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from tests.contracts.stub import DEADLINE_S, ScriptedStorage, length_of, produce
from tests.integration.rpc.scripted_controller import Cluster, ScriptedController, Served

from oncelog.api.v1 import peer_pb2, storage_pb2
from oncelog.rpc.channel import PlainStub
from oncelog.rpc.contract import PEER, STORAGE
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits
from oncelog.telemetry import spans
from oncelog.trace import TransactionTrace

TRACE = TransactionTrace(7, 8, 9)
PRODUCE = "/oncelog.api.v1.Storage/Produce"


@asynccontextmanager
async def stub_of(address, limits=None):
    session = PeerSession(address, limits or SessionLimits())
    try:
        yield SessionStub(session, STORAGE)
    finally:
        await session.close()


@asynccontextmanager
async def stub_and_server(limits=None):
    servicer = ScriptedStorage()
    async with (
        Served(servicer, STORAGE, limits) as served,
        stub_of(served.address, limits) as stub,
    ):
        yield stub, served, servicer


async def answered_again(stub):
    """The first answer after a failure; calls fail at once while the session pauses."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(PeerUnavailable):
                return await stub.Produce(produce(length=5), timeout=DEADLINE_S)
            await asyncio.sleep(0.01)


async def refused(stub):
    """The first refusal, from the moment in which the server begins to stop."""
    while True:
        try:
            await stub.Produce(produce(), timeout=DEADLINE_S)
        except PeerUnavailable as refusal:
            return refusal


async def pushed(stream, frames):
    for frame in frames:
        await stream.write(frame)


class SessionContract:
    def in_world(self, scenario):
        self.medium.in_world(scenario)

    async def test_a_killed_peer_fails_its_calls_at_once(self):
        # A keepalive or a connection timeout would come later than this test ends.
        limits = SessionLimits(keepalive_ms=600_000, keepalive_timeout_ms=600_000)
        async with (
            self.medium.peer_process() as (process, address),
            stub_of(address, limits) as stub,
            asyncio.timeout(DEADLINE_S),
        ):
            await stub.Produce(produce())
            calls = [asyncio.create_task(stub.Produce(produce("waits"))) for _ in range(50)]
            await stub.Produce(produce())
            process.kill()
            failures = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(failure, PeerUnavailable) for failure in failures)
            assert all(failure.was_sent for failure in failures)
            assert PRODUCE in str(failures[0])

    async def test_a_frozen_peer_is_noticed_without_any_deadline(self):
        limits = SessionLimits(keepalive_ms=300, keepalive_timeout_ms=300)
        async with (
            self.medium.peer_process() as (process, address),
            stub_of(address, limits) as stub,
        ):
            await stub.Produce(produce())
            process.send_signal(19)  # SIGSTOP: its sockets stay open
            with pytest.raises(TimeoutError):
                await stub.Produce(produce(), timeout=0.05)
            async with asyncio.timeout(DEADLINE_S):
                with pytest.raises(PeerUnavailable):
                    await stub.Produce(produce())

    async def test_nobody_there_is_known_to_have_no_effect(self):
        served = Served(ScriptedStorage(), STORAGE)
        await served.start()
        await served.stop()
        async with stub_of(served.address) as stub:
            for _ in range(3):
                with pytest.raises(PeerUnavailable) as failure:
                    await stub.Produce(produce(), timeout=DEADLINE_S)
                assert not failure.value.was_sent

    async def test_a_silent_address_is_given_up(self):
        silent = await asyncio.start_server(lambda _, writer: None, "127.0.0.1", 0)
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with silent, stub_of(address, SessionLimits(connect_timeout_ms=100)) as stub:
            with pytest.raises(PeerUnavailable, match="no connection within 100 ms") as failure:
                await stub.Produce(produce())
            assert not failure.value.was_sent

    async def test_a_restarted_peer_is_found_again(self):
        async with stub_and_server() as (stub, served, servicer):
            waits = asyncio.create_task(stub.Produce(produce("waits")))
            await servicer.until(lambda: servicer.in_flight == 1)
            await served.stop()
            with pytest.raises(PeerUnavailable):
                await waits
            await served.start()
            assert length_of(await answered_again(stub)) == 5

    async def test_a_server_that_stops_finishes_what_it_began(self):
        async with stub_and_server() as (stub, served, servicer):
            call = asyncio.create_task(stub.Produce(produce("until told", 6)))
            await servicer.until(lambda: servicer.in_flight == 1)
            stop = asyncio.create_task(served.server.stop(DEADLINE_S))
            refusal = await refused(stub)
            assert not refusal.was_sent
            assert "this process is stopping" in str(refusal)
            assert not call.done()
            servicer.told.set()
            assert length_of(await call) == 6
            await stop
            await served.start()

    async def test_a_caller_waits_for_room_in_order_and_up_to_its_deadline(self):
        limits = SessionLimits(calls_max=1)
        async with stub_and_server(limits) as (stub, _, servicer):
            first = asyncio.create_task(stub.Produce(produce("until told", 1)))
            await servicer.until(lambda: servicer.in_flight == 1)
            late = asyncio.create_task(stub.Produce(produce(length=2), timeout=0.05))
            patient = [asyncio.create_task(stub.Produce(produce(length=n))) for n in (3, 4)]
            with pytest.raises(TimeoutError):
                await late
            assert servicer.begun == 1
            servicer.told.set()
            assert [length_of(await call) for call in (first, *patient)] == [1, 3, 4]
            assert servicer.in_flight_max == 1
            assert servicer.begun == 3

    @pytest.mark.parametrize("limits", [SessionLimits(calls_max=8), SessionLimits(bytes_max=5000)])
    async def test_a_greedy_caller_is_not_read_from(self, limits):
        """It ignores every bound; the server holds twice what a caller of its limits may have, and no more."""

        async with stub_and_server(limits) as (stub, served, servicer):
            request = produce("waits", 900).SerializeToString()
            frames = [
                peer_pb2.SessionFrame(
                    calls=[peer_pb2.SessionCall(call_id=n, method=PRODUCE, request=request)]
                )
                for n in range(1, 20_001)
            ]
            async with grpc.aio.insecure_channel(served.address) as channel:
                stream = PlainStub(channel, PEER).Session()
                pushing = asyncio.create_task(pushed(stream, frames))
                await servicer.until(lambda: servicer.in_flight_max >= 8)
                done, _ = await asyncio.wait((pushing,), timeout=1)
                assert not done
                assert 8 <= servicer.in_flight_max <= 16
                # Others are not held up by it.
                assert length_of(await stub.Produce(produce(length=1), timeout=DEADLINE_S)) == 1
                pushing.cancel()
                await asyncio.wait((pushing,))
                stream.cancel()
            await servicer.until(lambda: servicer.in_flight == 0)

    async def test_a_caller_that_does_not_read_is_not_read_from(self):
        limits = SessionLimits(bytes_max=1_000_000)
        async with stub_and_server(limits) as (_, served, servicer):
            request = storage_pb2.FetchRequest(max_bytes=100_000).SerializeToString()
            method = "/oncelog.api.v1.Storage/Fetch"
            frames = [
                peer_pb2.SessionFrame(
                    calls=[
                        peer_pb2.SessionCall(
                            call_id=n, method=method, request=request, traceparent="-" * 5000
                        )
                    ]
                )
                for n in range(1, 5001)
            ]
            async with grpc.aio.insecure_channel(served.address) as channel:
                stream = PlainStub(channel, PEER).Session()
                pushing = asyncio.create_task(pushed(stream, frames))
                await servicer.until(lambda: servicer.begun >= 20)
                done, _ = await asyncio.wait((pushing,), timeout=1)
                assert not done
                # Two megabytes are held and some more fill the connection; all would be five hundred.
                assert 20 <= servicer.begun < 1000
                pushing.cancel()
                await asyncio.wait((pushing,))
                stream.cancel()

    async def test_a_call_cancelled_in_the_turn_it_came_in_leaves_nothing(self):
        async with stub_and_server() as (stub, served, _):
            request = produce("waits").SerializeToString()
            call = peer_pb2.SessionCall(call_id=1, method=PRODUCE, request=request)
            async with grpc.aio.insecure_channel(served.address) as channel:
                stream = PlainStub(channel, PEER).Session()
                await stream.write(peer_pb2.SessionFrame(calls=[call], cancelled=[1]))
                call.call_id, call.method = 2, "/oncelog.api.v1.Storage/Publish"
                await stream.write(peer_pb2.SessionFrame(calls=[call]))
                frame = await stream.read()
                assert [reply.call_id for reply in frame.replies] == [2]
                assert frame.replies[0].status == grpc.StatusCode.UNIMPLEMENTED.value[0]
                assert served.server.calls_in_flight == 0
            await stub.Produce(produce())

    async def test_a_message_over_the_limit_fails_alone(self):
        server_limits = SessionLimits(message_bytes_max=100_000)
        async with stub_and_server(server_limits) as (stub, _, servicer):
            waits = asyncio.create_task(stub.Produce(produce("waits")))
            await servicer.until(lambda: servicer.in_flight == 1)
            with pytest.raises(Exception, match="more than 100000; split it"):
                await stub.Produce(produce(length=200_000))
            with pytest.raises(PeerUnavailable, match=r"RESOURCE_EXHAUSTED.*ask for less"):
                await stub.Fetch(storage_pb2.FetchRequest(max_bytes=200_000))
            assert not waits.done()
            waits.cancel()

    async def test_a_call_and_its_answer_say_to_which_trace_they_belong(self, monkeypatch):
        class Ended:
            def __init__(self):
                self.spans = []

            def add_spans(self, home, ended):
                self.spans += [(one.name, home.trace_id) for one in ended]

            def is_kept(self, trace_id):
                return False

        class Traced:
            async def Produce(self, request, context):  # noqa: N802
                running = spans.current()
                self.caller = None
                if running is not None:
                    self.caller = running.home.caller
                    running.home.move(TRACE, is_kept=True)
                return storage_pb2.ProduceResponse()

        recorder = Ended()
        monkeypatch.setattr(spans, "recorder", recorder)

        async with Served(Traced(), STORAGE) as served, stub_of(served.address) as stub:
            await stub.Produce(produce())
            assert served.servicer.caller is None
            with spans.outermost("asks", spans.Kind.CLIENT) as asks:
                asked_under = asks.home.trace_id
                await stub.Produce(produce())
                assert served.servicer.caller == (asked_under, asks.span_id, False)
                assert (asks.home.trace, asks.home.is_kept) == (TRACE, True)
            assert sorted(recorder.spans) == [
                ("Storage/Produce", TRACE.trace_id),
                ("asks", TRACE.trace_id),
            ]

    async def test_a_stream_is_not_called_over_a_session(self):
        async with Served(object()) as served:
            request = peer_pb2.SessionCall(
                call_id=1, method="/oncelog.api.v1.Controller/WatchMetadata"
            )
            served.server.served.add("Controller", ScriptedController(Cluster(), 1))
            async with grpc.aio.insecure_channel(served.address) as channel:
                stream = PlainStub(channel, PEER).Session()
                await stream.write(peer_pb2.SessionFrame(calls=[request]))
                frame = await stream.read()
                assert frame.replies[0].status == grpc.StatusCode.UNIMPLEMENTED.value[0]
                stream.cancel()

    async def test_a_broken_caller_is_told_and_harms_nobody(self):
        async with stub_and_server() as (stub, served, servicer):
            waits = peer_pb2.SessionCall(
                call_id=1, method=PRODUCE, request=produce("waits").SerializeToString()
            )
            unreadable = peer_pb2.SessionCall(call_id=2, method=PRODUCE, request=b"\xff")
            async with grpc.aio.insecure_channel(served.address) as channel:
                stream = PlainStub(channel, PEER).Session()
                await stream.write(peer_pb2.SessionFrame(calls=[waits, waits, unreadable]))
                invalid = grpc.StatusCode.INVALID_ARGUMENT.value[0]
                seen = []
                while len(seen) < 2:
                    seen += (await stream.read()).replies
                assert [(reply.call_id, reply.status) for reply in seen] == [
                    (1, invalid),
                    (2, invalid),
                ]
                assert servicer.in_flight == 1
                stream.cancel()
            await servicer.until(lambda: servicer.in_flight == 0)
            assert length_of(await stub.Produce(produce(length=1))) == 1

    async def test_a_session_closed_in_the_turn_of_its_first_call_fails_it(self):
        async with stub_and_server() as (_, served, _servicer):
            session = PeerSession(served.address, SessionLimits())
            call = asyncio.create_task(SessionStub(session, STORAGE).Produce(produce("waits")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            session.end()
            async with asyncio.timeout(DEADLINE_S):
                with pytest.raises(PeerUnavailable) as failure:
                    await call
            assert not failure.value.was_sent
            await session.close()
            assert session.has_ended
