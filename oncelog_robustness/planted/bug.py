"""What a planted bug is: one promise broken by a small change of the production code, and who must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """`old` stands exactly once in the source of `module` and becomes `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """Plausible: what a tired person could commit. Reachable: a client can suffer from it."""

    name: str
    promise: str
    """What the production code promises and this bug breaks, in one sentence."""
    source: str
    """Where the promise is made: a section of the protocol facts, a KIP, an ADR or a page of the architecture."""
    edits: tuple[Edit, ...]
    """One, unless the promise is kept in several places on purpose: then each of them forgets it."""
    caught_by: tuple[str, ...]
    """Checkers meant to notice, by `Verdict.checker`; one of them must say broken."""
    scenario: str
    first_seed: int = 1
    """A seed that is known to show the bug; the search begins there."""
    seeds: int = 20
    """The budget: as many seeds in a row may pass before the bug counts as not caught."""
    arguments: tuple[str, ...] = ()
    """More for the command line of the simulator."""
