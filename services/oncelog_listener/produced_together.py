"""Small Produce requests that arrive together: they are handled as one request, and each gets its own answer.

librdkafka sends one request for each partition, five at a time. One after the other, each would wait for a call to its
leader and a round of replication. As one request they need a single call to each leader, and one round of replication.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncelog.protocol.frames import Frame, framed_response
from oncelog.protocol.messages import Schema
from oncelog.protocol.small_produce import SmallProduce, read_small_produce
from oncelog.protocol.versions import APIS, PRODUCE
from oncelog_listener.core.produce_rules import is_transactional

TOGETHER_MAX: Final = 16
_FRAME_BYTES_MAX: Final = 8_192
_PRODUCER: Final = slice(43, 53)
"""The bytes of a batch that hold the producer's id and epoch."""


if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    ProduceSchema = Schema[
        kafka.ProduceRequestTypes,
        kafka.ProduceRequest,
        kafka.ProduceResponseTypes,
        kafka.ProduceResponse,
    ]


def that_go_together(frames: Iterable[Frame]) -> list[SmallProduce]:
    """Return the first of these frames, decoded, that are Produce requests with the same header fields. Then a refusal
    of one by those fields refuses all."""
    found: list[SmallProduce] = []
    places: set[tuple[str, int]] = set()
    for frame in frames:
        asked = read_small_produce(frame) if _is_small_produce(frame) else None
        if asked is None or not asked.acks or (asked.topic, asked.partition) in places:
            break
        if found and _shared(asked) != _shared(found[0]):
            break
        found.append(asked)
        places.add((asked.topic, asked.partition))
        if len(found) == TOGETHER_MAX:
            break
    return found


def _is_small_produce(frame: Frame) -> bool:
    return 2 < len(frame) < _FRAME_BYTES_MAX and (frame[0] << 8 | frame[1]) == PRODUCE


def _shared(asked: SmallProduce) -> tuple[object, ...]:
    return (
        asked.version,
        asked.client_id,
        asked.transactional_id,
        asked.acks,
        asked.timeout_ms,
        asked.records[_PRODUCER],
        is_transactional(asked.records),
    )


def merged(schema: ProduceSchema, asked: Sequence[SmallProduce]) -> kafka.ProduceRequest:
    """Return one Produce request with the batches of all of `asked`."""
    types, first = schema.request_types, asked[0]
    return types.ProduceRequest(
        transactional_id=first.transactional_id,
        acks=first.acks,
        timeout=timedelta(milliseconds=first.timeout_ms),
        topic_data=tuple(
            types.TopicProduceData(
                name=one.topic,
                partition_data=(
                    types.PartitionProduceData(index=one.partition, records=one.records),
                ),
            )
            for one in asked
        ),
    )


def split(
    schema: ProduceSchema, asked: Sequence[SmallProduce], response: kafka.ProduceResponse
) -> bytes:
    """Return the response frames of the single requests, in their order, made from the response to the merged one."""
    has_tags = APIS[PRODUCE].response_has_tags(schema.version)
    frames = [
        framed_response(
            one.correlation_id, has_tags, schema.write_response(replace(response, responses=(own,)))
        )
        for one, own in zip(asked, response.responses, strict=True)
    ]
    return b"".join(frames)
