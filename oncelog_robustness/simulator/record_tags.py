"""Hides newer tagged fields of transaction records from processes that play an older version.
They neither write nor read those that this version does not know.

Only transaction records need this: in records of the consumer protocol the tagged fields are Kafka's own, and the
metadata journal has none. What an older version reads of other records is held by golden tests (docs/upgrades.md).
"""

from typing import Final

from oncelog.protocol.writing import write_uvarint
from oncelog.record.schema import read_tags
from oncelog_coordinator.core import txn_records
from oncelog_coordinator.core.txn_state import TxnMetadata
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.contract_calls import contracts_here

KAFKAS_TAGS: Final = frozenset({0, 1, 2})
"""The tags of Kafka's own tagged fields (docs/kafka-facts.md, 5.1), which every version of oncelog has."""
TODAYS_TAGS: Final = frozenset(
    value for name, value in vars(txn_records).items() if name.startswith("_TAG_")
)

_encode_value = txn_records.encode_value


def tags_of(value: bytes) -> frozenset[int]:
    """Return the numbers of the tagged fields in the value of a transaction record; a value of version 0 has
    none."""
    if value[:2] == b"\0\0":
        return frozenset()
    return frozenset(read_tags(value, _tags_at(value))[0])


def with_tags(value: bytes, known: frozenset[int]) -> bytes:
    """Return the value of a transaction record without the tagged fields whose numbers are not in `known`."""
    if tags_of(value) <= known:
        return value
    at = _tags_at(value)
    tags = {tag: data for tag, data in read_tags(value, at)[0].items() if tag in known}
    fields = [write_uvarint(tag) + write_uvarint(len(data)) + data for tag, data in tags.items()]
    return value[:at] + write_uvarint(len(fields)) + b"".join(fields)


def install_record_tags() -> None:
    """Make processes of older versions neither write nor read tagged fields that they do not know, in the
    whole interpreter. A process of today's version is not affected."""

    def encode_value(txn: TxnMetadata, version: int) -> bytes:
        value, contracts = _encode_value(txn, version), contracts_here()
        if contracts is None:
            return value
        kept = with_tags(value, contracts.tags)
        contracts.records_cut += len(kept) < len(value)
        return kept

    def read_known_tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
        tags, end = read_tags(value, at)
        contracts = contracts_here()
        if contracts is not None and not contracts.tags.issuperset(tags):
            contracts.records_cut += 1
            tags = {tag: data for tag, data in tags.items() if tag in contracts.tags}
        return tags, end

    seams.replace(txn_records, "encode_value", encode_value)
    seams.replace(txn_records, "read_tags", read_known_tags)


def _tags_at(value: bytes) -> int:
    head, times = txn_records._HEAD.size, txn_records._TIMES.size
    return txn_records._read_partitions_v1(value, head)[1] + times
