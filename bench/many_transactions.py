"""Many transactional ids, some of them in an open transaction, made over raw connections: a producer for each
would be a thread for each."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kio.static.primitive import i32Timedelta

from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import parse_addresses
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import END_TXN, INIT_PRODUCER_ID, PRODUCE
from oncelog.record.records import Record, encode_batch

CONNECTIONS = 16
SETTLE_S = 600
PAUSE_S = 0.1
TIMEOUT = timedelta(minutes=10)
_NOT_READY = (3, 5, 6, 14, 15, 16, 51)
"""Error codes of roles that are about to own a shard, to lead a partition, or to have ended a transaction."""


class Wanted(NamedTuple):
    """The wanted ids, `id-0`, `id-1` and so on. The first have a transaction open, the next have committed one, each
    with a record in `topic`; the others are only known. Ids before `first` exist already."""

    ids: int
    opened: int = 0
    committed: int = 0
    topic: str = ""
    partitions: int = 1
    first: int = 0


def make_transactions(bootstrap: str, wanted: Wanted) -> None:
    errors: list[BaseException] = []

    def make(numbers: Sequence[int]) -> None:
        try:
            _make(bootstrap, wanted, numbers)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=make, args=(range(first, wanted.ids, CONNECTIONS),))
        for first in range(wanted.first, min(wanted.first + CONNECTIONS, wanted.ids))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _make(bootstrap: str, wanted: Wanted, numbers: Sequence[int]) -> None:
    deadline = Deadline(SETTLE_S * 1_000)
    addresses = parse_addresses(bootstrap)
    with Connection.connect(addresses[numbers[0] % len(addresses)], "bench", deadline) as line:
        for number in numbers:
            deadline = Deadline(SETTLE_S * 1_000)
            name = f"id-{number}"
            init = schema_of(INIT_PRODUCER_ID, 4)
            begun = _until_served(
                lambda schema=init, name=name, deadline=deadline: line.call(
                    schema,
                    schema.request(
                        transactional_id=name,
                        transaction_timeout=i32Timedelta.parse(TIMEOUT),
                        producer_id=-1,
                        producer_epoch=-1,
                    ),
                    deadline,
                ),
                lambda answer: answer.error_code,
            )
            if number >= wanted.opened + wanted.committed:
                continue
            identity = (name, begun.producer_id, begun.producer_epoch)
            _write(line, wanted, number, identity, deadline)
            if number >= wanted.opened:
                _commit(line, identity, deadline)


def _write(
    line: Connection,
    wanted: Wanted,
    number: int,
    identity: tuple[str, int, int],
    deadline: Deadline,
) -> None:
    """Write a record as a TV2 client does: the record adds its partition to the transaction."""
    name, producer_id, producer_epoch = identity
    records = encode_batch(
        [Record(None, b"x" * 100, timestamp=int(time.time() * 1000))],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    schema = schema_of(PRODUCE, 12)
    types = schema.request_types
    data = types.PartitionProduceData(index=number % wanted.partitions, records=bytes(records))
    request = schema.request(
        transactional_id=name,
        acks=-1,
        timeout=timedelta(seconds=5),
        topic_data=(types.TopicProduceData(name=wanted.topic, partition_data=(data,)),),
    )
    _until_served(
        lambda: line.call(schema, request, deadline),
        lambda answer: answer.responses[0].partition_responses[0].error_code,
    )


def _commit(line: Connection, identity: tuple[str, int, int], deadline: Deadline) -> None:
    schema = schema_of(END_TXN, 5)
    request = schema.request(
        transactional_id=identity[0],
        producer_id=identity[1],
        producer_epoch=identity[2],
        committed=True,
    )
    _until_served(lambda: line.call(schema, request, deadline), lambda answer: answer.error_code)


def _until_served(call: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    while (code := code_of(answer := call())) != 0:
        assert code in _NOT_READY, code
        time.sleep(PAUSE_S)
    return answer
