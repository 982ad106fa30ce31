"""The aborted-transaction index, `<20-digit base offset>.txnindex`: what read_committed fetches must skip
(docs/kafka-facts.md, 5.3).

34-byte entries in order of their marker's offset: version i16 = 0, producerId i64, firstOffset i64, lastOffset i64 (the
marker's), lastStableOffset i64. Only aborted transactions with data have one, in the segment that holds the marker.

The format has no checksum, and an entry that is lost or damaged shows aborted records to read_committed consumers. So
`segments-checkpoint` says for each segment how many entries its file has at least, and the CRC-32C of those. Where that
is not known no index is believed, and all are derived from the log again.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.errors import OncelogError

ENTRY_BYTES: Final = 34
_VERSION: Final = "1"
_ENTRY: Final = struct.Struct(">hqqqq")


class CorruptAbortedIndex(OncelogError):
    """A file that is no aborted-transaction index. The index must be derived again from the log."""


class AbortedTransactionEntry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedCheck(NamedTuple):
    """The check of a segment's aborted index: the file must begin with this many entries, and their bytes have this
    CRC-32C.
    """

    entry_count: int = 0
    crc: int = 0

    @property
    def is_known(self) -> bool:
        return self.entry_count >= 0

    def extended(self, entries: Sequence[AbortedTransactionEntry]) -> "AbortedCheck":
        """Return the check of a longer index: `entries` begin with those that this check was made for, whose CRC is not
        computed again.
        """
        added = b"".join(encode_entry(entry) for entry in entries[max(self.entry_count, 0) :])
        return AbortedCheck(len(entries), crc32c(added, self.crc))

    def holds(self, data: bytes) -> bool:
        size_bytes = max(self.entry_count, 0) * ENTRY_BYTES
        return len(data) >= size_bytes and crc32c(memoryview(data)[:size_bytes]) == self.crc


NOT_KNOWN: Final = AbortedCheck(-1, 0)
"""The check of an aborted index that is not known: the index must be derived from the log."""


def decode_old_checks(text: str) -> dict[int, AbortedCheck]:
    """Return the check of each segment's aborted index, by the segment's base offset, from the text of
    `OLD_CHECKS_FILE`.

    The text is version 1, count, one `baseOffset entries crc` a line, and the CRC-32C of all that. A segment that is
    not in it has no aborted index. Raises ValueError.
    """
    *lines, crc = text.splitlines() or [""]
    is_whole = len(lines) >= 2 and text.endswith("\n") and int(lines[1]) == len(lines) - 2
    if not is_whole or lines[0] != _VERSION or f"{crc32c(_joined(lines))}" != crc:
        raise ValueError("no checkpoint of aborted indexes")
    checks = {}
    for line in lines[2:]:
        base_offset, entry_count, entries_crc = (int(word) for word in line.split(" "))
        checks[base_offset] = AbortedCheck(entry_count, entries_crc)
    return checks


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def encode_entry(entry: AbortedTransactionEntry) -> bytes:
    return _ENTRY.pack(0, *entry)


def decode_entries(data: bytes) -> list[AbortedTransactionEntry]:
    """Return every entry of a file.

    Raises CorruptAbortedIndex for an entry that is cut, an unknown version, or markers that are out of order.
    """
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
    """Return (aborted transactions that touch [fetch_offset, upper_offset), True if no later segment must be searched).

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
    """Return the entries whose markers are below `offset`. A replay from `offset` finds the other markers again."""
    return [entry for entry in entries if entry.last_offset < offset]
