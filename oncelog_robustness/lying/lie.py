"""What a lie is, and when it is told."""

import random
from typing import Any, Final, NamedTuple

from oncelog.ids import Offset
from oncelog_robustness.lying.exchange import Exchange

FIRST_LEAST: Final = 3
FIRST_MOST: Final = 12


class Spot(NamedTuple):
    topic: str
    partition: int
    offset: Offset | int


class Moments:
    """A seed decides at which occasion the bug strikes first, and after how many more it strikes again."""

    def __init__(self, name: str, seed: int, most: int = FIRST_MOST) -> None:
        draw = random.Random(f"lying/{name}/{seed}")
        self._left = draw.randint(min(FIRST_LEAST, most), most)
        self._every = draw.randint(FIRST_LEAST, FIRST_MOST)
        self.has_come = False

    def strikes(self) -> bool:
        """Whether it does at this occasion."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._every
        self.has_come = True
        return True


class Lie:
    """The honest one. A bug is a subclass; it sees every request and response that is decoded, in their order."""

    name = "none"
    says = "nothing: the proxy passes everything on as it is"

    def __init__(self, seed: int) -> None:
        self.moments = Moments(self.name, seed)
        self.told: list[str] = []
        """Each time it struck, in a sentence."""

    def asked(self, exchange: Exchange) -> None:
        """Before the broker receives it."""

    def answered(self, exchange: Exchange, response: Any) -> Any:
        """Returns what the client receives for the broker's `response`."""
        return response
