"""Random streams from one seed. Each source of chance in a run has its own, so that a new fault does not
change what the others draw."""

import random


class Streams:
    """The streams of one seed.
    `stream("network.delay")` is the same sequence for the same seed, whatever else is drawn."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        found = self._streams.get(name)
        if found is None:
            # A string seed goes through SHA-512: no dependence on PYTHONHASHSEED.
            found = self._streams[name] = random.Random(f"oncelog/{self.seed}/{name}")
        return found
