"""The client for programs: `Producer`, `Consumer` and `Admin`, on asyncio, against oncelog and Apache Kafka 4.

    from oncelog.client import Producer

    async with Producer("localhost:9092") as producer:
        print(await producer.send("payments", b"12.50", key=b"alice"))

What is imported here is loaded when it is first used. `core/` is pure: it gets answers and the time, and says what to
send. `network/` has the sockets. `cluster.py`, `partition_reader.py` and `produce_pipeline.py` are the blocking calls
of Spark's source and sink.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from oncelog.client.admin import EARLIEST, LATEST, Admin
    from oncelog.client.consumer import Consumer
    from oncelog.client.core.admin_results import (
        ConfigResource,
        NewTopic,
        ProducerDescription,
        Results,
    )
    from oncelog.client.core.consumer_record import ConsumerRecord
    from oncelog.client.core.scram_users import (
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
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
    from oncelog.security.acl import (
        Acl,
        AclFilter,
        Operation,
        PatternType,
        Permission,
        ResourceType,
    )

__all__ = [
    "AbortableError",
    "Acl",
    "AclFilter",
    "Admin",
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhaustedError",
    "ClientError",
    "Completion",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DisconnectedError",
    "EARLIEST",
    "FatalError",
    "FencedError",
    "GroupMember",
    "IllegalStateError",
    "Interceptor",
    "LATEST",
    "NewTopic",
    "NoOffsetError",
    "OffsetAtTime",
    "OffsetToCommit",
    "Operation",
    "OutgoingRecord",
    "Partition",
    "PatternType",
    "Permission",
    "PreparedTransaction",
    "Producer",
    "ProducerDescription",
    "RecordMetadata",
    "RecordTooLargeError",
    "RefusedError",
    "ResourceType",
    "Results",
    "RetriableError",
    "SerializationError",
    "TimedOutError",
    "Transaction",
    "UnsupportedError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]

_PLACES: Final = {
    "Admin": "admin",
    "EARLIEST": "admin",
    "LATEST": "admin",
    "ConfigResource": "core.admin_results",
    "NewTopic": "core.admin_results",
    "ProducerDescription": "core.admin_results",
    "Results": "core.admin_results",
    "UserScramCredentialDeletion": "core.scram_users",
    "UserScramCredentialUpsertion": "core.scram_users",
    "Consumer": "consumer",
    "ConsumerRecord": "core.consumer_record",
    "OffsetAtTime": "network.log_offsets",
    "GroupMember": "core.transaction_calls",
    "OffsetToCommit": "core.transaction_calls",
    "Delivery": "delivery",
    "RecordMetadata": "delivery",
    "Interceptor": "interceptors",
    "OutgoingRecord": "interceptors",
    "Completion": "core.prepared",
    "PreparedTransaction": "core.prepared",
    "Producer": "producer",
    "Transaction": "producer",
}

_ACL: Final = "oncelog.security.acl"
_ELSEWHERE: Final = {
    "Partition": "oncelog.ids",
    "Acl": _ACL,
    "AclFilter": _ACL,
    "Operation": _ACL,
    "PatternType": _ACL,
    "Permission": _ACL,
    "ResourceType": _ACL,
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'errors')}"), name)
