"""murmur2 of one key, as every Kafka client computes it (docs/kafka-facts.md, 7). `partitioner` computes it over Arrow
columns.
"""

import struct
from functools import lru_cache
from typing import Final

KEYS_REMEMBERED_MAX: Final = 16_384
"""Keys whose hash is remembered: keys repeat, as accounts do in payments. One takes some 200 bytes."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_BLOCKS: Final = struct.Struct("<I").iter_unpack


@lru_cache(maxsize=KEYS_REMEMBERED_MAX)
def positive_murmur2(key: bytes) -> int:
    """Return the hash without its sign bit: `positive_murmur2(key) % partitions` is the key's partition."""
    length = len(key)
    hashed = _SEED ^ length
    whole = length & ~3
    for (word,) in _BLOCKS(key[:whole]):
        block = word * _M & _MASK
        hashed = (hashed * _M ^ (block ^ block >> 24) * _M) & _MASK
    if whole < length:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF
