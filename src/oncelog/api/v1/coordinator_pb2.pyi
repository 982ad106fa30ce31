from oncelog.api.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SinkAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SINK_OK: _ClassVar[SinkAnswer]
    SINK_SKIP: _ClassVar[SinkAnswer]
    SINK_ALREADY: _ClassVar[SinkAnswer]
    SINK_ALREADY_OTHER: _ClassVar[SinkAnswer]
    SINK_FENCED: _ClassVar[SinkAnswer]
    SINK_QUERY_CHANGED: _ClassVar[SinkAnswer]
    SINK_REPLAY_REFUSED: _ClassVar[SinkAnswer]
SINK_OK: SinkAnswer
SINK_SKIP: SinkAnswer
SINK_ALREADY: SinkAnswer
SINK_ALREADY_OTHER: SinkAnswer
SINK_FENCED: SinkAnswer
SINK_QUERY_CHANGED: SinkAnswer
SINK_REPLAY_REFUSED: SinkAnswer

class InitProducerIdRequest(_message.Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable_two_phase_commit", "keep_prepared_transaction", "origin")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENABLE_TWO_PHASE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    KEEP_PREPARED_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable_two_phase_commit: bool
    keep_prepared_transaction: bool
    origin: _types_pb2.RequestOrigin
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., enable_two_phase_commit: _Optional[bool] = ..., keep_prepared_transaction: _Optional[bool] = ..., origin: _Optional[_Union[_types_pb2.RequestOrigin, _Mapping]] = ...) -> None: ...

class InitProducerIdResponse(_message.Message):
    __slots__ = ("error_code", "producer_id", "producer_epoch", "ongoing_producer_id", "ongoing_producer_epoch")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ONGOING_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ONGOING_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_producer_id: int
    ongoing_producer_epoch: int
    def __init__(self, error_code: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., ongoing_producer_id: _Optional[int] = ..., ongoing_producer_epoch: _Optional[int] = ...) -> None: ...

class AddPartitionsToTxnRequest(_message.Message):
    __slots__ = ("transactions",)
    class Transaction(_message.Message):
        __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "partitions", "client_transaction_version", "origin")
        TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        VERIFY_ONLY_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        CLIENT_TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
        ORIGIN_FIELD_NUMBER: _ClassVar[int]
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
        client_transaction_version: int
        origin: _types_pb2.RequestOrigin
        def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., verify_only: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., client_transaction_version: _Optional[int] = ..., origin: _Optional[_Union[_types_pb2.RequestOrigin, _Mapping]] = ...) -> None: ...
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[AddPartitionsToTxnRequest.Transaction]
    def __init__(self, transactions: _Optional[_Iterable[_Union[AddPartitionsToTxnRequest.Transaction, _Mapping]]] = ...) -> None: ...

class AddPartitionsToTxnResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("transactional_id", "error_code", "partitions", "transaction_start_ms", "delayed_by")
        TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
        ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        TRANSACTION_START_MS_FIELD_NUMBER: _ClassVar[int]
        DELAYED_BY_FIELD_NUMBER: _ClassVar[int]
        transactional_id: str
        error_code: int
        partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
        transaction_start_ms: int
        delayed_by: _types_pb2.RequestNumber
        def __init__(self, transactional_id: _Optional[str] = ..., error_code: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ..., transaction_start_ms: _Optional[int] = ..., delayed_by: _Optional[_Union[_types_pb2.RequestNumber, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AddPartitionsToTxnResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[AddPartitionsToTxnResponse.Result, _Mapping]]] = ...) -> None: ...

class AddOffsetsToTxnRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id", "origin")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    origin: _types_pb2.RequestOrigin
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., group_id: _Optional[str] = ..., origin: _Optional[_Union[_types_pb2.RequestOrigin, _Mapping]] = ...) -> None: ...

class AddOffsetsToTxnResponse(_message.Message):
    __slots__ = ("error_code", "delayed_by")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DELAYED_BY_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    delayed_by: _types_pb2.RequestNumber
    def __init__(self, error_code: _Optional[int] = ..., delayed_by: _Optional[_Union[_types_pb2.RequestNumber, _Mapping]] = ...) -> None: ...

class EndTxnRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed", "client_transaction_version", "origin")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_transaction_version: int
    origin: _types_pb2.RequestOrigin
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., committed: _Optional[bool] = ..., client_transaction_version: _Optional[int] = ..., origin: _Optional[_Union[_types_pb2.RequestOrigin, _Mapping]] = ...) -> None: ...

class EndTxnResponse(_message.Message):
    __slots__ = ("error_code", "producer_id", "producer_epoch", "delayed_by")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DELAYED_BY_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    producer_id: int
    producer_epoch: int
    delayed_by: _types_pb2.RequestNumber
    def __init__(self, error_code: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., delayed_by: _Optional[_Union[_types_pb2.RequestNumber, _Mapping]] = ...) -> None: ...

class DescribeTransactionsRequest(_message.Message):
    __slots__ = ("transactional_ids",)
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class TransactionDescription(_message.Message):
    __slots__ = ("error_code", "transactional_id", "state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "partitions", "last_update_time_ms", "shard", "coordinator", "coordinator_epoch", "client_transaction_version", "owner_producer_id", "owner_producer_epoch", "trace_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    transactional_id: str
    state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    last_update_time_ms: int
    shard: int
    coordinator: int
    coordinator_epoch: int
    client_transaction_version: int
    owner_producer_id: int
    owner_producer_epoch: int
    trace_id: str
    def __init__(self, error_code: _Optional[int] = ..., transactional_id: _Optional[str] = ..., state: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., transaction_start_time_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., last_update_time_ms: _Optional[int] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., client_transaction_version: _Optional[int] = ..., owner_producer_id: _Optional[int] = ..., owner_producer_epoch: _Optional[int] = ..., trace_id: _Optional[str] = ...) -> None: ...

class DescribeTransactionsResponse(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionDescription]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionDescription, _Mapping]]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter_ms", "transactional_id_pattern", "most_urgent")
    STATE_FILTERS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FILTERS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FILTER_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_PATTERN_FIELD_NUMBER: _ClassVar[int]
    MOST_URGENT_FIELD_NUMBER: _ClassVar[int]
    state_filters: _containers.RepeatedScalarFieldContainer[str]
    producer_id_filters: _containers.RepeatedScalarFieldContainer[int]
    duration_filter_ms: int
    transactional_id_pattern: str
    most_urgent: int
    def __init__(self, state_filters: _Optional[_Iterable[str]] = ..., producer_id_filters: _Optional[_Iterable[int]] = ..., duration_filter_ms: _Optional[int] = ..., transactional_id_pattern: _Optional[str] = ..., most_urgent: _Optional[int] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("error_code", "unknown_state_filters", "transactions", "error_message", "total_count")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_STATE_FILTERS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    unknown_state_filters: _containers.RepeatedScalarFieldContainer[str]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionDescription]
    error_message: str
    total_count: int
    def __init__(self, error_code: _Optional[int] = ..., unknown_state_filters: _Optional[_Iterable[str]] = ..., transactions: _Optional[_Iterable[_Union[TransactionDescription, _Mapping]]] = ..., error_message: _Optional[str] = ..., total_count: _Optional[int] = ...) -> None: ...

class ForceTerminateTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "start_time_ms")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    start_time_ms: int
    def __init__(self, transactional_id: _Optional[str] = ..., start_time_ms: _Optional[int] = ...) -> None: ...

class ForceTerminateTransactionResponse(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class CompletePreparedTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., committed: _Optional[bool] = ...) -> None: ...

class CompletePreparedTransactionResponse(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class OpenAttemptRequest(_message.Message):
    __slots__ = ("sink", "nonce", "timeout_ms")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    nonce: bytes
    timeout_ms: int
    def __init__(self, sink: _Optional[str] = ..., nonce: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class OpenAttemptResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "answer", "sink_epoch", "is_traced")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    SINK_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_TRACED_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    answer: SinkAnswer
    sink_epoch: int
    is_traced: bool
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., answer: _Optional[_Union[SinkAnswer, str]] = ..., sink_epoch: _Optional[int] = ..., is_traced: _Optional[bool] = ...) -> None: ...

