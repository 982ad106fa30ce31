"""Calls find the active controller, and are sent to another only when that is safe.

A subclass names its `medium`, as of `SessionContract`.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.integration.rpc.scripted_controller import (
    DEADLINE_S,
    Cluster,
    ScriptedController,
    Served,
)

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.controller_stub import ActiveControllerStub
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits

TOPIC = pb.CreateTopicsRequest(topics=[pb.NewTopic(name="orders")])
BLOCK = pb.AllocateProducerIdsRequest(node_id=1)


class DyingController(ScriptedController):
    """Does what it is asked and goes away before it answers, once."""

    dies = True
    stop = None
    blocks = 0

    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.died = asyncio.Event()

    async def _die_once(self):
        if self.dies:
            self.dies = self.active = False
            self.died.set()
            asyncio.get_running_loop().create_task(self.stop())
            await asyncio.Event().wait()

    async def CreateTopics(self, request, context):  # noqa: N802
        answer = await super().CreateTopics(request, context)
        await self._die_once()
        return answer

    async def AllocateProducerIds(self, request, context):  # noqa: N802
        self.blocks += 1
        await self._die_once()
        return pb.AllocateProducerIdsResponse(producer_id_count=1000)


@asynccontextmanager
async def controllers(kind=ScriptedController):
    cluster = Cluster()
    async with (
        Served(kind(cluster, 1)) as first,
        Served(kind(cluster, 2, active=False)) as second,
    ):
        for served in (first, second):
            served.servicer.stop = served.stop
        pool = SessionPool(SessionLimits())
        stub = ActiveControllerStub([first.address, second.address], pool)
        try:
            yield stub, first.servicer, second.servicer
        finally:
            await pool.close()


class _WithControllers:
    kind = ScriptedController

    def in_world(self, scenario):
        async def inside():
            async with controllers(self.kind) as (self.stub, self.first, self.second):
                await scenario()

        self.medium.in_world(inside)


class ControllerStubContract(_WithControllers):
    async def test_a_refused_call_goes_to_the_one_that_is_active_now(self):
        await self.stub.CreateTopics(TOPIC)
        self.first.active, self.second.active = False, True
        answer = await self.stub.CreateTopics(TOPIC, timeout=DEADLINE_S)
        assert answer.results[0].error_code == 0
        assert (self.first.created, self.second.created) == (["orders"], ["orders"])

    async def test_a_call_waits_while_nobody_is_active(self):
        self.first.active = False
        call = asyncio.create_task(self.stub.CreateTopics(TOPIC, timeout=DEADLINE_S))
        done, _ = await asyncio.wait((call,), timeout=0.2)
        assert not done
        self.second.active = True
        await call
        assert (self.first.created, self.second.created) == ([], ["orders"])

    async def test_without_an_active_one_a_call_had_no_effect(self):
        self.first.active = False
        with pytest.raises(PeerUnavailable, match="no active controller among") as failure:
            await self.stub.CreateTopics(TOPIC, timeout=0.2)
        assert not failure.value.was_sent

    async def test_the_metadata_stream_comes_from_the_active_one(self):
        self.first.active, self.second.active = False, True
        updates = self.stub.WatchMetadata(pb.WatchMetadataRequest(from_metadata_offset=-1))
        assert (await anext(updates)).snapshot.cluster_id == "scripted"
        await updates.aclose()


class DyingControllerContract(_WithControllers):
    """What was under way when the active controller died."""

    kind = DyingController

    async def test_a_call_that_may_have_had_its_effect_is_not_repeated(self):
        self.second.dies = False
        call = asyncio.create_task(self.stub.CreateTopics(TOPIC, timeout=DEADLINE_S))
        with pytest.raises(PeerUnavailable) as failure:
            await call
        assert failure.value.was_sent
        assert self.first.created == ["orders"]
        assert not self.second.created

    async def test_a_lost_block_of_producer_ids_is_asked_for_again(self):
        self.second.dies = False
        call = asyncio.create_task(self.stub.AllocateProducerIds(BLOCK, timeout=DEADLINE_S))
        await self.first.died.wait()
        self.second.active = True
        assert (await call).producer_id_count == 1000
        assert (self.first.blocks, self.second.blocks) == (1, 1)
