"""Partitions as REST shows them: offsets, the transaction that holds the last stable offset (LSO), and hanging
transactions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oncelog.api.v1 import storage_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Millis, Partition
from oncelog.rpc.metadata import TRANSACTION, MetadataImage
from oncelog.runtime.clock import Clock
from oncelog_gateway.core.endings import abort_command, advice
from oncelog_gateway.core.hanging import (
    Coordinated,
    CoordinatedTransaction,
    OpenTransaction,
    Shown,
    named_by,
    owner_of,
    still_open,
)
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.first_records import FirstRecords
from oncelog_gateway.nodes import require_node
from oncelog_gateway.resources import (
    ActiveProducer,
    HangingPage,
    HangingTransaction,
    LsoHolder,
    PartitionStatus,
    failure_of,
    known_or_none,
    paged,
    resource_of,
)
from oncelog_gateway.role_answers import opened_in, opened_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions


class Partitions:
    """Reads partitions from their leaders, and finds the names of their producers at the coordinators."""

    def __init__(self, roles: Roles, transactions: Transactions, clock: Clock) -> None:
        self._roles = roles
        self._transactions = transactions
        self._clock = clock
        self._first_records = FirstRecords(roles)

    async def statuses(self, partitions: Sequence[Partition]) -> list[PartitionStatus]:
        """Return a row for each partition, in the order asked. A leader that does not answer is a `failure` in its
        row, never an exception.
        """
        return self.rows(await self.look(partitions), partitions)

    async def look(self, partitions: Sequence[Partition]) -> "Looked":
        """Ask the leaders about partitions, and the coordinators about the transactions that hold their last stable
        offsets. Return the answers, without a row for each partition: there may be thousands, and a page shows a few.
        """
        described = await self._roles.describe_partitions(partitions)
        held = [
            opened_of(partition, answer.lso_holder)
            for partition, answer in described.items()
            if not isinstance(answer, KafkaError) and _is_held(answer)
        ]
        holders, failures = await self._holders(held)
        return Looked(described, holders, failures, self._roles.image)

    def rows(self, looked: "Looked", partitions: Iterable[Partition]) -> list[PartitionStatus]:
        image = self._roles.image
        return [
            _status(image, one, looked.described[one], looked.holders.get(one))
            for one in partitions
        ]

    async def _holders(
        self, held: Sequence[OpenTransaction]
    ) -> tuple[dict[Partition, LsoHolder], tuple[KafkaError, ...]]:
        """Return what is known of each of these transactions, by partition, and the failures of coordinators that did
        not answer. `held` has the oldest open transaction of each partition.
        """
        answered, failures = await self._transactions.of_producers(
            [one.producer_id for one in held]
        )
        known = Coordinated(answered)
        suspects = [one for one in held if owner_of(one, known.of(one)) is None]
        unowned = set() if failures else set(await self._confirmed(suspects))
        began = await self._first_records.timestamps_of(unowned)
        return {
            one.partition: self._holder(
                one, known.of(one), unowned, began.get(one), is_known=not failures
            )
            for one in held
        }, failures

    async def opened(self, one: OpenTransaction) -> LsoHolder:
        """Return what is known of an open transaction: whose it is, since when, and whether anybody will end it."""
        holders, _ = await self._holders([one])
        return holders[one.partition]

    async def producers(self, partition: Partition) -> list[ActiveProducer]:
        """Return every producer that the leader remembers. Raises KafkaError."""
        self._roles.leader_of(partition)
        answer = (await self._roles.describe_producers([partition]))[partition]
        if isinstance(answer, KafkaError):
            raise answer
        known, _ = await self._transactions.of_producers(
            [one.producer_id for one in answer.producers]
        )
        names: dict[int, str] = {one.producer_id: one.transactional_id for one in known}
        return [
            resource_of(ActiveProducer, one, transactional_id=names.get(one.producer_id))
            for one in answer.producers
        ]

    async def hanging(
        self, partitions: Sequence[Partition], shown: Shown, paging: PageRequest
    ) -> HangingPage:
        """Return a page of the hanging transactions in these partitions: open ones that no coordinator will end
        (`core.hanging`).
        """
        described = await self._roles.describe_partitions(partitions)
        failures = [answer for answer in described.values() if isinstance(answer, KafkaError)]
        busy = [
            partition
            for partition, answer in described.items()
            if not isinstance(answer, KafkaError) and answer.open_transaction_count
        ]
        producers = await self._roles.describe_producers(busy)
        failures += [answer for answer in producers.values() if isinstance(answer, KafkaError)]
        opened = opened_in(producers)
        answered, silent = await self._transactions.of_producers(
            [one.producer_id for one in opened]
        )
        known = Coordinated(answered)
        suspects = [one for one in opened if owner_of(one, known.of(one)) is None]
        # A coordinator that did not answer may own any of them: then none is accused.
        confirmed = [] if silent else await self._confirmed(suspects)
        now = self._clock.now()
        began = await self._first_records.timestamps_of(confirmed)
        found = [
            self._hanging(one, named_by(one, known.of(one)), began.get(one), now)
            for one in confirmed
        ]
        rows = [row for row in found if shown.shows(row.idle_ms, row.coordinator)]
        page, about = paged(
            rows,
            lambda row: (row.topic, row.partition, row.start_offset),
            paging,
            (*failures, *silent),
        )
        return HangingPage(
            hanging=page,
            hidden_count=len(found) - len(rows),
            checked_partitions=len(partitions) - len(failures),
            open_transactions=len(opened),
            **about,
        )

    async def _confirmed(self, suspects: Sequence[OpenTransaction]) -> tuple[OpenTransaction, ...]:
        if not suspects:
            return ()
        again = await self._roles.describe_producers({one.partition for one in suspects})
        return still_open(suspects, opened_in(again))

    def _hanging(
        self,
        opened: OpenTransaction,
        named: CoordinatedTransaction | None,
        first_timestamp_ms: int | None,
        now: Millis,
    ) -> HangingTransaction:
        return resource_of(
            HangingTransaction,
            opened,
            topic=opened.partition.topic,
            partition=opened.partition.partition,
            first_timestamp_ms=first_timestamp_ms,
            idle_ms=_idle_ms(opened, now),
            transactional_id=named.transactional_id if named else None,
            coordinator_state=named.state if named else None,
            coordinator=None
            if named is None
            else _coordinator(self._roles.image, named.transactional_id),
            abort=abort_command(opened.partition, opened.start_offset, opened.producer_epoch),
        )

    def _holder(
        self,
        opened: OpenTransaction,
        known: Sequence[CoordinatedTransaction],
        unowned: set[OpenTransaction],
        first_timestamp_ms: int | None,
        *,
        is_known: bool,
    ) -> LsoHolder:
        now = self._clock.now()
        owner = owner_of(opened, known)
        named = owner or named_by(opened, known)
        is_hanging = opened in unowned if is_known else None
        began = known_or_none(owner.start_time_ms) if owner else None
        told = advice(opened, owner, is_hanging=is_hanging)
        return resource_of(
            LsoHolder,
            opened,
            transactional_id=named.transactional_id if named else None,
            start_time_ms=began,
            age_ms=None if began is None else max(now - began, 0),
            first_timestamp_ms=first_timestamp_ms,
            first_record_age_ms=None
            if first_timestamp_ms is None
            else max(now - first_timestamp_ms, 0),
            idle_ms=_idle_ms(opened, now),
            coordinator_state=named.state if named else None,
            hanging=is_hanging,
            advice=told.text,
            next_command=told.command,
        )


class Looked(NamedTuple):
    """The answers of leaders and coordinators about some partitions, from which a page sorts them by trouble and makes
    rows.
    """

    described: Mapping[Partition, storage_pb2.PartitionDescription | KafkaError]
    holders: Mapping[Partition, LsoHolder]
    """The holder in each partition whose last stable offset a transaction holds."""
    failures: tuple[KafkaError, ...]
    """Failures of coordinators. If there are any, it is not known whether a transaction hangs."""
    image: MetadataImage

    def lag_of(self, partition: Partition) -> int:
        """Return how many offsets open transactions hold back in a partition; 0 also if its leader did not answer."""
        answer = self.described[partition]
        if isinstance(answer, KafkaError):
            return 0
        return max(answer.high_watermark - answer.last_stable_offset, 0)

    def trouble_of(self, partition: Partition) -> tuple[bool, int, bool]:
        """Return a key that sorts partitions by trouble: first those whose leader is silent, then those with most
        offsets held back, then under-replicated ones.
        """
        found = self.image.partition(partition)
        is_whole = found is None or len(found.isr) >= len(found.replicas)
        is_answered = not isinstance(self.described[partition], KafkaError)
        return is_answered, -self.lag_of(partition), is_whole


def all_partitions(image: MetadataImage, topic_pattern: str = "") -> list[Partition]:
    """Return every partition of the cluster, in order. With `topic_pattern`, only those of topics whose name contains
    it.
    """
    return [
        Partition(name, one.partition)
        for name in sorted(image.topics)
        if topic_pattern in name
        for one in image.topics[name].partitions
    ]


def _coordinator(image: MetadataImage, transactional_id: str) -> int | None:
    """Return the node id of the coordinator of a transactional id; None while its shard has no coordinator."""
    shard = image.shard_for(TRANSACTION, transactional_id)
    return None if shard is None else known_or_none(shard.coordinator)


def partitions_to_search(
    image: MetadataImage, topic: str | None, partition: int | None, broker: int | None
) -> list[Partition]:
    """Return the partitions that match all arguments that are given: the topic, the partition's number, a replica on
    the node `broker`. Raises KafkaError for a topic or node that does not exist.
    """
    if topic is None and partition is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"partition {partition} of which topic? give topic too"
        )
    if topic is not None and topic not in image.topics:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {topic!r}; GET /v1/topics lists all",
        )
    if broker is not None:
        require_node(image, broker)
    topics = sorted(image.topics) if topic is None else [topic]
    if topic is not None and partition is not None:
        count = len(image.topics[topic].partitions)
        if partition >= count:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {partition} of {topic!r}; it has {count}",
            )
    return [
        Partition(name, one.partition)
        for name in topics
        for one in image.topics[name].partitions
        if (partition is None or one.partition == partition)
        and (broker is None or broker in one.replicas)
    ]


def _is_held(answer: storage_pb2.PartitionDescription) -> bool:
    return (
        answer.HasField("lso_holder")
        and answer.lso_holder.producer_id >= 0
        and answer.lso_holder.current_txn_start_offset >= 0
    )


def _idle_ms(opened: OpenTransaction, now: Millis) -> int | None:
    # The timestamp is the producer's: a clock ahead of ours is idle for no time at all.
    return max(now - opened.last_timestamp_ms, 0) if opened.last_timestamp_ms >= 0 else None


def _status(
    image: MetadataImage,
    partition: Partition,
    answer: storage_pb2.PartitionDescription | KafkaError,
    holder: LsoHolder | None,
) -> PartitionStatus:
    found = image.partition(partition)
    leadership = {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": known_or_none(found.leader) if found else None,
        "leader_epoch": found.leader_epoch if found else -1,
        "replicas": list(found.replicas) if found else [],
        "isr": list(found.isr) if found else [],
        "under_replicated": found is not None and len(found.isr) < len(found.replicas),
    }
    if isinstance(answer, KafkaError):
        return PartitionStatus.model_validate({**leadership, "failure": failure_of(answer)})
    leadership["leader_epoch"] = answer.leader_epoch
    return resource_of(
        PartitionStatus,
        answer,
        **leadership,
        lso_lag=max(answer.high_watermark - answer.last_stable_offset, 0),
        lso_holder=holder,
    )