class JoinAttemptRequest(_message.Message):
    __slots__ = ("sink", "nonce", "query_id", "run_id", "batch_id", "task_partition", "task_attempt_id", "adopt_query")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_PARTITION_FIELD_NUMBER: _ClassVar[int]
    TASK_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ADOPT_QUERY_FIELD_NUMBER: _ClassVar[int]
    sink: str
    nonce: bytes
    query_id: str
    run_id: str
    batch_id: int
    task_partition: int
    task_attempt_id: int
    adopt_query: bool
    def __init__(self, sink: _Optional[str] = ..., nonce: _Optional[bytes] = ..., query_id: _Optional[str] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., task_partition: _Optional[int] = ..., task_attempt_id: _Optional[int] = ..., adopt_query: _Optional[bool] = ...) -> None: ...

class JoinAttemptResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "answer", "producer_id", "producer_epoch", "transactional_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    answer: SinkAnswer
    producer_id: int
    producer_epoch: int
    transactional_id: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., answer: _Optional[_Union[SinkAnswer, str]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., transactional_id: _Optional[str] = ...) -> None: ...

class PartitionSequence(_message.Message):
    __slots__ = ("topic", "partition", "last_sequence")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    last_sequence: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class SealBranchRequest(_message.Message):
    __slots__ = ("sink", "nonce", "producer_id", "producer_epoch", "last_sequences", "row_count", "crc32c", "row_checksum")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    ROW_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    sink: str
    nonce: bytes
    producer_id: int
    producer_epoch: int
    last_sequences: _containers.RepeatedCompositeFieldContainer[PartitionSequence]
    row_count: int
    crc32c: int
    row_checksum: int
    def __init__(self, sink: _Optional[str] = ..., nonce: _Optional[bytes] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., last_sequences: _Optional[_Iterable[_Union[PartitionSequence, _Mapping]]] = ..., row_count: _Optional[int] = ..., crc32c: _Optional[int] = ..., row_checksum: _Optional[int] = ...) -> None: ...

class SealBranchResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "answer")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    answer: SinkAnswer
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., answer: _Optional[_Union[SinkAnswer, str]] = ...) -> None: ...

class BranchMessage(_message.Message):
    __slots__ = ("nonce", "query_id", "skipped", "task_partition", "producer_id", "producer_epoch", "row_count", "row_checksum")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    TASK_PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROW_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    query_id: str
    skipped: bool
    task_partition: int
    producer_id: int
    producer_epoch: int
    row_count: int
    row_checksum: int
    def __init__(self, nonce: _Optional[bytes] = ..., query_id: _Optional[str] = ..., skipped: _Optional[bool] = ..., task_partition: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., row_count: _Optional[int] = ..., row_checksum: _Optional[int] = ...) -> None: ...

class CommitBatchRequest(_message.Message):
    __slots__ = ("sink", "batch_id", "messages")
    SINK_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    sink: str
    batch_id: int
    messages: _containers.RepeatedCompositeFieldContainer[BranchMessage]
    def __init__(self, sink: _Optional[str] = ..., batch_id: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[BranchMessage, _Mapping]]] = ...) -> None: ...

class CommitBatchResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "answer")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    answer: SinkAnswer
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., answer: _Optional[_Union[SinkAnswer, str]] = ...) -> None: ...

class AbortAttemptRequest(_message.Message):
    __slots__ = ("sink", "nonces")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NONCES_FIELD_NUMBER: _ClassVar[int]
    sink: str
    nonces: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, sink: _Optional[str] = ..., nonces: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AbortAttemptResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "aborted")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    aborted: int
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., aborted: _Optional[int] = ...) -> None: ...

