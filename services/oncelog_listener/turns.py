"""Short turns in which a large request is worked on, so that other connections' requests go on in between.

A request may name tens of thousands of topics, and each costs some microseconds. Answered in one piece, it would stop
every other client for a second. So a handler counts what it does (`Call.is_turn_over`), and after each turn lets the
event loop go on. Turns of different large requests are given one at a time, so ten of them cost the others no more than
one.
"""

import asyncio
from typing import Final

TURN_ELEMENTS: Final = 50
"""The elements of a request or a response in one turn, which takes about half a millisecond."""


class Turns:
    """Gives the turns to a listener's large requests, one request at a time."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> None:
        """Let every other task run, then return when this request has the next turn."""
        async with self._one_at_a_time:
            await asyncio.sleep(0)
