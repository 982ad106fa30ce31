"""spark-batch: a micro-batch whose commit was answered is in the sink once, any other one once or not at all.

An attempt is one try of Spark's driver to write a micro-batch, and each of its tasks may run several times. Once
means: from one attempt, and in it from one try of each task, with everything that this try wrote. An attempt that
failed is never in the sink. One with an unknown outcome is there with the tries that its driver had named, or not
at all.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_robustness.checkers.evidence import FinalState, Presence
from oncelog_robustness.checkers.findings import Findings, place
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Outcome, Send
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import SparkBatchEnded, SparkTask, facts_of


class _Batch(NamedTuple):
    sink: str
    query: str
    batch: int

    def name(self) -> str:
        return f"batch {self.batch} of {self.query} in sink {self.sink}"


@dataclass(slots=True)
class _Try:
    """One run of one Spark task that wrote a share of a micro-batch. Its values are sorted by what the reads at the end
    of the test show: `here` is in the topic, `gone` is missing, `unread` is in doubt.
    """

    task: int
    branch: str
    here: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def name(self) -> str:
        return f"task {self.task} ({self.branch})"


@dataclass(slots=True)
class _Attempt:
    tries: dict[tuple[int, str], _Try] = field(default_factory=dict)
    ended: SparkBatchEnded | None = None

    @property
    def outcome(self) -> Outcome:
        return Outcome.INFO if self.ended is None else self.ended.was

    @property
    def visible(self) -> list[_Try]:
        return [one for one in self.tries.values() if one.here]


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("spark-batch")
    for batch, attempts in _batches(history).items():
        if not any(
            one.here or one.gone for tried in attempts.values() for one in tried.tries.values()
        ):
            continue
        findings.judged += 1
        shown = [name for name, tried in attempts.items() if tried.visible]
        if len(shown) > 1:
            first, second = (attempts[name].visible[0].here[0] for name in shown[:2])
            findings.broken.append(
                f"{batch.name()} is there {len(shown)} times: {first} of attempt {shown[0]} and"
                f" {second} of attempt {shown[1]}"
            )
        for name, tried in attempts.items():
            _judge(findings, f"attempt {name} at {batch.name()}", tried)
    return findings.verdict("no task wrote into partitions that were read at the end")


def _batches(history: History) -> dict[_Batch, dict[str, _Attempt]]:
    final = FinalState.of(history)
    found: dict[_Batch, dict[str, _Attempt]] = {}
    for _, task in facts_of(history, SparkTask):
        attempts = found.setdefault(_Batch(task.sink, task.query, task.batch), {})
        tries = attempts.setdefault(task.attempt, _Attempt()).tries
        one = tries.setdefault((task.task, task.branch), _Try(task.task, task.branch))
        for topic, partition, value in task.values:
            log = final.committed.get((topic, partition))
            presence = None if log is None else log.presence(Send(topic, partition, value, None))
            where = f"{value!r} in {place(topic, partition)}"
            if log is not None and presence is Presence.PRESENT:
                one.here.append(f"{value!r} at {place(topic, partition, log.offsets[value])}")
            elif presence is Presence.ABSENT:
                one.gone.append(where)
            else:
                one.unread.append(where)
    for _, ended in facts_of(history, SparkBatchEnded):
        attempts = found.setdefault(_Batch(ended.sink, ended.query, ended.batch), {})
        attempt = attempts.setdefault(ended.attempt, _Attempt())
        if attempt.ended is None or ended.was is not Outcome.INFO:
            attempt.ended = ended
    return found


def _judge(findings: Findings, name: str, tried: _Attempt) -> None:
    ended, visible = tried.ended, tried.visible
    if tried.outcome is Outcome.FAIL:
        if visible:
            findings.broken.append(
                f"{name} failed, but {visible[0].here[0]} of {visible[0].name()} is there"
            )
        return
    if tried.outcome is Outcome.INFO and not visible:
        return
    winners = dict(ended.winners) if ended is not None else {}
    if winners:
        expected = [tried.tries[key] for key in winners.items() if key in tried.tries]
        for one in visible:
            if winners.get(one.task) != one.branch:
                findings.broken.append(
                    f"{name} named {winners.get(one.task, 'nobody')!r} for task {one.task}, but"
                    f" {one.here[0]} of {one.name()} is there"
                )
    else:
        expected = visible
        _judge_unnamed(findings, name, tried)
    for one in expected:
        if one.gone:
            seen_one = f"{visible[0].here[0]} is there" if visible else "none of it is there"
            findings.broken.append(
                f"{one.gone[0]} of {one.name()} is missing from {name} ({tried.outcome}):"
                f" {seen_one}"
            )
        elif one.unread:
            findings.unclear.append(f"{one.unread[0]} of {one.name()} in {name} was not read")


def _judge_unnamed(findings: Findings, name: str, tried: _Attempt) -> None:
    """Judge an attempt (one try to write a micro-batch) whose driver is not known to have named the winning tries.
    Exactly one try of each task that wrote anything must be visible."""
    shown: dict[int, _Try] = {}
    for one in tried.visible:
        before = shown.setdefault(one.task, one)
        if before is not one:
            findings.broken.append(
                f"{name} has {before.here[0]} of {before.name()} and {one.here[0]} of {one.name()}"
            )
    for one in tried.tries.values():
        if one.task not in shown and one.gone:
            rest = f"{next(iter(shown.values())).here[0]} is there" if shown else "nothing of it is"
            findings.broken.append(
                f"{name} ({tried.outcome}) has nothing of task {one.task}: {one.gone[0]} is"
                f" missing, {rest}"
            )
            return
