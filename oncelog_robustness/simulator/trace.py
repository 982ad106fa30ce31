"""The trace of a run: everything that happened, in order, as lines and as one digest over them. Two runs of a
seed must have the same digest."""

import hashlib
from collections import Counter
from typing import Final, TextIO

_LINES_AT_A_TIME: Final = 1000


class Trace:
    """The lines of a run's trace, hashed to one digest. Every fault and every segment that reaches another
    process adds a line."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._output = output
        self._lines: list[str] = []
        """Lines that are not in the digest yet."""
        self.counts: Counter[str] = Counter()
        """The number of lines by kind: what this run reached."""

    def add(self, at_s: float, kind: str, *facts: object) -> None:
        """Add a line. `facts` must print the same in every run of a seed: no addresses in memory, no sets."""
        self._add(kind, f"{at_s:.6f} {kind} {' '.join(map(str, facts))}\n")

    def add_segment(
        self, at_s: float, pipe: int, is_forward: bool, size: int, checksum: int
    ) -> None:
        """Add the line of a delivered segment, as `add` would write it; most lines are of this kind."""
        self._add("net", f"{at_s:.6f} net {pipe} {is_forward} {size} {checksum}\n")

    def _add(self, kind: str, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) >= _LINES_AT_A_TIME:
            self._take_in()
        self.counts[kind] += 1
        if self._output is not None:
            self._output.write(line)

    def _take_in(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._lines.clear()

    @property
    def digest(self) -> str:
        self._take_in()
        return self._hash.hexdigest()
