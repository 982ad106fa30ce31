"""The definition of a planted bug: a small change of the production code that breaks one promise, and the
checkers that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a module's source: `old` stands in it exactly once and becomes `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A planted bug: edits of the source, and the checkers meant to notice them. It is plausible: a tired
    person could commit it. It is reachable: a client can suffer from it."""

    name: str
    promise: str
    """The promise of the production code that this bug breaks, in one sentence."""
    source: str
    """The place where the promise is made: a section of the protocol facts, a KIP, an ADR or a
    page of the architecture."""
    edits: tuple[Edit, ...]
    """The edits that make the bug: one, or several if the promise is kept in several places on purpose."""
    caught_by: tuple[str, ...]
    """The names of the checkers meant to notice, by `Verdict.checker`; one of them must answer broken."""
    scenario: str
    first_seed: int = 1
    """A seed that is known to show the bug, at which the search begins."""
    seeds: int = 20
    """The budget: how many seeds in a row may pass before the bug counts as not caught."""
    arguments: tuple[str, ...] = ()
    """Further arguments for the simulator's command line."""
