"""Where each key was written last, in bounded memory: what a cleaning pass decides by."""

from hashlib import blake2b
from typing import Final

_PLAIN_KEY_BYTES_MAX: Final = 32
_DIGEST_BYTES: Final = 33
"""Longer than any key that stands for itself, so that no key can pose as another's digest."""
ENTRY_BYTES: Final = 240
"""What a key costs beyond its own bytes: its object, an integer, and its share of a table that is about to double."""


def key_name(key: bytes) -> bytes:
    """The key itself, or a digest of it where it is long."""
    if len(key) <= _PLAIN_KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class OffsetMap:
    """`offsets` by `key_name`; `latest_offset` is the last offset that the map knows all keys of."""

    def __init__(self, bytes_max: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        self._bytes_max = bytes_max
        self._key_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._key_bytes + ENTRY_BYTES * len(self.offsets)

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self._bytes_max

    def put(self, key: bytes, offset: int) -> None:
        name = key if len(key) <= _PLAIN_KEY_BYTES_MAX else key_name(key)
        if name not in self.offsets:
            self._key_bytes += len(name)
        self.offsets[name] = offset

    def is_latest(self, key: bytes, offset: int) -> bool:
        """No later record up to `latest_offset` has this key."""
        name = key if len(key) <= _PLAIN_KEY_BYTES_MAX else key_name(key)
        return offset >= self.offsets.get(name, -1)
