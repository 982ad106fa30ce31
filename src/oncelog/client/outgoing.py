"""A record's way from `send` to the bytes that are sent: interceptors, then serializers (ADR 0044: S2-06, S2-07)."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from oncelog.client.core.producer_batch import Record
from oncelog.client.delivery import OnDelivery
from oncelog.client.errors import SerializationError
from oncelog.client.interceptors import Interceptor, OutgoingRecord, guarded, intercepted

if TYPE_CHECKING:
    from oncelog.client.tracing import Tracing

Serializer = Callable[[Any], bytes | None]
"""A function that turns a key or a value of the program's own type into bytes. The value None is a tombstone."""
HeaderPairs = Sequence[tuple[str, bytes | None]]


class Outgoing:
    """Turns what the program sends into serialized records. It has no state of its own, so threads may share it if
    serializers and interceptors can be shared."""

    def __init__(
        self,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        interceptors: tuple[Interceptor, ...],
        tracing: "Tracing | None",
    ) -> None:
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self.interceptors = interceptors
        self._tracing = tracing

    def record(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeaderPairs,
        on_delivery: OnDelivery | None,
    ) -> tuple[Record, OnDelivery | None]:
        """Apply interceptors and serializers. Return the record to send, and the callback for its delivery. The record
        has its own copy of the headers.

        Raises SerializationError.
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        pairs = list(headers) if headers else []
        if self.interceptors:
            record = intercepted(
                self.interceptors,
                OutgoingRecord(topic, value, key, partition, timestamp_ms, pairs),
            )
            topic, value, key = record.topic, record.value, record.key
            partition, timestamp_ms = record.partition, record.timestamp_ms
            pairs = record.headers
        try:
            if key.__class__ is not bytes or self._key_serializer is not None:
                key = _bytes_of(key, self._key_serializer, "key")
            if value.__class__ is not bytes or self._value_serializer is not None:
                value = _bytes_of(value, self._value_serializer, "value")
        except SerializationError as error:
            for interceptor in self.interceptors:
                guarded(interceptor.on_acknowledgement, None, error)
            raise
        if self._tracing is not None:
            on_delivery = self._tracing.sending(topic, pairs, on_delivery)
        return Record(topic, partition, timestamp_ms, key, value, pairs), on_delivery


def _bytes_of(given: object, serializer: Serializer | None, what: str) -> bytes | None:
    """Return a key or value as bytes. None stays None, a tombstone: no serializer is asked."""
    if given is None:
        return None
    if serializer is not None:
        try:
            given = serializer(given)
        except Exception as error:
            raise SerializationError(
                f"the {what}_serializer failed for a {type(given).__name__}: {error!r}"
            ) from error
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise SerializationError(
        f"a {what} of type {type(given).__name__} cannot be sent: give bytes or text, or a {what}_serializer"
    )
