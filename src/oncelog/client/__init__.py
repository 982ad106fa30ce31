"""The client for programs: `Producer` and `Consumer`, on asyncio, against oncelog and Apache Kafka 4.

    from oncelog.client import Producer

    async with Producer("localhost:9092") as producer:
        print(await producer.send("payments", b"12.50", key=b"alice"))

What is imported here is loaded when it is first used. `core/` decides from events and time, `network/` has the
sockets. `cluster.py`, `partition_reader.py` and `produce_pipeline.py` are the blocking calls of Spark's source and
sink.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oncelog.client.consumer import Consumer
    from oncelog.client.core.consumer_record import ConsumerRecord
    from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
    from oncelog.client.delivery import Delivery, RecordMetadata
    from oncelog.client.errors import (
        AbortableError,
        AuthenticationError,
        AuthorizationError,
        BufferExhaustedError,
        ClientError,
        ConfigError,
        DisconnectedError,
        FatalError,
        FencedError,
        IllegalStateError,
        NoOffsetError,
        RecordTooLargeError,
        RefusedError,
        RetriableError,
        SerializationError,
        TimedOutError,
        UnsupportedError,
    )
    from oncelog.client.interceptors import Interceptor, OutgoingRecord
    from oncelog.client.network.log_offsets import OffsetAtTime
    from oncelog.client.producer import Producer, Transaction
    from oncelog.ids import Partition

__all__ = [
    "AbortableError",
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhaustedError",
    "ClientError",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DisconnectedError",
    "FatalError",
    "FencedError",
    "GroupMember",
    "IllegalStateError",
    "Interceptor",
    "NoOffsetError",
    "OffsetAtTime",
    "OffsetToCommit",
    "OutgoingRecord",
    "Partition",
    "Producer",
    "RecordMetadata",
    "RecordTooLargeError",
    "RefusedError",
    "RetriableError",
    "SerializationError",
    "TimedOutError",
    "Transaction",
    "UnsupportedError",
]

_PLACES: Final = {
    "Consumer": "consumer",
    "ConsumerRecord": "core.consumer_record",
    "OffsetAtTime": "network.log_offsets",
    "GroupMember": "core.transaction_calls",
    "OffsetToCommit": "core.transaction_calls",
    "Delivery": "delivery",
    "RecordMetadata": "delivery",
    "Interceptor": "interceptors",
    "OutgoingRecord": "interceptors",
    "Producer": "producer",
    "Transaction": "producer",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Partition":
        return import_module("oncelog.ids").Partition
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'errors')}"), name)
