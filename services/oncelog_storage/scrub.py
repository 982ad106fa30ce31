"""Reads what a look at old data (`core.scrubbing`) asks for."""

import os

from oncelog_storage.core.batch_walk import ResultT, Walk
from oncelog_storage.core.walks import answered
from oncelog_storage.files import opened


def looked(path: str, walk: Walk[ResultT]) -> ResultT:
    """What the walk finds in a file. For a worker thread. Raises OSError."""
    with opened(path) as descriptor:
        return answered(
            walk, lambda wanted: os.pread(descriptor, wanted.size_bytes, wanted.position)
        )
