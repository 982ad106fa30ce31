"""Goes through fetched batches record by record, and says what became of each record: committed, aborted, open, a
marker or without a transaction.

Up to the last stable offset a fetch names the aborted transactions, and a consumer's own rule tells them apart. Behind
it a transactional record is open, or it is decided and another transaction holds it back. Only the partition's leader
can say which.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from oncelog.client.core.visibility import AbortedTransaction, Sighting, sight_batches
from oncelog.errors import KafkaError
from oncelog.record.batch import BatchHeader, Buffer, iter_headers
from oncelog.record.control import decode_marker
from oncelog.record.records import Record, decode_batch

Outcome = Literal["committed", "aborted", "open", "marker", "plain"]
"""A record's outcome. `plain` is a record of no transaction."""
MarkerKind = Literal["commit", "abort"]
DECOMPRESSED_BYTES_MAX: Final = 16 << 20
"""Bytes of one batch's decompressed records at most. A page must stay small, so a larger batch is named and not
shown.
"""


class Transaction(NamedTuple):
    """A name for a transaction within one walk: its producer id, and how many markers of that producer came before."""

    producer_id: int
    number: int


class Seen(NamedTuple):
    """One record of a batch, with what the walk knows of its transaction."""

    record: Record
    header: BatchHeader
    outcome: Outcome | None
    """The record's outcome; None: the leader must be asked, once for each transaction."""
    transaction: Transaction | None
    marker: MarkerKind | None = None
    """The marker's kind, for a control record; None also for a control record that is no marker."""


class Unreadable(NamedTuple):
    """A batch whose records the page of a topic's records cannot show, and the reason."""

    header: BatchHeader
    why: str


class Walk:
    """Goes through the fetched batches of one partition, in order of offsets. Use one for each reading."""

    def __init__(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> None:
        self._decompressed_bytes_max = decompressed_bytes_max
        self._markers: dict[int, int] = {}
        """The number of markers that the walk has seen, by producer id."""

    def through(
        self, batches: Buffer, aborted: Sequence[AbortedTransaction] | None
    ) -> Iterator[Seen | Unreadable]:
        """Yield every record of the batches, or `Unreadable` for a batch that cannot be decoded. `aborted` has the
        aborted transactions that the fetch named. It is None where the batches lie behind the last stable offset.

        Raises KafkaError(CORRUPT_MESSAGE) where nothing says where the next batch begins.
        """
        sightings = (
            (Sighting(position, header, True) for position, header in iter_headers(batches))
            if aborted is None
            else sight_batches(batches, aborted)
        )
        for one in sightings:
            header = one.header
            transaction = None
            if header.is_transactional and header.has_producer_id:
                number = self._markers.get(header.producer_id, 0)
                transaction = Transaction(header.producer_id, number)
            try:
                yield from self._records(batches, one, transaction, is_known=aborted is not None)
            except KafkaError as error:
                yield Unreadable(header, error.message)

    def _records(
        self, batches: Buffer, one: Sighting, transaction: Transaction | None, *, is_known: bool
    ) -> Iterator[Seen]:
        position, header = one.position, one.header
        outcome: Outcome | None = "plain"
        marker: MarkerKind | None = None
        if header.is_control:
            outcome = "marker"
            found = decode_marker(batches, position)
            if found is not None:
                marker = "commit" if found.is_commit else "abort"
                self._markers[header.producer_id] = self._markers.get(header.producer_id, 0) + 1
        elif transaction is not None:
            outcome = ("committed" if one.is_visible else "aborted") if is_known else None
        for record in decode_batch(batches, position, self._decompressed_bytes_max):
            yield Seen(record, header, outcome, transaction, marker)
