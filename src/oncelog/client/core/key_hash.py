"""murmur2 of one key, as every Kafka client computes it (facts 7). `partitioner` does it over Arrow columns."""

from functools import lru_cache
from typing import Final

KEYS_REMEMBERED_MAX: Final = 4_096
"""Keys repeat: a program has far fewer accounts than payments."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=KEYS_REMEMBERED_MAX)
def positive_murmur2(key: bytes) -> int:
    """The hash without its sign bit: `positive_murmur2(key) % partitions` is the key's partition."""
    length = len(key)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        block = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        block ^= block >> 24
        hashed = (hashed * _M & _MASK) ^ (block * _M & _MASK)
    if whole < length:
        hashed ^= int.from_bytes(key[whole:], "little")
        hashed = hashed * _M & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _M & _MASK
    hashed ^= hashed >> 15
    return hashed & 0x7FFFFFFF
