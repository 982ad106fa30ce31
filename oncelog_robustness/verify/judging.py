"""A history, held against every promise: the answers, and for each anomaly the few operations that prove it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import (
    AnyOperation,
    FinalRead,
    History,
    PlainSend,
    Poll,
    Read,
    Transaction,
)
from oncelog_robustness.observations import Observations
from oncelog_robustness.verify.promises import Answered, answers

OPERATIONS_MAX: Final = 10
_QUOTED: Final = re.compile(r"'([^']+)'")


@dataclass(frozen=True, slots=True)
class Anomaly:
    promise: str
    checker: str
    sentence: str
    operations: tuple[AnyOperation, ...]
    """Those that the sentence speaks of; of their records only those that it names."""


@dataclass(frozen=True, slots=True)
class Judgement:
    promises: tuple[Answered, ...]
    anomalies: tuple[Anomaly, ...]

    @property
    def answer(self) -> Answer:
        """Ok needs an answer to each promise that is the core of all."""
        if self.anomalies:
            return Answer.BROKEN
        core = [one.answer for one in self.promises if one.promise.is_core]
        return Answer.OK if all(one is Answer.OK for one in core) else Answer.UNKNOWN

    @property
    def unanswered(self) -> list[str]:
        """Names of the core's promises that could not be judged."""
        return [
            one.promise.name
            for one in self.promises
            if one.promise.is_core and one.answer is Answer.UNKNOWN
        ]


def judged(history: History, verdicts: Sequence[Verdict] | None = None) -> Judgement:
    """`verdicts`, when the checkers were asked already."""
    if verdicts is None:
        verdicts = judge(history, Observations(is_healed=True))
    answered = answers(verdicts)
    found = [
        (one.promise.name, verdict, sentence)
        for one in answered
        for verdict in one.verdicts
        if verdict.answer is Answer.BROKEN
        for sentence in verdict.proof
    ]
    values = {value: None for _, _, sentence in found for value in _QUOTED.findall(sentence)}
    by_value = _operations_by_value(history, values)
    anomalies = tuple(
        Anomaly(promise, verdict.checker, sentence, _proving(sentence, by_value))
        for promise, verdict, sentence in found
    )
    return Judgement(tuple(answered), anomalies)


def _operations_by_value(
    history: History, values: Mapping[str, None]
) -> dict[str, list[AnyOperation]]:
    """In the order in which they began."""
    found: dict[str, list[AnyOperation]] = {value: [] for value in values}
    if not values:
        return found
    for operation in sorted(history.operations, key=lambda one: one.invoked_ms):
        for value in dict.fromkeys(_values_of(operation)):
            if value in found:
                found[value].append(operation)
    return found


def _values_of(operation: AnyOperation) -> Iterator[str]:
    if isinstance(operation, Transaction):
        yield from (one.value for one in operation.sends)
    if isinstance(operation, PlainSend):
        yield operation.send.value
    if isinstance(operation, Transaction | Poll | FinalRead):
        yield from (one.value for one in operation.reads if one.value is not None)


def _proving(
    sentence: str, by_value: Mapping[str, Sequence[AnyOperation]]
) -> tuple[AnyOperation, ...]:
    """Writers first, then who read it first and last."""
    values = dict.fromkeys(_QUOTED.findall(sentence))
    found: dict[int, AnyOperation] = {}
    for value in values:
        about = by_value.get(value, ())
        writers = [one for one in about if isinstance(one, Transaction | PlainSend)]
        readers = [one for one in about if isinstance(one, Poll | FinalRead)]
        for one in (*writers, *readers[:2], *readers[-2:]):
            found.setdefault(id(one), one)
    chosen = sorted(list(found.values())[:OPERATIONS_MAX], key=lambda one: one.invoked_ms)
    return tuple(_trimmed(one, values) for one in chosen)


def _trimmed(operation: AnyOperation, values: Mapping[str, None]) -> AnyOperation:
    if isinstance(operation, Transaction):
        return replace(operation, reads=_only(operation.reads, values))
    if isinstance(operation, Poll | FinalRead):
        return replace(operation, reads=_only(operation.reads, values))
    return operation


def _only(reads: Sequence[Read], values: Mapping[str, None]) -> tuple[Read, ...]:
    return tuple(one for one in reads if one.value in values)
