"""A coordinator over a storage node, controller and marker sender that misbehave on demand, and who calls it."""

import asyncio
from contextlib import asynccontextmanager

from tests.contracts.shard_storage import NODE

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import shard_of
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator

FAST = {
    "append_timeout_ms": 300,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "concurrent_wait_ms": 0,
    "start_timeout_ms": 300,
}
SHARD_OF_PAY = shard_of("pay", 4)


@asynccontextmanager
async def started(cluster, feed=None, **settings):
    role = build_coordinator(
        CoordinatorSettings(**(FAST | settings)),
        NODE,
        cluster.metadata,
        cluster.directory,
        feed=feed,
    )
    await role.start()
    try:
        yield Client(role)
    finally:
        await role.stop()


class Client:
    """`connection` is the one that its requests come on, as a listener numbers them; None: they name no origin."""

    def __init__(self, role):
        self.role = role
        self.servicer = role.servicer
        self.connection = None
        self._requests = 0

    def _origin(self):
        if self.connection is None:
            return None
        self._requests += 1
        return types_pb2.RequestOrigin(
            listener=1, connection=self.connection, request=self._requests
        )

    async def init(self, name="pay", timeout_ms=60_000, **fields):
        fields = {"producer_id": -1, "producer_epoch": -1} | fields
        request = coordinator_pb2.InitProducerIdRequest(transaction_timeout_ms=timeout_ms, **fields)
        if name is not None:
            request.transactional_id = name
        return await self.servicer.InitProducerId(request, None)

    async def add(self, identity, *partitions, name="pay", version=0, verify_only=False):
        transaction = coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
            transactional_id=name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            verify_only=verify_only,
            client_transaction_version=version,
            origin=self._origin(),
            partitions=[
                types_pb2.TopicPartition(topic=topic, partition=partition)
                for topic, partition in partitions or [("orders", 0)]
            ],
        )
        answer = await self.servicer.AddPartitionsToTxn(
            coordinator_pb2.AddPartitionsToTxnRequest(transactions=[transaction]), None
        )
        return answer.results[0]

    async def end(self, identity, commit=True, name="pay", version=0):
        return await self.servicer.EndTxn(
            coordinator_pb2.EndTxnRequest(
                transactional_id=name,
                producer_id=identity[0],
                producer_epoch=identity[1],
                committed=commit,
                client_transaction_version=version,
                origin=self._origin(),
            ),
            None,
        )

    async def begun(self):
        """Who has just begun a transaction with one partition."""
        identity = identity_of(await self.init())
        await self.add(identity)
        return identity

    async def ended(self, commit=True):
        """Who has just ended such a transaction; its markers may be under way."""
        identity = await self.begun()
        assert (await self.end(identity, commit)).error_code == 0
        return identity

    async def describe(self, *names):
        answer = await self.servicer.DescribeTransactions(
            coordinator_pb2.DescribeTransactionsRequest(transactional_ids=names), None
        )
        return list(answer.transactions)

    async def list(self, **filters):
        filters = {"duration_filter_ms": -1} | filters
        return await self.servicer.ListTransactions(
            coordinator_pb2.ListTransactionsRequest(**filters), None
        )

    async def state(self, name="pay"):
        (described,) = await self.describe(name)
        return described.state or ErrorCode(described.error_code).name

    async def until_state(self, state, name="pay"):
        async with asyncio.timeout(30):
            while await self.state(name) != state:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


def identity_of(answer):
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch
