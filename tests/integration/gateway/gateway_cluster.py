"""A gateway on a real controller, with a storage and a coordinator that hold their state in dictionaries.

The two stand-ins keep the rules that the gateway relies on: a marker ends what is open if its epochs are high enough,
a terminated transaction is gone from the partition. What is open where is set by each test.
"""

import asyncio
import contextlib
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.integration.gateway.dict_storage import DictStorage

from oncelog.api.v1 import controller_pb2, coordinator_pb2, groups_pb2
from oncelog.api.v1.types_pb2 import PartitionError, TopicPartition
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.sessions import MethodMissing
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.wiring import build_gateway
from oncelog_marker_sender.sender import MarkerSender
from oncelog_marker_sender.settings import MarkerSenderSettings
from oncelog_marker_sender.wiring import build_marker_sender


def _open_first(one):
    is_open = one.state == "Ongoing" or one.state.startswith("Prepare")
    return not is_open, one.transaction_start_time_ms if is_open else -one.last_update_time_ms


class DictCoordinator:
    """Transactions by id."""

    def __init__(self, storage):
        self.meanwhile = lambda: None
        """Called while this coordinator is being asked."""
        self._storage = storage
        self.transactions = {}
        self.sinks = {}
        self.error_code = ErrorCode.NONE
        self.is_silent = False
        self.is_older = False
        """It knows what it knew before two-phase transactions: no limit, no count of a list, no completion."""
        self.listed = []
        """What was asked for."""
        self.completed = []
        """What was committed and aborted by its identity."""
        self.seen_start_ms = None
        """Of the last transaction that was terminated: what the gateway had looked at."""

    def put(self, transactional_id, *, producer_id, state="Ongoing", partitions=(), **more):
        start_time_ms = more.pop("start_time_ms", 1_000)
        timeout_ms = more.pop("timeout_ms", 60_000)
        producer_epoch = more.pop("producer_epoch", 0)
        self.transactions[transactional_id] = coordinator_pb2.TransactionDescription(
            transactional_id=transactional_id,
            state=state,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_timeout_ms=timeout_ms,
            transaction_start_time_ms=start_time_ms,
            last_update_time_ms=start_time_ms,
            partitions=[
                TopicPartition(topic=topic, partition=partition) for topic, partition in partitions
            ],
            coordinator=1,
            shard=7,
            **{"client_transaction_version": 2, **more},
        )

    async def _answer(self):
        self.meanwhile()
        while self.is_silent:
            await asyncio.Event().wait()

    async def ListTransactions(self, request, context):  # noqa: N802
        await self._answer()
        self.listed.append(request)
        if self.error_code:
            return coordinator_pb2.ListTransactionsResponse(
                error_code=self.error_code, error_message="being loaded"
            )
        try:
            pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
        except re.error as error:
            return coordinator_pb2.ListTransactionsResponse(
                error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, error_message=str(error)
            )
        rows = [
            one
            for one in self.transactions.values()
            if (not request.state_filters or one.state in request.state_filters)
            and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
            and pattern.fullmatch(one.transactional_id)
        ]
        if self.is_older:
            return coordinator_pb2.ListTransactionsResponse(transactions=rows)
        shown = sorted(rows, key=_open_first)[: request.most_urgent or None]
        return coordinator_pb2.ListTransactionsResponse(transactions=shown, total_count=len(rows))

    async def DescribeTransactions(self, request, context):  # noqa: N802
        await self._answer()
        return coordinator_pb2.DescribeTransactionsResponse(
            transactions=[
                self.transactions.get(one)
                or coordinator_pb2.TransactionDescription(
                    transactional_id=one, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                )
                for one in request.transactional_ids
            ]
        )

    async def ForceTerminateTransaction(self, request, context):  # noqa: N802
        await self._answer()
        found = self.transactions[request.transactional_id]
        has_start = request.HasField("start_time_ms")
        self.seen_start_ms = request.start_time_ms if has_start else None
        for one in found.partitions:
            self._storage.end(one.topic, one.partition, found.producer_id)
        found.state = "CompleteAbort"
        del found.partitions[:]
        return coordinator_pb2.ForceTerminateTransactionResponse()

    async def CompletePreparedTransaction(self, request, context):  # noqa: N802
        await self._answer()
        if self.is_older:
            raise MethodMissing("10.0.0.1:9090: UNIMPLEMENTED")
        found = self.transactions[request.transactional_id]
        self.completed.append((request.producer_id, request.producer_epoch, request.committed))
        for one in found.partitions:
            self._storage.end(one.topic, one.partition, found.producer_id)
        found.state = "CompleteCommit" if request.committed else "CompleteAbort"
        return coordinator_pb2.CompletePreparedTransactionResponse()

    async def InitProducerId(self, request, context):  # noqa: N802
        await self._answer()
        return coordinator_pb2.InitProducerIdResponse(producer_id=1_000, producer_epoch=0)

    async def EndTxn(self, request, context):  # noqa: N802
        await self._answer()
        return coordinator_pb2.EndTxnResponse(producer_id=1_000, producer_epoch=1)

    async def DescribeSink(self, request, context):  # noqa: N802
        await self._answer()
        return self.sinks.get(request.sink) or coordinator_pb2.DescribeSinkResponse(
            error_code=ErrorCode.RESOURCE_NOT_FOUND
        )

    async def ListSinks(self, request, context):  # noqa: N802
        await self._answer()
        return coordinator_pb2.ListSinksResponse(
            sinks=[
                coordinator_pb2.ListSinksResponse.Sink(
                    sink=one.sink, query_id=one.query_id, last_used_ms=-1
                )
                for one in self.sinks.values()
            ]
        )

    async def DeleteSink(self, request, context):  # noqa: N802
        await self._answer()
        found = self.sinks.get(request.sink)
        if found is not None and found.attempts:
            return coordinator_pb2.DeleteSinkResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS, error_message="being written to"
            )
        known = self.sinks.pop(request.sink, None)
        return coordinator_pb2.DeleteSinkResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )


