"""The offset map of a cleaning pass: the last offset of each key, in bounded memory."""

from hashlib import blake2b
from typing import Final

_PLAIN_KEY_BYTES_MAX: Final = 32
_DIGEST_BYTES: Final = 33
"""The length of a digest. It is longer than any key that stands for itself, so no key can pose as another's digest."""
ENTRY_BYTES: Final = 240
"""The memory of an entry beyond its key's bytes: an object, an integer, and a share of a table that is about to double.
"""


def key_name(key: bytes) -> bytes:
    """Return the bytes under which the map keeps a key: the key itself, or a digest if it is long."""
    if len(key) <= _PLAIN_KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class OffsetMap:
    """The last offset of each key that a cleaning pass has read (`offsets`, by `key_name`), within `bytes_max` of
    memory.

    `latest_offset` is the last offset whose keys, and those of all earlier offsets, are in the map.
    """

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
        """True if no later record up to `latest_offset` has this key."""
        name = key if len(key) <= _PLAIN_KEY_BYTES_MAX else key_name(key)
        return offset >= self.offsets.get(name, -1)
