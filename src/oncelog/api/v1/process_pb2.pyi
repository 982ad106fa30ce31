from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeProcessRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeProcessResponse(_message.Message):
    __slots__ = ("node_id", "version", "started_ms", "cpu_seconds", "resident_bytes", "topics", "held", "transactions", "queued_markers")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MARKERS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    version: str
    started_ms: int
    cpu_seconds: float
    resident_bytes: int
    topics: _containers.RepeatedCompositeFieldContainer[TopicCounts]
    held: _containers.RepeatedCompositeFieldContainer[HeldPartition]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionCounts]
    queued_markers: int
    def __init__(self, node_id: _Optional[int] = ..., version: _Optional[str] = ..., started_ms: _Optional[int] = ..., cpu_seconds: _Optional[float] = ..., resident_bytes: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[TopicCounts, _Mapping]]] = ..., held: _Optional[_Iterable[_Union[HeldPartition, _Mapping]]] = ..., transactions: _Optional[_Iterable[_Union[TransactionCounts, _Mapping]]] = ..., queued_markers: _Optional[int] = ...) -> None: ...

class TopicCounts(_message.Message):
    __slots__ = ("topic", "produced_records", "produced_bytes", "consumed_records", "consumed_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    produced_records: int
    produced_bytes: int
    consumed_records: int
    consumed_bytes: int
    def __init__(self, topic: _Optional[str] = ..., produced_records: _Optional[int] = ..., produced_bytes: _Optional[int] = ..., consumed_records: _Optional[int] = ..., consumed_bytes: _Optional[int] = ...) -> None: ...

class HeldPartition(_message.Message):
    __slots__ = ("topic", "partition", "lso_lag")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LSO_LAG_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    lso_lag: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., lso_lag: _Optional[int] = ...) -> None: ...

class TransactionCounts(_message.Message):
    __slots__ = ("outcome", "ended", "marker_buckets")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MARKER_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    ended: int
    marker_buckets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, outcome: _Optional[str] = ..., ended: _Optional[int] = ..., marker_buckets: _Optional[_Iterable[int]] = ...) -> None: ...
