"""Calls to the other roles: which node to ask, for how long, and what its silence means.

The gateway stores nothing: every answer is made from the metadata image (its copy of the cluster's metadata) and from
what partition leaders and coordinators say at this moment. A call without an answer in time becomes REQUEST_TIMED_OUT.
If a node's address is not known, what it leads is named as failed, and the rest is still shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oncelog.api.v1 import controller_pb2, coordinator_pb2, marker_sender_pb2
from oncelog.api.v1.types_pb2 import TopicPartition
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.directory import transaction_coordinator
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog.rpc.stubs import (
    ControllerStub,
    GroupCoordinatorStub,
    TransactionCoordinatorStub,
    Unary,
)
from oncelog_gateway.leader_calls import LeaderCalls, all_answers, raise_for
from oncelog_gateway.one_reading import read_once

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
ListingT = TypeVar(
    "ListingT", coordinator_pb2.ListTransactionsResponse, coordinator_pb2.ListSinksResponse
)


@dataclass(frozen=True, slots=True)
class Listing:
    """The transactions of every coordinator that answered, and the failures of those that did not."""

    transactions: tuple[coordinator_pb2.TransactionDescription, ...]
    failures: tuple[KafkaError, ...]
    total_count: int = 0
    """Number of all transactions that match, where only the most urgent were asked for."""


class Roles(LeaderCalls):
    """Sends requests to the other roles of the cluster. Their nodes are found in the metadata image, and their
    addresses in the directory. Every method raises KafkaError.
    """

    # -------------------------------------------------------------------------------------------- coordinators

    @read_once
    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        min_duration_ms: int = -1,
        id_pattern: str = "",
        most_urgent: int = 0,
    ) -> Listing:
        """Return the transactions of all coordinators. With `most_urgent`, each coordinator gives only its so many most
        urgent ones. A silent coordinator is a failure in the result; only a refused pattern raises.
        """
        request = coordinator_pb2.ListTransactionsRequest(
            state_filters=states,
            producer_id_filters=producer_ids,
            duration_filter_ms=min_duration_ms,
            transactional_id_pattern=id_pattern,
            most_urgent=most_urgent,
        )
        answers, failures = await self._ask_coordinators(
            lambda coordinator: coordinator.ListTransactions, request
        )
        for failure in failures:
            if failure.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise failure
        # A coordinator of an older version knows neither the limit nor the count.
        total = sum(max(one.total_count, len(one.transactions)) for one in answers)
        if len(answers) == 1:
            return Listing(tuple(answers[0].transactions), tuple(failures), total)
        # The key has the producer id too: two tries of one Spark task share a transactional id.
        found: dict[tuple[str, int], coordinator_pb2.TransactionDescription] = {
            (one.transactional_id, one.producer_id): one
            for answer in answers
            for one in answer.transactions
        }
        return Listing(tuple(found.values()), tuple(failures), total)

    async def _ask_coordinators(
        self,
        method: Callable[[TransactionCoordinatorStub], Unary[RequestT, ListingT]],
        request: RequestT,
    ) -> tuple[list[ListingT], list[KafkaError]]:
        """Send a request to all transaction coordinators. Return their answers, and the failures of those that gave
        none.
        """
        owners = self._transaction_owners()

        async def listing_of(node_id: int) -> ListingT:
            call = method(self._coordinator(node_id))
            answer = await self.call(f"the coordinator on node {node_id}", call, request)
            raise_for(answer.error_code, answer.error_message)
            return answer

        answers, failures = await all_answers(map(listing_of, sorted(set(owners.values()))))
        if self._transaction_owners() != owners:
            # Neither the old owner nor the new one may have listed what it holds.
            failures.append(
                KafkaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    "transaction shards are moving; ask again",
                )
            )
        return answers, failures

    def _transaction_owners(self) -> dict[int, int]:
        """Return the node id of each transaction shard's coordinator, by the shard's number."""
        return {
            number: shard.coordinator
            for (kind, number), shard in self.image.shards.items()
            if kind == TRANSACTION
        }

    @read_once
    async def describe_transaction(
        self, transactional_id: str
    ) -> coordinator_pb2.TransactionDescription:
        """Return the description of a transaction by its coordinator. Raises KafkaError(TRANSACTIONAL_ID_NOT_FOUND)
        when the coordinator does not know the id.
        """
        stub = self._coordinator_of(transactional_id)
        request = coordinator_pb2.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = await self.call("the coordinator", stub.DescribeTransactions, request)
        for one in answer.transactions:
            if one.transactional_id == transactional_id:
                raise_for(
                    one.error_code,
                    f"transactional id {transactional_id!r} is not known; GET /v1/transactions lists all",
                )
                return one
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the coordinator did not answer for transactional id {transactional_id!r}",
        )

    async def terminate(self, transactional_id: str, start_time_ms: int | None) -> None:
        """Let the coordinator fence the producer and abort its transaction. With `start_time_ms`, only a transaction
        that began at that time is aborted.
        """
        stub = self._coordinator_of(transactional_id)
        request = coordinator_pb2.ForceTerminateTransactionRequest(
            transactional_id=transactional_id, start_time_ms=start_time_ms
        )
        answer = await self.call("the coordinator", stub.ForceTerminateTransaction, request)
        raise_for(
            answer.error_code,
            answer.error_message
            or f"the coordinator refuses to end transactional id {transactional_id!r}",
        )

    async def complete_prepared(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, is_commit: bool
    ) -> None:
        """Let the coordinator commit or abort a two-phase transaction, and fence its producer. It refuses if the
        transaction has another producer id or epoch.
        """
        stub = self._coordinator_of(transactional_id)
        request = coordinator_pb2.CompletePreparedTransactionRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=is_commit,
        )
        answer = await self.call("the coordinator", stub.CompletePreparedTransaction, request)
        raise_for(
            answer.error_code,
            answer.error_message
            or f"the coordinator refuses to end transactional id {transactional_id!r}",
        )

    async def init_producer_id(
        self, request: coordinator_pb2.InitProducerIdRequest
    ) -> coordinator_pb2.InitProducerIdResponse:
        transactional_id = request.transactional_id
        stub = self._coordinator_of(transactional_id)
        answer = await self.call("the coordinator", stub.InitProducerId, request)
        raise_for(answer.error_code, f"transactional id {transactional_id!r} gets no producer id")
        return answer

    async def end_transaction(
        self, request: coordinator_pb2.EndTxnRequest
    ) -> coordinator_pb2.EndTxnResponse:
        transactional_id = request.transactional_id
        stub = self._coordinator_of(transactional_id)
        answer = await self.call("the coordinator", stub.EndTxn, request)
        raise_for(answer.error_code, f"the transaction of {transactional_id!r} is not ended")
        return answer

    async def describe_sink(self, sink: str) -> coordinator_pb2.DescribeSinkResponse:
        stub = self._coordinator_of(sink)
        request = coordinator_pb2.DescribeSinkRequest(sink=sink)
        answer = await self.call("the coordinator", stub.DescribeSink, request)
        raise_for(
            answer.error_code,
            f"sink {sink!r}: no Spark query has written to it; GET /v1/sinks lists all",
        )
        return answer

    async def list_sinks(
        self,
    ) -> tuple[list[coordinator_pb2.ListSinksResponse.Sink], list[KafkaError]]:
        """Return the sinks of all coordinators, and the failures of those that did not answer."""
        request = coordinator_pb2.ListSinksRequest()
        answers, failures = await self._ask_coordinators(
            lambda coordinator: coordinator.ListSinks, request
        )
        return [one for answer in answers for one in answer.sinks], failures

    async def delete_sink(self, sink: str) -> None:
        """Delete a Spark sink, with the record of its committed batches. Refused while a query writes to it."""
        stub = self._coordinator_of(sink)
        request = coordinator_pb2.DeleteSinkRequest(sink=sink)
        answer = await self.call("the coordinator", stub.DeleteSink, request)
        raise_for(answer.error_code, answer.error_message or f"sink {sink!r}")

    def _coordinator(self, node_id: int) -> TransactionCoordinatorStub:
        if node_id >= 0:
            try:
                return self.directory.coordinator(node_id)
            except KeyError:
                pass
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "some transaction shards have no coordinator now"
            if node_id < 0
            else f"the coordinator on node {node_id} has no known address yet",
        )

    def _coordinator_of(self, transactional_id: str) -> TransactionCoordinatorStub:
        if not self.image.shard_count(TRANSACTION):
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"transactional id {transactional_id!r}: this cluster has had no transaction yet",
            )
        stub = transaction_coordinator(self.directory, self.image, transactional_id)
        if stub is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the shard of {transactional_id!r} has no coordinator now",
            )
        return stub

    async def describe_marker_queues(
        self, node_id: int
    ) -> Sequence[marker_sender_pb2.DescribeQueuesResponse.Queue]:
        """Return the queues of markers that the marker sender on this node has not yet delivered."""
        try:
            stub = self.directory.marker_sender_on(node_id)
        except KeyError:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"the marker sender on node {node_id} has no known address yet",
            ) from None
        request = marker_sender_pb2.DescribeQueuesRequest()
        answer = await self.call(
            f"the marker sender on node {node_id}", stub.DescribeQueues, request
        )
        return answer.queues

    # ------------------------------------------------------------------------------------------------ groups

    def group_coordinators(self) -> list[int]:
        """Return the nodes that own group shards; -1 stands for shards without a coordinator."""
        shards = self.image.shards.items()
        return sorted({shard.coordinator for (kind, _), shard in shards if kind == GROUP})

    def coordinator_of_group(self, group_id: str) -> int:
        """Return the node id of a group's coordinator. Raises KafkaError while there is none."""
        shard = self.image.shard_for(GROUP, group_id)
        if shard is None or shard.coordinator < 0:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the shard of group {group_id!r} has no coordinator now",
            )
        return shard.coordinator

    async def ask_groups(
        self,
        node_id: int,
        method: Callable[[GroupCoordinatorStub], Unary[RequestT, ResponseT]],
        request: RequestT,
    ) -> ResponseT:
        """Send a request to the group coordinator on this node, and return its answer."""
        try:
            if node_id < 0:
                raise KeyError(node_id)
            stub = self.directory.group_coordinator(node_id)
        except KeyError:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "some group shards have no coordinator now"
                if node_id < 0
                else f"the coordinator on node {node_id} has no known address yet",
            ) from None
        whom = f"the coordinator on node {node_id}"
        return await self.call(whom, method(stub), request)

    # ---------------------------------------------------------------------------------------------- controller

    async def ask_controller(
        self, method: Callable[[ControllerStub], Unary[RequestT, ResponseT]], request: RequestT
    ) -> ResponseT:
        """Send a request to the active controller, and return its answer."""
        return await self.call("the controller", method(self.directory.controller()), request)

    async def describe_controller(self) -> controller_pb2.DescribeControllerResponse:
        """Ask the active controller to describe itself, and return its answer. Raises KafkaError."""
        request = controller_pb2.DescribeControllerRequest()
        return await self.ask_controller(lambda controller: controller.DescribeController, request)

    async def drain_node(self, node_id: int, *, cancel: bool) -> None:
        """Drain a node, or cancel that. Returns once this process's metadata image shows the change."""
        request = controller_pb2.DrainNodeRequest(node_id=node_id, cancel=cancel)
        answer = await self.ask_controller(lambda controller: controller.DrainNode, request)
        raise_for(answer.status.error_code, answer.status.error_message)
        await self.seen(answer.metadata_offset)

    async def remove_node(self, node_id: int) -> None:
        """Remove a node. Returns once this process's metadata image no longer has the node."""
        request = controller_pb2.RemoveNodeRequest(node_id=node_id)
        answer = await self.ask_controller(lambda controller: controller.RemoveNode, request)
        raise_for(answer.status.error_code, answer.status.error_message)
        await self.seen(answer.metadata_offset)

    async def reassign(
        self, wanted: Mapping[Partition, Sequence[int]]
    ) -> dict[Partition, KafkaError]:
        """Reassign partitions, and return the error of each that was refused. An empty list of replicas cancels a
        reassignment. Returns once this process's metadata image shows the others.
        """
        request = controller_pb2.ReassignPartitionsRequest(
            assignments=[
                controller_pb2.ReassignPartitionsRequest.Assignment(
                    partition=TopicPartition(topic=partition.topic, partition=partition.partition),
                    replicas=replicas,
                )
                for partition, replicas in wanted.items()
            ]
        )
        answer = await self.ask_controller(
            lambda controller: controller.ReassignPartitions, request
        )
        failures = {
            Partition(one.topic, one.partition): KafkaError(
                error_code_of(one.error_code),
                f"{one.topic}-{one.partition}: {one.error_message}",
            )
            for one in answer.partitions
            if one.error_code
        }
        if len(failures) < len(wanted):
            await self.seen(answer.metadata_offset)
        return failures

    async def seen(self, metadata_offset: int) -> None:
        """Wait until this process's metadata image has reached the offset of a change. Raises
        KafkaError(REQUEST_TIMED_OUT).
        """
        try:
            await self.metadata.wait_until(metadata_offset, self._call_timeout_ms / 1000)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "it is done, but this gateway's view of the cluster lags behind; read it again",
            ) from None


__all__ = ["Listing", "Roles", "all_answers", "raise_for"]
