"""The same server for programs that know nothing of sessions: plain calls, health, reflection.

A subclass names its `medium`, as of `SessionContract`.
"""

from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.contracts.stub import ScriptedStorage, length_of, produce
from tests.integration.rpc.scripted_controller import Served

from oncelog.api.v1 import coordinator_pb2
from oncelog.rpc.channel import PlainStub
from oncelog.rpc.contract import STORAGE, TRANSACTION_COORDINATOR
from oncelog.rpc.server import LIVENESS


@asynccontextmanager
async def channel_to_storage():
    servicer = ScriptedStorage()
    async with (
        Served(servicer, STORAGE) as served,
        grpc.aio.insecure_channel(served.address) as channel,
    ):
        yield channel, served, servicer


class PlainGrpcContract:
    def in_world(self, scenario):
        async def inside():
            async with channel_to_storage() as (self.channel, self.served, self.servicer):
                await scenario()

        self.medium.in_world(inside)

    async def test_a_plain_call_is_answered(self):
        stub = PlainStub(self.channel, STORAGE)
        assert length_of(await stub.Produce(produce(length=9))) == 9

    @pytest.mark.parametrize(
        ("what", "code", "words"),
        [
            ("refused", grpc.StatusCode.FAILED_PRECONDITION, "the disk is full; make room"),
            ("a bug", grpc.StatusCode.INTERNAL, "Storage/Produce: ValueError: not this way"),
        ],
    )
    async def test_errors_are_statuses_that_say_what_is_wrong(self, what, code, words):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await PlainStub(self.channel, STORAGE).Produce(produce(what))
        assert failure.value.code() is code
        assert words in failure.value.details()

    async def test_a_role_that_is_not_here_is_unavailable(self):
        stub = PlainStub(self.channel, TRANSACTION_COORDINATOR)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.EndTxn(coordinator_pb2.EndTxnRequest())
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "does not serve TransactionCoordinator" in failure.value.details()

    async def test_the_deadline_of_a_plain_call_cancels_it(self):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await PlainStub(self.channel, STORAGE).Produce(produce("waits"), timeout=0.05)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await self.servicer.until(lambda: self.servicer.in_flight == 0)

    async def test_health_says_when_the_process_is_ready(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        response = health_pb2.HealthCheckResponse
        for is_ready, status in ((None, response.NOT_SERVING), (True, response.SERVING)):
            if is_ready is not None:
                await self.served.server.set_ready(is_ready)
            assert (await stub.Check(health_pb2.HealthCheckRequest())).status == status

    async def test_liveness_holds_whether_the_process_is_ready_or_not(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        lives = health_pb2.HealthCheckRequest(service=LIVENESS)
        for is_ready in (None, True, False):
            if is_ready is not None:
                await self.served.server.set_ready(is_ready)
            serving = health_pb2.HealthCheckResponse.SERVING
            assert (await stub.Check(lives)).status == serving

    async def test_reflection_lists_the_contract(self):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        stream = stub.ServerReflectionInfo()
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        answer = await stream.read()
        names = {service.name for service in answer.list_services_response.service}
        assert {
            "oncelog.api.v1.Storage",
            "oncelog.api.v1.Peer",
            "grpc.health.v1.Health",
        } <= names
        await stream.write(
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="oncelog.api.v1.Storage")
        )
        assert (await stream.read()).file_descriptor_response.file_descriptor_proto
        stream.cancel()
