"""The adapter of oncelog's own producer (`oncelog.client`), which speaks TV2 (the transaction protocol of KIP-890).
Consumers are aiokafka's.

What an error of the producer proves:

    a record in a transaction     it is not in the log: the producer can only abort
    INVALID_PRODUCER_EPOCH (47)   others have ended the transaction
    EndTxn refused as fenced      fenced, unless a try before it may have decided: then nobody knows
    INVALID_TXN_STATE (48)        for EndTxn: this epoch's transaction was aborted, whatever earlier tries did
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.errors import ClientError, FencedError, RetriableError
from oncelog.client.producer import Producer
from oncelog.errors import ErrorCode
from oncelog.ids import Partition as TopicPartition
from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.aiokafka import AiokafkaClients, AiokafkaConsumer
from oncelog_robustness.clients.contract import Consumer, EndedByOthers, Fenced, Refused, Unanswered
from oncelog_robustness.clients.login import own_login
from oncelog_robustness.clients.membership import Member
from oncelog_robustness.history import Isolation, Partition

CALL_TIMEOUT_MS: Final = 20_000
REQUEST_TIMEOUT_MS: Final = 6_000
_ENDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH})

ResultT = TypeVar("ResultT")


class OncelogClients:
    """A factory of oncelog's own producers, and of aiokafka's consumers, against the brokers at `bootstrap`, a list
    of `host:port`."""

    library = "oncelog"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)
        self._readers = AiokafkaClients(bootstrap)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "OncelogProducer":
        producer = Producer(
            self.bootstrap,
            own_login(),
            client_id=client,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            delivery_timeout_ms=CALL_TIMEOUT_MS,
            max_block_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            linger_ms=0,
        )
        made = OncelogProducer(producer)
        if transactional_id is None:
            await made.init_transactions()
        return made

    def two_phase_producer(self, client: str, transactional_id: str) -> "OncelogProducer":
        """Return a producer for two-phase commit (KIP-939): its transactions have no time-out, and the
        application's database decides them."""
        return OncelogProducer(
            Producer(
                self.bootstrap,
                own_login(),
                client_id=client,
                transactional_id=transactional_id,
                transaction_two_phase_commit_enable=True,
                delivery_timeout_ms=CALL_TIMEOUT_MS,
                max_block_ms=CALL_TIMEOUT_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                linger_ms=0,
            )
        )

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> AiokafkaConsumer:
        return await self._readers.consumer(client, isolation, group)

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)


class OncelogProducer:
    protocol = "TV2"
    sends_generation = True

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def init_transactions(self) -> None:
        await _told(self._producer.start())

    async def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except ClientError as error:
            raise _translated(error) from error

    async def commit(self) -> None:
        try:
            await self._producer.commit_transaction()
        except ClientError as error:
            if error.error_code is ErrorCode.INVALID_TXN_STATE:
                raise EndedByOthers(str(error)) from error
            raise _translated(error) from error

    async def abort(self) -> None:
        await _told(self._producer.abort_transaction())

    async def prepare(self) -> str:
        """Prepare the transaction (KIP-939): all is flushed, and only its end is open. Return the text that names
        it, which the application stores in its database."""
        return str(await _told(self._producer.prepare_transaction()))

    async def complete(self, stored: str) -> None:
        """Commit the prepared transaction if its text is `stored`; otherwise abort it."""
        await _told(self._producer.complete_transaction(stored))

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        topic, number = partition
        try:
            sent = await self._producer.send(topic, value, key, partition=number)
        except ClientError as error:
            if self._producer.settings.is_transactional:
                raise _of_a_transaction(error) from error
            raise _translated(error) from error
        return sent.offset

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        group = consumer if isinstance(consumer, str) else consumer.group
        assert group is not None, "a consumer without a group has no offsets"
        member = GroupMember(group)
        if not isinstance(consumer, str):
            assert isinstance(consumer, Member), f"{consumer} does not know its generation"
            assert consumer.membership is not None, "it has not been handed anything yet"
            found = consumer.membership
            member = GroupMember(group, found.generation, found.member_id, found.instance_id)
        wanted = {
            TopicPartition(*partition): OffsetToCommit(offset)
            for partition, offset in offsets.items()
        }
        await _told(self._producer.send_offsets_to_transaction(wanted, member))

    async def close(self) -> None:
        await self._producer.close(0)


def _of_a_transaction(error: ClientError) -> Refused:
    if isinstance(error, FencedError):
        return Fenced(str(error))
    return (EndedByOthers if error.error_code in _ENDED else Refused)(str(error))


def _translated(error: ClientError) -> Refused | Unanswered:
    if error.may_be_done:
        return Unanswered(str(error))
    return Fenced(str(error)) if isinstance(error, FencedError) else Refused(str(error))


async def _told(call: Awaitable[ResultT]) -> ResultT:
    try:
        return await call
    except RetriableError as error:
        raise Unanswered(str(error)) from error
    except ClientError as error:
        raise _translated(error) from error
