"""Rules that explain the state of a Spark sink (a stream's exactly-once target): which transactions its query left
open, and what will end them.
"""

import shlex
from dataclasses import dataclass

from oncelog_gateway.core.diagnosis import Command, Diagnosis, Evidence, ago, seconds


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    batch_id: int | None
    state: str
    opened_ms: int
    deadline_ms: int
    branch_count: int
    sealed_count: int


@dataclass(frozen=True, slots=True)
class SinkFacts:
    sink: str
    now: int
    last_committed_batch_id: int | None
    attempts: tuple[AttemptFacts, ...] = ()


def explain_sink(facts: SinkFacts) -> Diagnosis:
    opened = [one for one in facts.attempts if one.state == "Open"]
    waiting = [one for one in facts.attempts if one not in opened]
    last = facts.last_committed_batch_id
    evidence = (
        Evidence("last committed batch", "none" if last is None else str(last), "its coordinator"),
        Evidence("attempts", str(len(facts.attempts)), "its coordinator"),
    )
    look = Command(f"oncelog sinks describe {shlex.quote(facts.sink)}", "shows every branch")
    if opened:
        oldest = min(opened, key=lambda one: one.opened_ms)
        left_ms = oldest.deadline_ms - facts.now
        batch = "a batch" if oldest.batch_id is None else f"batch {oldest.batch_id}"
        end = (
            f"in {seconds(left_ms)}, when its time is over, or at once when the query starts again"
            if left_ms > 0
            else "within a second: its time is over"
        )
        return Diagnosis(
            "spark-attempt-open",
            f"Sink {facts.sink!r} has {batch} open since {ago(facts.now, oldest.opened_ms)}: the driver has not "
            f"decided it. If the driver is dead, the attempt is aborted {end}.",
            (
                f"{oldest.branch_count} branches (one a task), {oldest.sealed_count} sealed.",
                "Until then the partitions that its tasks wrote to are held back for read_committed.",
                "A query that starts again writes the batch anew; nothing is doubled.",
            ),
            evidence,
            (
                Command(
                    "start the query again with the same checkpoint",
                    "ends the attempt and repeats the batch",
                ),
                look,
            ),
        )
    if waiting:
        return Diagnosis(
            "spark-markers-under-way",
            f"Sink {facts.sink!r} has decided its newest batch, and its markers are on their way.",
            evidence=evidence,
            next_commands=(
                Command("oncelog transactions markers", "shows markers that wait"),
                look,
            ),
        )
    return Diagnosis(
        "healthy",
        f"Sink {facts.sink!r} has nothing open; "
        + ("no batch was committed yet." if last is None else f"batch {last} was committed last."),
        evidence=evidence,
        next_commands=(look,),
    )
