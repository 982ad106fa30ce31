"""Interceptors, which see each record between a program and its producer (S2-06, ADR 0044)."""

import logging
from collections.abc import Callable, Sequence
from typing import ParamSpec, Protocol

from oncelog.client.core.producer_batch import Headers
from oncelog.client.delivery import RecordMetadata
from oncelog.client.errors import ClientError

logger = logging.getLogger(__name__)

ParamsT = ParamSpec("ParamsT")


class OutgoingRecord:
    """A record before it is serialized. Interceptors may change its fields."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        self.topic, self.value, self.key = topic, value, key
        self.partition, self.timestamp_ms, self.headers = partition, timestamp_ms, headers


class Interceptor(Protocol):
    """A program's hook into its producer. An exception that it raises is logged, and changes nothing."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Get a record before it is serialized; return the record to send, this one or another."""
        ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: ClientError | None
    ) -> None:
        """Be told the outcome of a record: `error` None means that it was delivered, at the place in `metadata`."""
        ...


def intercepted(interceptors: Sequence[Interceptor], record: OutgoingRecord) -> OutgoingRecord:
    """Give the record to each interceptor in order, and return what the last one returned. One that raises is logged
    and skipped."""
    for interceptor in interceptors:
        try:
            record = interceptor.on_send(record)
        except Exception:
            logger.exception("an interceptor failed in on_send")
    return record


def guarded(
    call: Callable[ParamsT, None], *arguments: ParamsT.args, **named: ParamsT.kwargs
) -> None:
    """Call a function of the program's own. An exception that it raises is logged, and has no other effect."""
    try:
        call(*arguments, **named)
    except Exception:
        logger.exception("a callback of the producer failed")
