"""Reads what a look at old data (`core.scrubbing`) asks for."""

import os
from typing import TypeVar

from oncelog_storage.core.batch_walk import Walk

ResultT = TypeVar("ResultT")


def looked(path: str, walk: Walk[ResultT]) -> ResultT:
    """What the walk finds in a file. For a worker thread. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        wanted = next(walk)
        while True:
            wanted = walk.send(os.pread(descriptor, wanted.size_bytes, wanted.position))
    except StopIteration as end:
        result: ResultT = end.value
        return result
    finally:
        os.close(descriptor)