class DescribeSinkRequest(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: str
    def __init__(self, sink: _Optional[str] = ...) -> None: ...

class DescribeSinkResponse(_message.Message):
    __slots__ = ("error_code", "sink", "query_id", "last_committed_batch_id", "sink_epoch", "attempts", "decisions")
    class Branch(_message.Message):
        __slots__ = ("task_partition", "task_attempt_id", "producer_id", "producer_epoch", "sealed", "row_count")
        TASK_PARTITION_FIELD_NUMBER: _ClassVar[int]
        TASK_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        SEALED_FIELD_NUMBER: _ClassVar[int]
        ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
        task_partition: int
        task_attempt_id: int
        producer_id: int
        producer_epoch: int
        sealed: bool
        row_count: int
        def __init__(self, task_partition: _Optional[int] = ..., task_attempt_id: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sealed: _Optional[bool] = ..., row_count: _Optional[int] = ...) -> None: ...
    class Attempt(_message.Message):
        __slots__ = ("nonce", "batch_id", "state", "opened_time_ms", "deadline_ms", "branches")
        NONCE_FIELD_NUMBER: _ClassVar[int]
        BATCH_ID_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        OPENED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
        DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
        BRANCHES_FIELD_NUMBER: _ClassVar[int]
        nonce: bytes
        batch_id: int
        state: str
        opened_time_ms: int
        deadline_ms: int
        branches: _containers.RepeatedCompositeFieldContainer[DescribeSinkResponse.Branch]
        def __init__(self, nonce: _Optional[bytes] = ..., batch_id: _Optional[int] = ..., state: _Optional[str] = ..., opened_time_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., branches: _Optional[_Iterable[_Union[DescribeSinkResponse.Branch, _Mapping]]] = ...) -> None: ...
    class Decision(_message.Message):
        __slots__ = ("batch_id", "nonce", "branch_count", "row_count", "decided_time_ms", "row_checksum")
        BATCH_ID_FIELD_NUMBER: _ClassVar[int]
        NONCE_FIELD_NUMBER: _ClassVar[int]
        BRANCH_COUNT_FIELD_NUMBER: _ClassVar[int]
        ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
        DECIDED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
        ROW_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
        batch_id: int
        nonce: bytes
        branch_count: int
        row_count: int
        decided_time_ms: int
        row_checksum: int
        def __init__(self, batch_id: _Optional[int] = ..., nonce: _Optional[bytes] = ..., branch_count: _Optional[int] = ..., row_count: _Optional[int] = ..., decided_time_ms: _Optional[int] = ..., row_checksum: _Optional[int] = ...) -> None: ...
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMITTED_BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    SINK_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    sink: str
    query_id: str
    last_committed_batch_id: int
    sink_epoch: int
    attempts: _containers.RepeatedCompositeFieldContainer[DescribeSinkResponse.Attempt]
    decisions: _containers.RepeatedCompositeFieldContainer[DescribeSinkResponse.Decision]
    def __init__(self, error_code: _Optional[int] = ..., sink: _Optional[str] = ..., query_id: _Optional[str] = ..., last_committed_batch_id: _Optional[int] = ..., sink_epoch: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[DescribeSinkResponse.Attempt, _Mapping]]] = ..., decisions: _Optional[_Iterable[_Union[DescribeSinkResponse.Decision, _Mapping]]] = ...) -> None: ...

class ListSinksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSinksResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "sinks")
    class Sink(_message.Message):
        __slots__ = ("sink", "query_id", "is_job", "last_committed_batch_id", "last_used_ms", "attempt_count")
        SINK_FIELD_NUMBER: _ClassVar[int]
        QUERY_ID_FIELD_NUMBER: _ClassVar[int]
        IS_JOB_FIELD_NUMBER: _ClassVar[int]
        LAST_COMMITTED_BATCH_ID_FIELD_NUMBER: _ClassVar[int]
        LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
        ATTEMPT_COUNT_FIELD_NUMBER: _ClassVar[int]
        sink: str
        query_id: str
        is_job: bool
        last_committed_batch_id: int
        last_used_ms: int
        attempt_count: int
        def __init__(self, sink: _Optional[str] = ..., query_id: _Optional[str] = ..., is_job: _Optional[bool] = ..., last_committed_batch_id: _Optional[int] = ..., last_used_ms: _Optional[int] = ..., attempt_count: _Optional[int] = ...) -> None: ...
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    sinks: _containers.RepeatedCompositeFieldContainer[ListSinksResponse.Sink]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., sinks: _Optional[_Iterable[_Union[ListSinksResponse.Sink, _Mapping]]] = ...) -> None: ...

class DeleteSinkRequest(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: str
    def __init__(self, sink: _Optional[str] = ...) -> None: ...

class DeleteSinkResponse(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...
