"""The fault of a full disk: each write to the storage node's files fails with ENOSPC, below all of its code.

The node writes by `os.pwritev` and `os.pwrite` alone (`oncelog_storage.files`), and nothing else in the process calls
them. SQLite writes the metadata's database by itself, so that still has room.
"""

import errno
import os
from typing import Final

_REPLACED: Final = ("pwritev", "pwrite")


class FullDisk:
    """Makes every write of the storage node's files fail, from the creation of this object until `free`."""

    def __init__(self) -> None:
        self.met = 0
        self._real = {name: getattr(os, name) for name in _REPLACED}
        for name in _REPLACED:
            setattr(os, name, self._refuse)

    def free(self) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _refuse(self, *_arguments: object) -> int:
        self.met += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
