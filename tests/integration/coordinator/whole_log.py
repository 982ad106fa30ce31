"""Every role behind the listener in this process: a real controller, storage node, marker sender and coordinator."""

import asyncio
import contextlib
import uuid
from contextlib import AsyncExitStack, asynccontextmanager

from tests.integration.coordinator.transaction_client import Client, identity_of

from oncelog.api.v1 import controller_pb2, storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog.record.records import Record, encode_batch
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import MetadataFollower
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator
from oncelog_marker_sender.settings import MarkerSenderSettings
from oncelog_marker_sender.wiring import build_marker_sender
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wiring import build_storage

NODE = 1


async def repeated(call, *codes):
    """As a client does while it receives one of these codes."""
    while True:
        answer = await call()
        if answer.error_code not in codes:
            return answer
        await asyncio.sleep(0.001)


class Log:
    """What a client and an operator do, as listener and gateway would call it."""

    def __init__(self, directory, controller, coordinator, follower):
        self.storage = directory.storage(NODE)
        self.client = Client(coordinator)
        self.controller = controller
        self.role = coordinator
        self.follower = follower

    async def create_topic(self, name, partitions=1):
        topic = controller_pb2.NewTopic(name=name, partitions=partitions, replication_factor=1)
        request = controller_pb2.CreateTopicsRequest(topics=[topic])
        answer = await self.controller.CreateTopics(request)
        assert answer.results[0].error_code in (0, 36), answer
        await self.follower.wait_until(answer.metadata_offset)

    async def init(self, name, timeout_ms=60_000, **fields):
        return await repeated(lambda: self.client.init(name, timeout_ms, **fields), 14, 51)

    async def identity(self, name, **fields):
        """Of a producer that has just begun."""
        return identity_of(await self.init(name, **fields))

    async def add(self, name, identity, *partitions, **fields):
        return await repeated(
            lambda: self.client.add(identity, *partitions, name=name, **fields), 51
        )

    async def end(self, name, identity, commit, version=0):
        return await repeated(lambda: self.client.end(identity, commit, name, version), 51)

    async def describe(self, name):
        (described,) = await self.client.describe(name)
        return described

    async def state(self, name):
        return await self.client.state(name)

    async def until_state(self, name, state):
        await self.client.until_state(state, name)

    async def produce(self, name, identity, sequence, value, version=0, partition=("orders", 0)):
        batch = encode_batch(
            [Record(None, value, 1)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        mode = storage_pb2.ADD_PARTITION if version == 2 else storage_pb2.VERIFY_LEGACY
        request = storage_pb2.ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=5_000,
            verification_mode=mode,
            partitions=[
                storage_pb2.PartitionRecords(
                    topic=partition[0], partition=partition[1], records=bytes(batch)
                )
            ],
        )
        while True:
            answer = await self.storage.Produce(request)
            code = answer.partitions[0].error_code
            if code != 51 or version != 2:
                return code
            await asyncio.sleep(0.02)

    async def offsets(self, partition=("orders", 0), fetch_offset=0):
        """(last stable offset, high watermark, producers aborted in the segment of `fetch_offset`)."""
        answer = await self.storage.Fetch(
            storage_pb2.FetchRequest(
                isolation_level=types_pb2.READ_COMMITTED,
                max_bytes=1 << 20,
                partitions=[
                    storage_pb2.FetchPartition(
                        topic=partition[0],
                        partition=partition[1],
                        fetch_offset=fetch_offset,
                        max_bytes=1 << 20,
                        current_leader_epoch=-1,
                    )
                ],
            )
        )
        (found,) = answer.partitions
        assert found.error_code == 0, found
        aborted = [row.producer_id for row in found.aborted_transactions]
        return found.last_stable_offset, found.high_watermark, aborted

    async def load_as_another_coordinator(self, name):
        """What the leader of this name's shard sees first of the coordinator that takes it over."""
        term = self.role.shards.term_of(name)
        answer = await self.storage.Fetch(
            storage_pb2.FetchRequest(
                max_bytes=1 << 20,
                read_to_log_end=True,
                coordinator_epoch=term.coordinator_epoch + 1,
                partitions=[
                    storage_pb2.FetchPartition(
                        topic=TRANSACTION_STATE_TOPIC,
                        partition=term.shard,
                        max_bytes=1 << 20,
                        current_leader_epoch=-1,
                    )
                ],
            )
        )
        assert answer.partitions[0].error_code == 0, answer


@asynccontextmanager
async def whole_log(folder, marker_sender=None, **coordinator_settings):
    """The started roles on this folder. `marker_sender` stands in for the real one."""
    async with AsyncExitStack() as stack:

        async def start(role):
            await role.start()
            stack.push_async_callback(role.stop)

        built = build_controller(ControllerSettings(database_url=f"sqlite:///{folder / 'c.db'}"))
        await start(built)
        controller = DirectStub(built.servicer)
        answer = await controller.RegisterNode(
            controller_pb2.RegisterNodeRequest(
                node=controller_pb2.Node(
                    node_id=NODE,
                    roles=[controller_pb2.ROLE_STORAGE, controller_pb2.ROLE_COORDINATOR],
                ),
                incarnation_id=uuid.uuid4().hex,
            )
        )
        assert answer.status.error_code == ErrorCode.NONE, answer
        follower = MetadataFollower(NODE, controller)
        following = asyncio.create_task(follower.run())
        stack.push_async_callback(_cancel, following)
        await follower.wait_until(0)
        storage_stub, coordinator_stub, sender_stub = DirectStub(), DirectStub(), DirectStub()
        groups_stub = DirectStub()
        directory = LocalDirectory(
            storage=storage_stub,
            coordinator=coordinator_stub,
            group_coordinator=groups_stub,
            marker_sender=sender_stub,
            controller=controller,
        )
        storage = build_storage(
            StorageSettings(data_dir=folder / "logs"), NODE, follower, directory
        )
        sender = build_marker_sender(MarkerSenderSettings(), follower, directory)
        coordinator = build_coordinator(
            CoordinatorSettings(**coordinator_settings), NODE, follower, directory
        )
        storage_stub.bind(storage.servicer)
        sender_stub.bind(marker_sender or sender.servicer)
        coordinator_stub.bind(coordinator.servicer)
        groups_stub.bind(coordinator.group_servicer)
        for role in (storage, sender, coordinator):
            await start(role)
        log = Log(directory, controller, coordinator, follower)
        await log.create_topic("orders", 3)
        yield log


async def _cancel(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
