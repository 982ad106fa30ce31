"""Four real Kafka clients behind one small face, so that one test says the same thing to each of them.

The face is synchronous: `send` returns when the broker has acknowledged. Every client's own exceptions become one of
three: `Fenced` (this instance is finished for good), `MustAbort` (this transaction is), `ClientFailed` (anything else).
"""

import time
from dataclasses import dataclass, field

CALL_TIMEOUT_S = 30.0


class ClientFailed(Exception):
    """A client gave up. `code` is Kafka's error code where the client tells it."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class Fenced(ClientFailed):
    """Another instance with the same transactional.id has taken over."""


class MustAbort(ClientFailed):
    """The transaction cannot be committed; the producer can go on after an abort."""


@dataclass(frozen=True)
class Record:
    """A record as a consumer saw it."""

    value: bytes | None
    key: bytes | None = None
    headers: list = field(default_factory=list)
    timestamp_ms: int = -1
    partition: int = 0
    offset: int = -1


def record_of(message):
    return Record(
        message.value,
        message.key,
        list(message.headers or ()),
        message.timestamp,
        message.partition,
        message.offset,
    )


def reading_deadline():
    return time.monotonic() + CALL_TIMEOUT_S


def is_done(records, until):
    return any(record.value == until for record in records)


def polled(poll, records, until):
    """Messages until `until` has been seen among `records`. Nobody waits for silence: a slow client is silent, too."""
    deadline = reading_deadline()
    while not is_done(records, until):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield from poll(min(left, 0.1))


def values(records):
    return [record.value for record in records]


def commit(producer, topic, *contents):
    """One transaction with these records."""
    producer.begin()
    for content in contents:
        producer.send(topic, content)
    producer.commit()
