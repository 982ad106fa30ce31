"""The batches of a fetch response that a read_committed consumer sees.

A response lists the aborted transactions that may overlap it, each with its producer id and first offset. The batches
are walked in offset order. A transaction of the list becomes active when a batch reaches its first offset and ends at
that producer's abort marker; while it is active, the producer's transactional batches are dropped. Control batches are
never seen. Kafka's own consumer does the same with the list. So the list holds for one response, and the next has its
own (docs/kafka-facts.md, 3, Fetch).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oncelog.record.batch import BatchHeader, Buffer, iter_headers
from oncelog.record.control import MarkerType, decode_marker


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class Sighting(NamedTuple):
    """A batch at `position` in the response, and whether a read_committed consumer may see its records."""

    position: int
    header: BatchHeader
    is_visible: bool


def sight_batches(records: Buffer, aborted: Iterable[AbortedTransaction]) -> Iterator[Sighting]:
    """Yield every whole batch of a fetch response in order, and whether a read_committed consumer may see it.

    Raises KafkaError(CORRUPT_MESSAGE) for a batch or a marker that is malformed.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    active: set[int] = set()
    for position, header in iter_headers(records):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            active.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in active and _is_abort(records, position):
                active.discard(header.producer_id)
            yield Sighting(position, header, False)
        else:
            is_aborted = header.is_transactional and header.producer_id in active
            yield Sighting(position, header, not is_aborted)


def _is_abort(records: Buffer, position: int) -> bool:
    marker = decode_marker(records, position)
    return marker is not None and marker.marker_type is MarkerType.ABORT
