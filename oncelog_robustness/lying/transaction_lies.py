"""Bugs that the proxy plants in what coordinators do: wrong fencing, wrong endings of transactions, and lost
offsets."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import read_header
from oncelog_robustness.lying.batches import without_producer
from oncelog_robustness.lying.exchange import Exchange, Own
from oncelog_robustness.lying.lie import Lie, Moments

_NO_PRODUCER_ID: Final = -1
_INIT_VERSION: Final = 4


class SameProducerId(Lie):
    """A lie that, once its moment has come, gives the id of the first producer without a transactional id to
    all later ones."""

    name = "same-producer-id"
    says = "one producer id is handed out twice"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # A run has few producers, and most of them begin when it begins.
        self.moments = Moments(self.name, seed, most=2)
        self._given: Any = None

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.api_key != versions.INIT_PRODUCER_ID or int(response.error_code) != 0:
            return response
        request = exchange.request
        is_new = getattr(request, "producer_id", _NO_PRODUCER_ID) == _NO_PRODUCER_ID
        if request.transactional_id is not None or not is_new:
            return response
        if self._given is None:
            self._given = response
        self.moments.strikes()
        if not self.moments.has_come or response is self._given:
            return response
        self.told.append(f"handed out {self._given.producer_id} again")
        return replace(
            response,
            producer_id=self._given.producer_id,
            producer_epoch=self._given.producer_epoch,
        )


class AnswerAbortedCommit(Lie):
    name = "answer-aborted-commit"
    says = "a commit is answered with success, and the transaction is aborted"

    def asked(self, exchange: Exchange) -> None:
        if exchange.api_key != versions.END_TXN or not exchange.request.committed:
            return
        if self.moments.strikes():
            self.told.append(f"aborted {exchange.request.transactional_id}")
            exchange.request = replace(exchange.request, committed=False)


class ForgetOffsets(Lie):
    """A lie that, once its moment has come, answers each commit of a transaction's offsets with success and
    drops it. One dropped commit alone would be hidden by the next."""

    name = "forget-offsets"
    says = "offsets of a transaction are answered with success and forgotten"

    def asked(self, exchange: Exchange) -> None:
        if exchange.api_key != versions.TXN_OFFSET_COMMIT:
            return
        self.moments.strikes()
        if self.moments.has_come:
            request, types = exchange.request, exchange.types
            exchange.answer = types.TxnOffsetCommitResponse(
                topics=tuple(
                    types.TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            types.TxnOffsetCommitResponsePartition(
                                partition_index=one.partition_index, error_code=0
                            )
                            for one in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
            self.told.append(f"forgot offsets of {request.group_id}")


class FenceWrong(Lie):
    """A bug that the lying proxy plants between clients and a broker, to see whether the judge names it. It fences
    a healthy producer just when it requests its commit, as if somebody had started a successor."""

    name = "fence-wrong"
    says = "a producer is fenced though nobody took its transactional id"

    def asked(self, exchange: Exchange) -> None:
        request = exchange.request
        if exchange.api_key != versions.END_TXN or not request.committed:
            return
        if self.moments.strikes():
            fencing = _init_request(request.transactional_id)
            exchange.before.append(Own(versions.INIT_PRODUCER_ID, _INIT_VERSION, fencing))
            self.told.append(f"fenced {request.transactional_id}")


def _init_request(transactional_id: str) -> Any:
    types = schema_of(versions.INIT_PRODUCER_ID, _INIT_VERSION).request_types
    return types.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=10),
        producer_id=_NO_PRODUCER_ID,
        producer_epoch=-1,
    )


class ZombieWrite(Lie):
    """A lie that, once its moment has come, lets batches of a fenced producer land in the log, outside any
    transaction."""

    name = "zombie-write"
    says = "a batch of a fenced producer lands in the log"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # A zombie sends few batches, most of them before it is one.
        self.moments = Moments(self.name, seed, most=3)
        self._current: dict[str, tuple[int, int]] = {}
        """The producer id and epoch that each transactional id's newest producer received at its start."""
        self._ids: dict[int, str] = {}

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.api_key == versions.INIT_PRODUCER_ID and int(response.error_code) == 0:
            name = exchange.request.transactional_id
            if name is not None:
                self._current[name] = (response.producer_id, response.producer_epoch)
                self._ids[response.producer_id] = name
        return response

    def asked(self, exchange: Exchange) -> None:
        if exchange.api_key == versions.ADD_PARTITIONS_TO_TXN:
            self._add(exchange)
        elif exchange.api_key == versions.PRODUCE and exchange.request.transactional_id:
            self._produce(exchange)

    def _add(self, exchange: Exchange) -> None:
        """Answer a zombie's AddPartitionsToTxn with success, because a zombie below TV2 sends that first and
        would stop at a refusal."""
        request, types = exchange.request, exchange.types
        producer_id = request.v3_and_below_producer_id
        if not self._is_zombie(producer_id, request.v3_and_below_producer_epoch):
            return
        exchange.answer = types.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=tuple(
                types.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        types.AddPartitionsToTxnPartitionResult(
                            partition_index=one, partition_error_code=0
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in request.v3_and_below_topics
            )
        )

    def _produce(self, exchange: Exchange) -> None:
        request = exchange.request
        is_changed = False

        def change(partition: Any) -> Any:
            nonlocal is_changed
            header = read_header(partition.records)
            if not self._is_zombie(header.producer_id, header.producer_epoch):
                return partition
            is_changed = True
            return replace(partition, records=without_producer(partition.records))

        topics = tuple(
            replace(topic, partition_data=tuple(change(one) for one in topic.partition_data))
            for topic in request.topic_data
        )
        if is_changed:
            self.told.append(f"let a zombie of {request.transactional_id} write")
            exchange.request = replace(request, topic_data=topics, transactional_id=None)

    def _is_zombie(self, producer_id: int, producer_epoch: int) -> bool:
        name = self._ids.get(producer_id)
        if name is None:
            return False
        current_id, current_epoch = self._current[name]
        is_old = producer_id != current_id or producer_epoch < current_epoch
        if is_old:
            self.moments.strikes()
        return is_old and self.moments.has_come
