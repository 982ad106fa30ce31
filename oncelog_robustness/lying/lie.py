"""The base class of the lies, as the bugs are called that the proxy plants, and the choice of the moments at
which they strike."""

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
    """The moments at which a bug strikes: a seed draws the first occasion, and how many more pass before the next."""

    def __init__(self, name: str, seed: int, most: int = FIRST_MOST) -> None:
        draw = random.Random(f"lying/{name}/{seed}")
        self._left = draw.randint(min(FIRST_LEAST, most), most)
        self._every = draw.randint(FIRST_LEAST, FIRST_MOST)
        self.has_come = False

    def strikes(self) -> bool:
        """Count one more occasion. True if the bug strikes at this one."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._every
        self.has_come = True
        return True


class Lie:
    """The base class of the proxy's bugs, which itself changes nothing. It is called with every decoded
    request and response, in order."""

    name = "none"
    says = "nothing: the proxy passes everything on as it is"

    def __init__(self, seed: int) -> None:
        self.moments = Moments(self.name, seed)
        self.told: list[str] = []
        """A sentence for each time that this planted bug struck."""

    def asked(self, exchange: Exchange) -> None:
        """Look at a client's request, and perhaps change it, before the broker receives it."""

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        """Return the response that the client receives instead of the broker's `response`; the same if the
        bug does not strike."""
        return response