def _is_named(group, topic, partition):
    return any(one.topic == topic and partition in one.partitions for one in group.topics)


class DictGroups:
    """Groups by id, with offsets."""

    def __init__(self):
        self.groups = {}
        self.offsets = {}
        self.pending = {}
        self.offset_fetches = []
        self.error_code = ErrorCode.NONE

    def put(self, group_id, *, state="Empty", members=()):
        self.groups[group_id] = groups_pb2.DescribeGroupsResponse.Group(
            group_id=group_id,
            state=state,
            protocol_type="consumer",
            protocol_name="range" if members else "",
            members=[
                groups_pb2.DescribeGroupsResponse.Member(
                    member_id=name, client_id="app", client_host="/127.0.0.1", assignment=assignment
                )
                for name, assignment in members
            ],
        )

    async def ListGroups(self, request, context):  # noqa: N802
        if self.error_code:
            return groups_pb2.ListGroupsResponse(error_code=self.error_code)
        rows = [
            groups_pb2.ListGroupsResponse.Group(
                group_id=one.group_id,
                state=one.state,
                protocol_type=one.protocol_type,
                group_type="classic",
            )
            for one in self.groups.values()
            if not request.state_filters or one.state in request.state_filters
        ]
        return groups_pb2.ListGroupsResponse(groups=rows)

    async def DescribeGroups(self, request, context):  # noqa: N802
        return groups_pb2.DescribeGroupsResponse(
            groups=[
                self.groups.get(one)
                or groups_pb2.DescribeGroupsResponse.Group(
                    group_id=one, error_code=ErrorCode.GROUP_ID_NOT_FOUND
                )
                for one in request.group_ids
            ]
        )

    async def OffsetFetch(self, request, context):  # noqa: N802
        self.offset_fetches.append(request)
        return groups_pb2.OffsetFetchResponse(
            groups=[
                groups_pb2.OffsetFetchResponse.Group(
                    group_id=group.group_id,
                    offsets=[
                        groups_pb2.OffsetFetchResponse.Offset(
                            topic=topic,
                            partition=partition,
                            offset=offset,
                            pending_producer_ids=self.pending.get((topic, partition), ())
                            if request.with_pending
                            else (),
                        )
                        for (topic, partition), offset in self.offsets.get(
                            group.group_id, {}
                        ).items()
                        if group.all_topics or _is_named(group, topic, partition)
                    ],
                )
                for group in request.groups
            ]
        )

    async def OffsetCommit(self, request, context):  # noqa: N802
        assert (request.generation_id, request.member_id) == (-1, "")
        offsets = self.offsets.setdefault(request.group_id, {})
        offsets.update({(one.topic, one.partition): one.offset for one in request.offsets})
        return groups_pb2.OffsetCommitResponse(
            partitions=[
                PartitionError(topic=one.topic, partition=one.partition) for one in request.offsets
            ]
        )

    async def DeleteGroups(self, request, context):  # noqa: N802
        (group_id,) = request.group_ids
        found = self.groups.get(group_id)
        code = ErrorCode.NONE
        if found is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif found.members:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            del self.groups[group_id]
        result = groups_pb2.DeleteGroupsResponse.Result(group_id=group_id, error_code=code)
        return groups_pb2.DeleteGroupsResponse(results=[result])


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class GatewayCluster:
    url: str
    storage: DictStorage
    coordinator: DictCoordinator
    groups: DictGroups
    metadata: MetadataFollower
    controller: DirectStub
    audit_path: object
    port: int = 0
    marker_sender: MarkerSender | None = None

    async def get(self, path):
        return await self.request("GET", path)

    async def post(self, path, body=None):
        return await self.request("POST", path, body)

    async def request(self, method, path, body=None, headers=None):
        return await asyncio.to_thread(self._request, method, path, body, headers or {})

    def _request(self, method, path, body, headers):
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    async def create_topic(self, name, partitions=1):
        answer = await self.post("/v1/topics", {"name": name, "partition_count": partitions})
        assert answer.status == 201, answer.body

    def audit(self):
        """Without the creation of topics, which most tests begin with."""
        lines = [json.loads(line) for line in self.audit_path.read_text().splitlines()]
        made = {line["audit_id"] for line in lines if line.get("action") == "create_topic"}
        return [line for line in lines if line["audit_id"] not in made]


