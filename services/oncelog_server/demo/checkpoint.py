"""Reads from Spark's checkpoint how far the query has come. The checkpoint survives the driver's death.

`offsets/N` is written before micro-batch N runs, and `commits/N` after its sink has committed. So the newest commit
says what is done. An offsets file without its commit is a micro-batch that runs or was interrupted.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """The progress of the query, as its checkpoint shows it. `done` has for each partition of the input topic the first
    offset that is not done. `batch_under_way` is the id of the micro-batch that runs or was interrupted; None: there is
    none.
    """

    batches_done: int
    done: dict[int, int]
    batch_under_way: int | None

    @property
    def offsets_done(self) -> int:
        return sum(self.done.values())

    def has_reached(self, ends: dict[int, int]) -> bool:
        return all(self.done.get(partition, 0) >= end for partition, end in ends.items())


def read_progress(checkpoint: Path, topic: str) -> PipelineProgress:
    """Return how far the query of this checkpoint has read `topic`. The checkpoint need not exist yet."""
    offsets = _batches(checkpoint / "offsets")
    commits = _batches(checkpoint / "commits")
    last_done = max(commits, default=None)
    under_way = max(offsets, default=None)
    if under_way is not None and under_way in commits:
        under_way = None
    done: dict[int, int] = {}
    if last_done is not None:
        line = (checkpoint / "offsets" / str(last_done)).read_text().splitlines()[-1]
        done = {int(p): int(offset) for p, offset in json.loads(line)[topic].items()}
    return PipelineProgress(
        batches_done=0 if last_done is None else last_done + 1,
        done=done,
        batch_under_way=under_way,
    )


def _batches(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}
