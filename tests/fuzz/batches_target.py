"""A producer's record batch: what the leader accepts, every reader can read.

An input whose first byte is even gets the length and the CRC that fit it: chance finds no CRC.
"""

import struct

from crc32c import crc32c

from oncelog.errors import KafkaError
from oncelog.record.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, Codec, read_single_batch
from oncelog.record.check import CheckRules, check_producer_batch
from oncelog.record.control import decode_marker
from oncelog.record.recompress import recompressed
from oncelog.record.records import Record, decode_batch, encode_batch

SIZE_MAX = 65_536
DECOMPRESSED_MAX = 1_048_576
ATTRIBUTES_AT = 21
RULES = [
    CheckRules(
        is_compacted=is_compacted,
        timestamp_min=0,
        timestamp_max=2**62,
        decompressed_bytes_max=DECOMPRESSED_MAX,
    )
    for is_compacted in (False, True)
]


def fed(data):
    if not data:
        return False
    batch = fitted(data[1:]) if data[0] % 2 == 0 else data[1:]
    for read in (lambda: list(decode_batch(batch)), lambda: decode_marker(batch)):
        if len(batch) >= HEADER_BYTES:
            refused(read)
    accepted = [refused(lambda rules=rules: checked(batch, rules)) is None for rules in RULES]
    assert accepted[0] >= accepted[1], "a compacted topic takes no more than another one"
    return accepted[0]


def refused(read):
    try:
        read()
    except KafkaError as error:
        return error
    return None


def checked(batch, rules):
    header = read_single_batch(batch, SIZE_MAX)
    batch = check_producer_batch(batch[: header.size_bytes], header, rules)
    try:
        records = list(decode_batch(batch))
        again = list(decode_batch(recompressed(batch, Codec.LZ4)))
    except KafkaError as error:
        raise AssertionError(f"accepted, and cannot be read: {error}") from error
    assert len(records) == header.record_count
    assert again == records


def fitted(batch):
    if len(batch) < HEADER_BYTES:
        return batch
    made = bytearray(batch)
    struct.pack_into(">i", made, 8, len(made) - LENGTH_PREFIX_BYTES)
    made[16] = 2
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[ATTRIBUTES_AT:]))
    return bytes(made)


def seeds():
    records = [
        Record(b"key", b"value", 1_000, headers=(("name", b"content"), ("none", None))),
        Record(b"key", None, 1_001),
        Record(b"other", b"v" * 300, 999),
    ]
    found = []
    for codec in Codec:
        found.append(encode_batch(records, codec=codec))
        found.append(
            encode_batch(
                records[:1],
                codec=codec,
                producer_id=7,
                producer_epoch=1,
                base_sequence=5,
                is_transactional=True,
            )
        )
    return [b"\x00" + bytes(batch) for batch in found]
