"""The verdict on a history: the checkers' answer to each promise of Kafka, and for each anomaly the few operations that
prove it."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import (
    AnyOperation,
    FinalRead,
    History,
    Partition,
    PlainSend,
    Poll,
    Read,
    Send,
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
    """The operations that the sentence is about. Of their reads only those are kept that the sentence names, and in
    final reads those next to them."""


@dataclass(frozen=True, slots=True)
class Judgement:
    promises: tuple[Answered, ...]
    anomalies: tuple[Anomaly, ...]

    @property
    def answer(self) -> Answer:
        """The answer for all promises: BROKEN with any anomaly; OK only if each core promise could be judged; otherwise
        UNKNOWN."""
        if self.anomalies:
            return Answer.BROKEN
        core = [one.answer for one in self.promises if one.promise.is_core]
        return Answer.OK if all(one is Answer.OK for one in core) else Answer.UNKNOWN

    @property
    def unanswered(self) -> list[str]:
        """The names of the core promises (those that a verdict needs) that could not be judged."""
        return [
            one.promise.name
            for one in self.promises
            if one.promise.is_core and one.answer is Answer.UNKNOWN
        ]


def judged(history: History, verdicts: Sequence[Verdict] | None = None) -> Judgement:
    """Run the checkers over a history, and return the answer to each promise with its anomalies. `verdicts`: of
    checkers that have run already."""
    if verdicts is None:
        verdicts = judge(history, Observations(is_healed=True))
    answered = answers(verdicts)
    found = list(_broken(answered))
    values = {value: None for _, _, sentence in found for value in _QUOTED.findall(sentence)}
    by_value = _operations_by_value(history, values)
    anomalies = tuple(
        Anomaly(promise, verdict.checker, sentence, _proving(sentence, history, by_value))
        for promise, verdict, sentence in found
    )
    return Judgement(tuple(answered), anomalies)


def merged_judgement(verdicts: Sequence[Verdict], parts: Iterable[Anomaly]) -> Judgement:
    """Return the judgement of a long history that was checked in parts, from the merged verdicts and the parts'
    anomalies."""
    known = {(one.checker, one.sentence): one for one in parts}
    answered = answers(verdicts)
    anomalies = tuple(
        known.get((verdict.checker, sentence), Anomaly(promise, verdict.checker, sentence, ()))
        for promise, verdict, sentence in _broken(answered)
    )
    return Judgement(tuple(answered), anomalies)


def _broken(answered: Sequence[Answered]) -> Iterator[tuple[str, Verdict, str]]:
    """Yield each anomaly that a checker found: the promise's name, the checker's verdict, and the sentence that
    describes the anomaly."""
    for one in answered:
        for verdict in one.verdicts:
            if verdict.answer is Answer.BROKEN:
                for sentence in verdict.proof:
                    yield one.promise.name, verdict, sentence


def _operations_by_value(
    history: History, values: Mapping[str, None]
) -> dict[str, list[AnyOperation]]:
    """Return the operations that send or read each value, in the order in which they began."""
    found: dict[str, list[AnyOperation]] = {value: [] for value in values}
    if not values:
        return found
    for operation in sorted(history.operations, key=lambda one: one.invoked_ms):
        for value in dict.fromkeys(_values_of(operation)):
            if value in found:
                found[value].append(operation)
    return found


def _values_of(operation: AnyOperation) -> Iterator[str]:
    yield from (one.value for one in sends_of(operation))
    if isinstance(operation, Transaction | Poll | FinalRead):
        yield from (one.value for one in operation.reads if one.value is not None)


def _proving(
    sentence: str, history: History, by_value: Mapping[str, Sequence[AnyOperation]]
) -> tuple[AnyOperation, ...]:
    """Return the operations that prove an anomaly's sentence: who wrote the values that it names, their first and last
    readers, and the final reads."""
    values = dict.fromkeys(_QUOTED.findall(sentence))
    found: dict[int, AnyOperation] = {}
    spots: dict[Partition, list[int]] = {}
    for value in values:
        about = by_value.get(value, ())
        writers = [one for one in about if any(send.value == value for send in sends_of(one))]
        readers = [one for one in about if one not in writers and not isinstance(one, FinalRead)]
        for one in (*writers, *readers[:2], *readers[-1:]):
            found.setdefault(id(one), one)
        for send in (send for one in writers for send in sends_of(one) if send.value == value):
            spots.setdefault((send.topic, send.partition), []).append(send.offset or 0)
    began_ms = min((one.invoked_ms for one in found.values()), default=0)
    finals = [
        one
        for one in history.all(FinalRead)
        if (one.topic, one.partition) in spots and one.invoked_ms >= began_ms
    ]
    chosen = [*list(found.values())[: OPERATIONS_MAX - len(finals[:4])], *finals[:4]]
    chosen.sort(key=lambda one: one.invoked_ms)
    return tuple(_trimmed(one, values, spots) for one in chosen)


def sends_of(operation: AnyOperation) -> Sequence[Send]:
    if isinstance(operation, Transaction):
        return operation.sends
    return (operation.send,) if isinstance(operation, PlainSend) else ()


def _trimmed(
    operation: AnyOperation, values: Mapping[str, None], spots: Mapping[Partition, Sequence[int]]
) -> AnyOperation:
    if isinstance(operation, Transaction):
        return replace(operation, reads=_only(operation.reads, values))
    if isinstance(operation, Poll):
        return replace(operation, reads=_only(operation.reads, values))
    if isinstance(operation, FinalRead):
        offsets = spots.get((operation.topic, operation.partition), ())
        return replace(operation, reads=_around(operation.reads, values, offsets))
    return operation


def _only(reads: Sequence[Read], values: Mapping[str, None]) -> tuple[Read, ...]:
    return tuple(one for one in reads if one.value in values)


def _around(
    reads: Sequence[Read], values: Mapping[str, None], offsets: Sequence[int]
) -> tuple[Read, ...]:
    """Keep of these reads those of the values, and those next to their offsets, which show that a value is missing."""
    at = [one.offset for one in reads]
    kept = {bisect_left(at, offset) + near for offset in offsets for near in (-1, 0, 1)}
    return tuple(one for number, one in enumerate(reads) if number in kept or one.value in values)
