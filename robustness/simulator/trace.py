"""What happened, in order, as one digest: two runs of a seed must have the same."""

import hashlib
from collections import Counter
from typing import TextIO


class Trace:
    """Every source of chaos and every crossing between two processes adds a line."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._output = output
        self.counts: Counter[str] = Counter()
        """Lines by kind: what this run reached."""

    def add(self, at_s: float, kind: str, *facts: object) -> None:
        """`facts` print the same in every run: no addresses in memory, no sets."""
        line = f"{at_s:.6f} {kind} {' '.join(map(str, facts))}\n"
        self._hash.update(line.encode())
        self.counts[kind] += 1
        if self._output is not None:
            self._output.write(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
