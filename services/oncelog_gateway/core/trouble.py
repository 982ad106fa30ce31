"""A trouble: one thing that is wrong in the cluster, its age, and what to do about it. The overview is a list of
troubles.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import urlencode

from oncelog_gateway.core.wording import duration

Look = Literal["good", "warn", "bad"]
Check = Literal[
    "nodes", "coordinators", "leaders", "partitions", "transactions", "groups", "markers"
]
ROWS_MAX: Final = 5
"""Rows of one kind of trouble at most. A hundred partitions without a leader have one cause, and one row says how
many there are.
"""
NAMES_MAX: Final = 3


class Since(NamedTuple):
    age_ms: int | None = None
    """The time in milliseconds for which the trouble has lasted; None: not known."""
    is_at_least: bool = False
    """True if the trouble was there already when this gateway began to look, so that it may be older."""

    @property
    def words(self) -> str:
        """The time for which the trouble has lasted, in words; empty: not known."""
        if self.age_ms is None:
            return ""
        return f"{'at least ' if self.is_at_least else ''}{duration(self.age_ms)}"


NOT_KNOWN: Final = Since()


@dataclass(frozen=True, slots=True)
class Trouble:
    check: Check
    look: Look
    subject: str
    what: str
    """The words that say what is wrong, to be read after the subject. Both together are a sentence without its full
    stop.
    """
    since: Since
    to_do: str
    command: str
    page: str
    """URL path of the console's page about the subject."""
    groups: tuple[str, ...] = ()
    """The first of the consumer groups that the trouble blocks."""

    @property
    def sentence(self) -> str:
        return f"{self.subject} {self.what}"


def names(every: Iterable[str]) -> str:
    """Return a list of names in words: `a`, `a and b`, `a, b, c and 7 more`."""
    found = list(every)
    shown = found[:NAMES_MAX]
    if len(found) > NAMES_MAX:
        return f"{', '.join(shown)} and {len(found) - NAMES_MAX} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def node_words(nodes: Sequence[int]) -> str:
    if not nodes:
        return "its node"
    return f"{'node' if len(nodes) == 1 else 'nodes'} {names(map(str, nodes))}"


def repair_words(nodes: Sequence[int]) -> str:
    """Return in words what to do about partitions whose nodes cannot use their logs: read the nodes' logs, and see what
    a repair would cost.
    """
    return (
        f"the log of {node_words(nodes)} says why; with the node stopped, "
        "`oncelog storage repair FOLDER` shows what is damaged in its data folder"
    )


def page(path: str, **query: object) -> str:
    return f"{path}?{urlencode(query)}"