@asynccontextmanager
async def gateway_cluster(folder, history=None, **settings):
    controller_role = build_controller(
        ControllerSettings(database_url=f"sqlite:///{folder / 'controller.db'}")
    )
    await controller_role.start()
    controller = DirectStub(controller_role.servicer)
    node = controller_pb2.Node(
        node_id=1,
        roles=[
            controller_pb2.ROLE_STORAGE,
            controller_pb2.ROLE_COORDINATOR,
            controller_pb2.ROLE_LISTENER,
            controller_pb2.ROLE_MARKER_SENDER,
        ],
        kafka_host="127.0.0.1",
        kafka_port=9092,
    )
    await controller.RegisterNode(
        controller_pb2.RegisterNodeRequest(node=node, incarnation_id="first")
    )
    metadata = MetadataFollower(1, controller)
    following = asyncio.create_task(metadata.run())
    await metadata.wait_until(0)
    storage = DictStorage()
    coordinator = DictCoordinator(storage)
    groups = DictGroups()
    directory = LocalDirectory(
        storage=DirectStub(storage),
        coordinator=DirectStub(coordinator),
        group_coordinator=DirectStub(groups),
        marker_sender=DirectStub(),
        controller=controller,
    )
    marker_sender = build_marker_sender(MarkerSenderSettings(), metadata, directory)
    directory.marker_sender().bind(marker_sender.servicer)
    await marker_sender.start()
    audit_path = folder / "audit.jsonl"
    gateway = build_gateway(
        GatewaySettings(port=0, audit_path=audit_path, **settings),
        metadata,
        directory,
        history=history,
    )
    await gateway.start()
    try:
        yield GatewayCluster(
            f"http://127.0.0.1:{gateway.port}",
            storage,
            coordinator,
            groups,
            metadata,
            controller,
            audit_path,
            gateway.port,
            marker_sender.sender,
        )
    finally:
        await gateway.stop()
        await marker_sender.stop()
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await controller_role.stop()
