"""The report of a run or a history: as JSON for programs, as a page for people, as lines for a terminal."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oncelog.wording import counted
from oncelog_robustness.chaos.client_process import operation_line
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.measures import Measures, Recovery, Tried
from oncelog_robustness.chaos.report import measured
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.history import Transaction
from oncelog_robustness.verify.faults import COMMAND
from oncelog_robustness.verify.judging import Anomaly, Judgement
from oncelog_robustness.verify.page import verify_page
from oncelog_robustness.verify.promises import Answered

JSON: Final = "verify.json"
HTML: Final = "verify.html"
COLOURS: Final = {Answer.OK: "green", Answer.BROKEN: "bold red", Answer.UNKNOWN: "yellow"}
_PREFIX: Final = re.compile(r"oncelog-verify-[0-9a-f]{6}-")
WORDS: Final = {Answer.OK: "none found", Answer.BROKEN: "BROKEN", Answer.UNKNOWN: "not judged"}


@dataclass(frozen=True, slots=True)
class About:
    """The facts that a report shows and the history does not hold, such as the target and its limits."""

    target: str
    run: str
    """The id of the run; empty for a history that was given."""
    clients: tuple[str, ...]
    limits: tuple[str, ...]
    """The things that could not be done, used or judged, a sentence each."""
    again: str
    """The command that judges the kept history again."""
    is_stopped: bool = False
    """True if Ctrl-C stopped the run before its time was over."""
    cleaned: str = ""


def content_of(
    judgement: Judgement, tried: Tried, measures: Measures, about: About
) -> dict[str, Any]:
    return {
        "format": 1,
        "answer": judgement.answer.value,
        "headline": headline(judgement),
        "means": means(judgement, tried, measures),
        "target": about.target,
        "run": about.run,
        "clients": list(about.clients),
        "is_stopped": about.is_stopped,
        "duration_s": round((measures.until_ms - measures.from_ms) / 1000, 1),
        "promises": [_promise(one) for one in judgement.promises],
        "anomalies": [_anomaly(one) for one in judgement.anomalies],
        **measured(tried, measures),
        "fault_list": [_fault(one, measures) for one in measures.recoveries],
        "limits": [*about.limits, *([f"At the end: {about.cleaned}"] if about.cleaned else [])],
        "again": about.again,
    }


def headline(judgement: Judgement) -> str:
    if judgement.answer is Answer.BROKEN:
        names = dict.fromkeys(one.promise for one in judgement.anomalies)
        return f"Broken: {'; '.join(names)}"
    if judgement.answer is Answer.UNKNOWN:
        return "No verdict: too little could be judged"
    return "Nothing found"


def means(judgement: Judgement, tried: Tried, measures: Measures) -> str:
    """Return a paragraph for people: how much was tried, and what the verdict is worth."""
    faults = len([one for one in measures.recoveries if one.role != CLIENTS])
    transactions = tried.operations.get(Transaction.__name__, 0)
    said = (
        f"{transactions:,} transactions, {tried.sends:,} sends and {tried.records_read:,} records read "
        f"were held against {len(judgement.promises)} promises, under {counted(faults, 'fault')} of "
        f"brokers and {counted(len(measures.recoveries) - faults, 'death')} of clients"
    )
    if judgement.answer is Answer.BROKEN:
        return f"{said}. Each anomaly below comes with the operations that prove it."
    if judgement.answer is Answer.UNKNOWN:
        unread = ", ".join(judgement.unanswered)
        return f"{said}. These could not be judged: {unread}."
    more = (
        ""
        if faults
        else " No broker was broken: --fault, --pid-file, --container and --pods do that."
    )
    return f"{said}. That is no proof: what was not tried may still be wrong.{more}"


def _promise(one: Answered) -> dict[str, Any]:
    return {
        "name": one.promise.name,
        "text": one.promise.text,
        "source": one.promise.source,
        "answer": one.answer.value,
        "judged": one.judged,
        "checkers": [
            {
                "checker": verdict.checker,
                "answer": verdict.answer.value,
                "judged": verdict.judged,
                "why": list(verdict.proof) if verdict.answer is Answer.UNKNOWN else [],
            }
            for verdict in one.verdicts
        ],
    }


def _anomaly(one: Anomaly) -> dict[str, Any]:
    return {
        "promise": one.promise,
        "checker": one.checker,
        "sentence": _short(one.sentence),
        "operations": [
            json.loads(_short(operation_line(operation))) for operation in one.operations
        ],
    }


def _short(text: str) -> str:
    """Return the text without the run's prefix in the names of topics and groups."""
    return _PREFIX.sub("", text)


def _fault(one: Recovery, measures: Measures) -> dict[str, Any]:
    fault = one.fault
    ended_ms = fault.completed_ms or fault.invoked_ms
    return {
        "at_s": round((fault.invoked_ms - measures.from_ms) / 1000, 1),
        "kind": COMMAND if fault.kind == FaultKind.OPERATE else fault.kind,
        "target": fault.target,
        "what": _short(fault.facts),
        "lasted_s": round((ended_ms - fault.invoked_ms) / 1000, 1),
        "next_commit_ms": one.ms,
        "is_watched": one.is_watched,
        "longest_gap_ms": one.gap_ms,
    }


def write_report(folder: Path, content: dict[str, Any], measures: Measures) -> Path:
    """Write the report as JSON and as a page into the folder, and return the path of the page."""
    (folder / JSON).write_text(json.dumps(content, indent=2) + "\n")
    page = folder / HTML
    page.write_text(verify_page(content, measures))
    return page


def show(console: Console, content: dict[str, Any], page: Path) -> None:
    table = Table(box=None, padding=(0, 2))
    for title in ("promise", "answer", "judged"):
        table.add_column(title)
    for one in content["promises"]:
        answer = Answer(one["answer"])
        word = f"[{COLOURS[answer]}]{WORDS[answer]}[/]"
        table.add_row(escape(one["name"]), word, f"{one['judged']:,}")
    console.print(table)
    for line in _lines(content["anomalies"]):
        console.print(line, highlight=False, soft_wrap=True)
    colour = COLOURS[Answer(content["answer"])]
    for limit in content["limits"]:
        console.print(limit, style="dim", markup=False, highlight=False, soft_wrap=True)
    text = f"[{colour}]{escape(content['headline'])}.[/] {escape(content['means'])}"
    console.print(text, highlight=False, soft_wrap=True)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"judge again: {content['again']}", markup=False, highlight=False, soft_wrap=True)


ANOMALIES_SHOWN: Final = 5


def _lines(anomalies: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in anomalies[:ANOMALIES_SHOWN]:
        yield f"[bold red]{escape(one['checker'])}[/]: {escape(one['sentence'])}"
    if len(anomalies) > ANOMALIES_SHOWN:
        yield f"and {len(anomalies) - ANOMALIES_SHOWN} more, in the report"
