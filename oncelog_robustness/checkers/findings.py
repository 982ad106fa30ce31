"""The findings of a checker (what it judged, what broke its rule), and the wording of operations in its proofs."""

from dataclasses import dataclass, field
from typing import Final

from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import (
    Ending,
    FinalRead,
    Operation,
    PlainSend,
    Poll,
    Read,
    Send,
    Transaction,
)

PROOFS_MAX: Final = 10
"""The most proofs that a verdict shows; the rest is only counted."""


@dataclass(slots=True)
class Findings:
    checker: str
    judged: int = 0
    broken: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    """Reasons why something that should have been judged was not."""
    _first: dict[tuple[str | int | None, ...], int] = field(default_factory=dict)
    _more: dict[int, int] = field(default_factory=dict)

    def breaks(self, about: tuple[str | int | None, ...], sentence: str) -> None:
        """Add a sentence that tells a violation. For violations with the same `about` only the first sentence is
        kept; the rest is counted."""
        at = self._first.setdefault(about, len(self.broken))
        if at == len(self.broken):
            self.broken.append(sentence)
        else:
            self._more[at] = self._more.get(at, 0) + 1

    def verdict(self, nothing: str) -> Verdict:
        """Return the verdict of the checker: BROKEN if there is any violation. Without one, anything unclear makes
        it UNKNOWN.

        `nothing` is the reason for UNKNOWN if there was nothing to judge.
        """
        if self.broken:
            sentences = [
                f"{sentence} (and {self._more[at]} more of it)" if at in self._more else sentence
                for at, sentence in enumerate(self.broken)
            ]
            return Verdict(self.checker, Answer.BROKEN, self.judged, _shown(sentences))
        if self.unclear:
            return Verdict(self.checker, Answer.UNKNOWN, self.judged, _shown(self.unclear))
        if not self.judged:
            return Verdict(self.checker, Answer.UNKNOWN, 0, (nothing,))
        return Verdict(self.checker, Answer.OK, self.judged)


def _shown(sentences: list[str]) -> tuple[str, ...]:
    shown = tuple(sentences[:PROOFS_MAX])
    rest = len(sentences) - len(shown)
    return (*shown, f"and {rest} more") if rest else shown


def place(topic: str, partition: int, offset: int | None = None) -> str:
    return f"{topic}-{partition}" + ("" if offset is None else f"@{offset}")


def span(operation: Operation) -> str:
    end = "never answered" if operation.completed_ms is None else f"{operation.completed_ms} ms"
    return f"{operation.invoked_ms} ms to {end}"


def said_of(send: Send) -> str:
    return f"{send.value!r} to {place(send.topic, send.partition, send.offset)}"


def writer(by: Transaction | PlainSend) -> str:
    """Describe the writer of a value in words: its client, its transaction, and how that ended."""
    if isinstance(by, PlainSend):
        return f"{by.client} ({by.outcome}, {span(by)})"
    ending = "no ending asked" if by.ending is Ending.NONE else f"{by.ending} {by.outcome}"
    return f"{by.client} in a transaction of {by.transactional_id} ({ending}, {span(by)})"


def reader(by: Operation) -> str:
    if isinstance(by, FinalRead):
        return f"the final {by.isolation} read of {by.client} at {by.invoked_ms} ms"
    if isinstance(by, Poll):
        return f"a {by.isolation} poll of {by.client} ({span(by)})"
    return f"{by.client} ({span(by)})"


def seen(read: Read) -> str:
    return f"{read.value!r} at {place(read.topic, read.partition, read.offset)}"
