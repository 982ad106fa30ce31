"""The reads of files for scrubbing, which checks sealed segments for damage (`core.scrubbing`)."""

import os

from oncelog_storage.core.batch_walk import ResultT, Walk
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import opened


def looked(path: str, walk: Walk[ResultT]) -> ResultT:
    """Run a walk, a generator that asks for bytes, on a file, and return its result.

    A worker thread calls this. Raises OSError.
    """
    with opened(path) as descriptor:
        return run_walk(
            walk, lambda wanted: os.pread(descriptor, wanted.size_bytes, wanted.position)
        )
