"""A broker of a few dozen lines for tests of the client: one topic, real frames, misbehaviour on demand.

It stores what is produced as the leader of its partitions would: it knows sequences and the last five batches, and
hands out whole batches from any position. `before_answer` and `instead` let a test cut connections and change answers.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode as KioError

from oncelog.client.core.addresses import Address
from oncelog.client.core.log_places import READ_COMMITTED
from oncelog.client.core.visibility import AbortedTransaction
from oncelog.protocol import versions
from oncelog.protocol.frames import framed_response, read_client_id, read_request_prefix
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.record.batch import iter_headers, read_header, stamp

NO_THROTTLE = timedelta(0)


class Hangup(Exception):
    """Raised by a hook: the peer closes the connection without an answer."""


@dataclass
class PeerPartition:
    log: bytearray = field(default_factory=bytearray)
    next_offset: int = 0
    log_start: int = 0
    last_stable_offset: int | None = None
    aborted: list[AbortedTransaction] = field(default_factory=list)
    sequences: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """producer id → (base sequence, last sequence, base offset) of its last five batches."""

    @property
    def lso(self) -> int:
        return self.next_offset if self.last_stable_offset is None else self.last_stable_offset

    def append(self, batch: bytes, skip_offsets: int = 0) -> int:
        base = self.next_offset + skip_offsets
        stamped = bytearray(batch)
        stamp(stamped, base, 0)
        self.log += stamped
        self.next_offset = base + read_header(stamped).last_offset_delta + 1
        return base

    def produce(self, batch: bytes) -> tuple[KioError, int]:
        header = read_header(batch)
        known = self.sequences.setdefault(header.producer_id, [])
        for base, last, offset in known:
            if (base, last) == (header.base_sequence, header.last_sequence):
                return KioError.none, offset
        expected = known[-1][1] + 1 if known else 0
        if header.base_sequence != expected:
            return KioError.out_of_order_sequence_number, -1
        offset = self.append(batch)
        known.append((header.base_sequence, header.last_sequence, offset))
        del known[:-5]
        return KioError.none, offset

    def end(self, isolation_level: int) -> int:
        return self.lso if isolation_level == READ_COMMITTED else self.next_offset

    def read(self, position: int, max_bytes: int, isolation_level: int) -> bytes:
        out = bytearray()
        for at, header in iter_headers(self.log):
            if header.next_offset <= position or header.base_offset >= self.end(isolation_level):
                continue
            batch = self.log[at : at + header.size_bytes]
            if out and len(out) + len(batch) > max_bytes:
                break
            out += batch
        return bytes(out)


class KafkaPeer:
    """Start with `with KafkaPeer({"orders": 2}) as peer:`; `peer.address` is where it listens."""

    def __init__(self, topics: dict[str, int], private_api: bool = True) -> None:
        self.partitions = {
            (topic, number): PeerPartition()
            for topic, count in topics.items()
            for number in range(count)
        }
        self.private_api = private_api
        self.requests: list[tuple[int, Any]] = []
        self.client_names: set[str] = set()
        self.before_answer: Callable[[int, Any], None] = lambda api_key, request: None
        self.instead: dict[int, Callable[[Any], Any]] = {}
        """api key → the response message, or None to answer as usual."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listening.getsockname()[1])

    def __enter__(self) -> "KafkaPeer":
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._connections:
            _close(connection)
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", prefix)[0])
                connection.sendall(self._answer(frame))
        except (Hangup, OSError):
            pass
        finally:
            _close(connection)

    def _answer(self, frame: bytes) -> bytes:
        api_key, version, correlation_id = read_request_prefix(frame)
        if api_key in PRIVATE_CALLS:
            _, at = read_client_id(frame, True)
            request = PRIVATE_CALLS[api_key].request.FromString(frame[at:])
            response = self._handled(api_key, request)
            return framed_response(correlation_id, True, [response.SerializeToString()])
        schema = schema_of(api_key, version)
        _, at = read_client_id(frame, schema.request.__flexible__)
        response = self._handled(api_key, schema.read_request(frame, at), schema)
        has_tags = schema.response.__flexible__ and api_key != versions.API_VERSIONS
        return framed_response(correlation_id, has_tags, schema.write_response(response))

    def _handled(self, api_key: int, request: Any, schema: Any = None) -> Any:
        with self._lock:
            self.requests.append((api_key, request))
            override = self.instead.get(api_key)
            response = override(request) if override else None
            if response is None:
                response = self._usual(api_key, request, schema.response_types if schema else None)
            self.before_answer(api_key, request)
            return response

    def _usual(self, api_key: int, request: Any, types: Any) -> Any:
        match api_key:
            case versions.API_VERSIONS:
                return self._api_versions(request, types)
            case versions.METADATA:
                return self._metadata(request, types)
            case versions.LIST_OFFSETS:
                return self._list_offsets(request, types)
            case versions.FETCH:
                return self._fetch(request, types)
            case versions.PRODUCE:
                return self._produce(request, types)
        return PRIVATE_CALLS[api_key].response()

    def _api_versions(self, request: Any, types: Any) -> Any:
        self.client_names.add(request.client_software_name)
        keys = [(api.key, api.min_version, api.max_version) for api in versions.APIS.values()]
        if self.private_api and request.client_software_name == "oncelog":
            keys += [(key, 0, 0) for key in PRIVATE_CALLS]
        return types.ApiVersionsResponse(
            error_code=KioError.none,
            api_keys=tuple(
                types.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, low, high in keys
            ),
            throttle_time=NO_THROTTLE,
        )

    def _metadata(self, request: Any, types: Any) -> Any:
        topics = []
        for requested in request.topics:
            numbers = [number for topic, number in self.partitions if topic == requested.name]
            topics.append(
                types.MetadataResponseTopic(
                    error_code=KioError.none if numbers else KioError.unknown_topic_or_partition,
                    name=requested.name,
                    partitions=tuple(
                        types.MetadataResponsePartition(
                            error_code=KioError.none, partition_index=number, leader_id=1
                        )
                        for number in numbers
                    ),
                )
            )
        broker = types.MetadataResponseBroker(
            node_id=1, host=self.address.host, port=self.address.port
        )
        return types.MetadataResponse(
            throttle_time=NO_THROTTLE, brokers=(broker,), topics=tuple(topics)
        )

    def _list_offsets(self, request: Any, types: Any) -> Any:
        def offset(topic: str, requested: Any) -> int:
            partition = self.partitions[topic, requested.partition_index]
            is_first = requested.timestamp == -2
            return partition.log_start if is_first else partition.end(request.isolation_level)

        return types.ListOffsetsResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                types.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        types.ListOffsetsPartitionResponse(
                            partition_index=requested.partition_index,
                            error_code=KioError.none,
                            offset=offset(topic.name, requested),
                        )
                        for requested in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _fetch(self, request: Any, types: Any) -> Any:
        topic = request.topics[0]
        fetched = topic.partitions[0]
        partition = self.partitions[topic.topic, fetched.partition]
        is_in_range = partition.log_start <= fetched.fetch_offset <= partition.next_offset
        records = partition.read(
            fetched.fetch_offset, fetched.partition_max_bytes, request.isolation_level
        )
        data = types.PartitionData(
            partition_index=fetched.partition,
            error_code=KioError.none if is_in_range else KioError.offset_out_of_range,
            high_watermark=partition.next_offset,
            last_stable_offset=partition.lso,
            log_start_offset=partition.log_start,
            aborted_transactions=tuple(
                types.AbortedTransaction(producer_id=pid, first_offset=first)
                for pid, first in partition.aborted
                if request.isolation_level == READ_COMMITTED
            ),
            records=records if is_in_range else None,
        )
        return types.FetchResponse(
            throttle_time=NO_THROTTLE,
            error_code=KioError.none,
            responses=(types.FetchableTopicResponse(topic=topic.topic, partitions=(data,)),),
        )

    def _produce(self, request: Any, types: Any) -> Any:
        topic = request.topic_data[0]
        sent = topic.partition_data[0]
        code, offset = self.partitions[topic.name, sent.index].produce(bytes(sent.records))
        return self.produce_response(types, topic.name, sent.index, code, offset)

    @staticmethod
    def produce_response(types: Any, topic: str, index: int, code: KioError, offset: int) -> Any:
        answer = types.PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=offset,
            log_append_time=None,
            record_errors=(),
        )
        return types.ProduceResponse(
            responses=(types.TopicProduceResponse(name=topic, partition_responses=(answer,)),),
            throttle_time=NO_THROTTLE,
        )


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
