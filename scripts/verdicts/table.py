"""The table of published verdicts: a column for each target, a row for each fact."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.clients.libraries import LIBRARIES
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.verify.promises import PROMISES
from scripts.verdicts.publishing import Published

from oncelog.wording import counted

OF_BROKERS: Final = {
    FaultKind.KILL: "kill",
    FaultKind.PAUSE: "pause",
    FaultKind.ROLLING_RESTART: "rolling restart",
}
"""The faults of brokers that each target gets, and their names in the table."""
NONE: Final = "–"
NEXT_COMMIT, LONGEST_GAP = "next_commit", "longest_gap"
_COMMITTED, _ABORTED = "commit ok", "abort ok"
_NOT_OF_CLIENTS: Final = ("Fault", "WorkloadFact")

Row = tuple[str, Callable[[Published], str]]
"""The title of a row, and what makes a cell of a report."""


def table_lines(reports: Sequence[Published]) -> list[str]:
    """Return the table's lines. A column is a report."""
    lines = [f"| | {' | '.join(one['target'] for one in reports)} |"]
    lines.append(f"| --- |{' --- |' * len(reports)}")
    lines += [
        f"| {title} | {' | '.join(cell(one) for one in reports)} |" for title, cell in _rows()
    ]
    return lines


def _rows() -> Iterator[Row]:
    yield "version", lambda one: f"{one['product']} {one['version']}"
    yield "nodes", lambda one: str(one["nodes"])
    yield "replicas of verify's topics", lambda one: str(one["replicas"])
    yield "processes that faults strike", lambda one: str(one["struck"])
    yield "time of work", lambda one: _time(one["report"]["duration_s"] * 1000)
    yield "operations of clients", _operations
    yield "records read", lambda one: f"{one['report']['records_read']:,}"
    for library in LIBRARIES:
        yield f"transactions by {library}", partial(_endings, library)
    for kind, name in OF_BROKERS.items():
        yield f"faults: {name}", partial(_faults, kind)
    yield "faults: death of a client", partial(_faults, FaultKind.CLIENT_KILL)
    for promise in PROMISES:
        yield f"**{promise.name}**", partial(_promise, promise.name)
    for kind, name in OF_BROKERS.items():
        yield f"{name}: until the next commit", partial(_times, kind, NEXT_COMMIT)
    yield (
        "rolling restart: longest time without a commit",
        partial(_times, FaultKind.ROLLING_RESTART, LONGEST_GAP),
    )
    yield "commit latency", _latency
    yield "memory of the checker", lambda one: f"{one['checker_peak_mb']:,} MB"
    yield "seed", lambda one: str(one["seed"])
    yield "date", lambda one: str(one["date"])
    yield "commit of oncelog", _commit
    yield "again", lambda one: f"`{one['again']}`"


def _operations(one: Published) -> str:
    counts = one["report"]["operations"]
    return f"{sum(count for kind, count in counts.items() if kind not in _NOT_OF_CLIENTS):,}"


def _endings(library: str, one: Published) -> str:
    counts = one["report"]["transactions_by_client"].get(library)
    if counts is None:
        return "takes no part"
    committed, aborted = counts.get(_COMMITTED, 0), counts.get(_ABORTED, 0)
    others = sum(counts.values()) - committed - aborted
    return f"{committed:,} committed, {aborted:,} aborted, {others:,} others"


def _faults(kind: FaultKind, one: Published) -> str:
    return f"{one['report']['faults']['by_kind'].get(kind, 0):,}"


def _promise(name: str, one: Published) -> str:
    found = next((each for each in one["report"]["promises"] if each["name"] == name), None)
    if found is None or found["answer"] == Answer.UNKNOWN:
        return "not judged"
    if found["answer"] == Answer.BROKEN:
        return f"**broken {one['broken'].get(name, 0):,}**"
    return f"held, {found['judged']:,} judged"


def _times(kind: FaultKind, what: str, one: Published) -> str:
    found = one["unavailability"].get(kind)
    if found is None:
        return NONE
    median_ms, most_ms = found[f"{what}_median_ms"], found[f"{what}_max_ms"]
    parts = [] if most_ms is None else [f"median {_time(median_ms)}", f"max {_time(most_ms)}"]
    if found["never"]:
        parts.append(f"{counted(found['never'], 'time')} never")
    return ", ".join(parts) or NONE


def _latency(one: Published) -> str:
    pulse = one["report"]["pulse"]
    if pulse["commit_p50_ms"] is None:
        return NONE
    return f"p50 {_time(pulse['commit_p50_ms'])}, p99 {_time(pulse['commit_p99_ms'])}"


def _commit(one: Published) -> str:
    return f"{one['commit']}{'' if one['is_commit_clean'] else ' with changes'}"


def _time(ms: float) -> str:
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"
