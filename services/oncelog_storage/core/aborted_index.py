"""The aborted-transaction index, `<20-digit base offset>.txnindex`: what read_committed fetches must skip (facts 5.3).

34-byte entries in order of their marker's offset: version i16 = 0, producerId i64, firstOffset i64, lastOffset i64 (the
marker's), lastStableOffset i64. Only aborted transactions with data have one, in the segment that holds the marker.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from oncelog.errors import OncelogError

ENTRY_BYTES: Final = 34
_ENTRY: Final = struct.Struct(">hqqqq")


class CorruptAbortedIndex(OncelogError):
    """The file is no aborted-transaction index; it must be built again from the segment."""


class AbortedTransactionEntry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_entry(entry: AbortedTransactionEntry) -> bytes:
    return _ENTRY.pack(0, *entry)


def decode_entries(data: bytes) -> list[AbortedTransactionEntry]:
    """Every entry of a file. Raises CorruptAbortedIndex: a cut entry, an unknown version, or markers out of order."""
    if len(data) % ENTRY_BYTES:
        raise CorruptAbortedIndex(f"{len(data)} bytes are no whole number of entries")
    entries: list[AbortedTransactionEntry] = []
    previous = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransactionEntry(*fields)
        if version != 0 or not 0 <= entry.first_offset <= entry.last_offset:
            raise CorruptAbortedIndex(f"entry {len(entries)} is malformed")
        if entry.last_offset <= previous:
            raise CorruptAbortedIndex(
                f"marker offset {entry.last_offset} follows {previous}, which is not below it"
            )
        previous = entry.last_offset
        entries.append(entry)
    return entries


def search(
    entries: Iterable[AbortedTransactionEntry], fetch_offset: int, upper_offset: int
) -> tuple[list[AbortedTransactionEntry], bool]:
    """(aborted transactions that touch [fetch_offset, upper_offset), whether later segments need no look).

    An entry whose LSO has reached `upper_offset` proves that nothing open below it can end in a later abort.
    """
    found = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return found, True
    return found, False


def entries_below(
    entries: Sequence[AbortedTransactionEntry], offset: int
) -> list[AbortedTransactionEntry]:
    """What stays when the log is replayed from `offset`: its markers are found again there."""
    return [entry for entry in entries if entry.last_offset < offset]
