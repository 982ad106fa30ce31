"""One thing that is wrong: what, since when, and what to do about it."""

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
"""Of one kind: a hundred partitions without a leader have one cause, and one row says how many there are."""
NAMES_MAX: Final = 3


class Since(NamedTuple):
    age_ms: int | None = None
    """None: not known."""
    is_at_least: bool = False
    """It was so already when this gateway began to look."""

    @property
    def words(self) -> str:
        """Empty: not known."""
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
    """What stands behind the subject: both together are a sentence without its end."""
    since: Since
    to_do: str
    command: str
    page: str
    """Of the console, about the subject."""
    groups: tuple[str, ...] = ()
    """Consumer groups that it blocks, the first of them."""

    @property
    def sentence(self) -> str:
        return f"{self.subject} {self.what}"


def names(every: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b, c and 7 more`."""
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
    """The way out for partitions that are offline: logs say why, and the repair shows what it would cost."""
    return (
        f"the log of {node_words(nodes)} says why; with the node stopped, "
        "`oncelog storage repair FOLDER` shows what is damaged in its data folder"
    )


def page(path: str, **query: object) -> str:
    return f"{path}?{urlencode(query)}"
