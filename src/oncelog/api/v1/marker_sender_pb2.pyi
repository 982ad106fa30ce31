from oncelog.api.v1 import types_pb2 as _types_pb2
from oncelog.api.v1 import storage_pb2 as _storage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERED: _ClassVar[DeliveryOutcome]
    FENCED: _ClassVar[DeliveryOutcome]
    CANCELLED: _ClassVar[DeliveryOutcome]
    OVERLOADED: _ClassVar[DeliveryOutcome]
DELIVERED: DeliveryOutcome
FENCED: DeliveryOutcome
CANCELLED: DeliveryOutcome
OVERLOADED: DeliveryOutcome

class DeliverMarkersRequest(_message.Message):
    __slots__ = ("shard", "markers", "metadata_offset")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    shard: int
    markers: _containers.RepeatedCompositeFieldContainer[_storage_pb2.TxnMarker]
    metadata_offset: int
    def __init__(self, shard: _Optional[int] = ..., markers: _Optional[_Iterable[_Union[_storage_pb2.TxnMarker, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DeliverMarkersResponse(_message.Message):
    __slots__ = ("outcome", "dropped", "refused")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    outcome: DeliveryOutcome
    dropped: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    refused: _containers.RepeatedCompositeFieldContainer[_storage_pb2.MarkerResult]
    def __init__(self, outcome: _Optional[_Union[DeliveryOutcome, str]] = ..., dropped: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[_storage_pb2.MarkerResult, _Mapping]]] = ...) -> None: ...

class DescribeDeliveriesRequest(_message.Message):
    __slots__ = ("producer_ids",)
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, producer_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeDeliveriesResponse(_message.Message):
    __slots__ = ("deliveries",)
    class Delivery(_message.Message):
        __slots__ = ("producer_id", "missing")
        PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        producer_id: int
        missing: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
        def __init__(self, producer_id: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[DescribeDeliveriesResponse.Delivery]
    def __init__(self, deliveries: _Optional[_Iterable[_Union[DescribeDeliveriesResponse.Delivery, _Mapping]]] = ...) -> None: ...

class CancelShardRequest(_message.Message):
    __slots__ = ("shard", "coordinator_epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    coordinator_epoch: int
    def __init__(self, shard: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class CancelShardResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    def __init__(self, cancelled: _Optional[int] = ...) -> None: ...

class DescribeQueuesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeQueuesResponse(_message.Message):
    __slots__ = ("queues",)
    class Queue(_message.Message):
        __slots__ = ("node_id", "depth", "oldest_age_ms")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        DEPTH_FIELD_NUMBER: _ClassVar[int]
        OLDEST_AGE_MS_FIELD_NUMBER: _ClassVar[int]
        node_id: int
        depth: int
        oldest_age_ms: int
        def __init__(self, node_id: _Optional[int] = ..., depth: _Optional[int] = ..., oldest_age_ms: _Optional[int] = ...) -> None: ...
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[DescribeQueuesResponse.Queue]
    def __init__(self, queues: _Optional[_Iterable[_Union[DescribeQueuesResponse.Queue, _Mapping]]] = ...) -> None: ...
