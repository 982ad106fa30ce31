"""The report of a run in three forms: for programs, for a pull request, and for people to look at."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.chaos.measures import FAULT_PLAN, Measures, Tried, percentile
from oncelog_robustness.chaos.page.build import build_page
from oncelog_robustness.chaos.run import RunResult
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.history import Fault

REPORT_JSON: Final = "report.json"
REPORT_MD: Final = "report.md"
REPORT_HTML: Final = "report.html"
PROOFS_MAX: Final = 20
LINE_MAX: Final = 100
"""The longest line of prose in Markdown, in characters. Rows of tables may be longer."""


def write_report(result: RunResult) -> Path:
    """Write the report in all its forms into the run's folder, and return the path of the page."""
    folder = result.options.folder
    content = report_content(result)
    (folder / REPORT_JSON).write_text(json.dumps(content, indent=2) + "\n")
    (folder / REPORT_MD).write_text("\n".join(report_lines(content)) + "\n")
    page = folder / REPORT_HTML
    page.write_text(build_page(content, result.measures))
    return page


def report_content(result: RunResult) -> dict[str, Any]:
    measures = result.measures
    return {
        "target": result.target,
        "seed": result.options.seed,
        "scenario": result.options.scenario.name,
        "libraries": list(result.options.libraries),
        "replay": result.options.replay,
        "is_sound": result.is_sound,
        "duration_s": round((measures.until_ms - measures.from_ms) / 1000, 1),
        "wall_s": round(result.wall_s, 1),
        "verdicts": [
            {
                "checker": verdict.checker,
                "answer": verdict.answer.value,
                "judged": verdict.judged,
                "proof": list(verdict.proof[:PROOFS_MAX]),
                "proofs": len(verdict.proof),
            }
            for verdict in result.verdicts
        ],
        **measured(Tried.of(result.history), measures),
        "never_reached": never_reached(result),
        "limits": list(result.limits),
    }


def measured(tried: Tried, measures: Measures) -> dict[str, Any]:
    """Return the measured part of the report: faults and recoveries, what clients did, and how fast it went."""
    latencies = [commit.latency_ms for commit in measures.commits]
    return {
        "faults": _faults(tried.faults),
        "roles": [
            {
                "role": one.role,
                "hits": one.hits,
                "p50_ms": one.p50_ms,
                "p99_ms": one.p99_ms,
                "max_ms": one.max_ms,
                "kills": one.kills,
                "kills_p99_ms": one.kills_p99_ms,
            }
            for one in measures.roles
        ],
        "operations": dict(sorted(tried.operations.items())),
        "transactions": dict(measures.transactions),
        "transactions_by_client": _by_library(tried),
        "records_read": tried.records_read,
        "pulse": {
            "commits": len(measures.commits),
            "availability": round(measures.availability, 4),
            "gaps_s": [
                [round(since / 1000, 2), round(until / 1000, 2)] for since, until in measures.gaps
            ],
            "commit_p50_ms": percentile(latencies, 0.5),
            "commit_p99_ms": percentile(latencies, 0.99),
            "commit_max_ms": max(latencies, default=None),
        },
        "lso_lag_max": max((lag.records for lag in measures.lags), default=None),
    }


def _by_library(tried: Tried) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (library, ending), count in sorted(tried.by_library.items()):
        if library:
            found.setdefault(library, {})[ending] = count
    return found


def _faults(faults: Sequence[Fault]) -> dict[str, Any]:
    planned = [fault for fault in faults if fault.client == FAULT_PLAN]
    return {
        "planned": len(planned),
        "by_workloads": len(faults) - len(planned),
        "by_kind": dict(sorted(Counter(fault.kind for fault in planned).items())),
    }


def never_reached(result: RunResult) -> dict[str, list[str]]:
    """Return what this run shows nothing about: kinds of faults not given, checkers without
    an answer, roles not hit."""
    struck = {fault.kind for fault in result.history.all(Fault)}
    return {
        "faults": [kind.value for kind in FaultKind if kind.value not in struck],
        "checkers": [one.checker for one in result.verdicts if one.answer is Answer.UNKNOWN],
        "roles": [one.role for one in result.measures.roles if one.hits == 0],
    }


def report_lines(content: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the report in Markdown."""
    broken = [one["checker"] for one in content["verdicts"] if one["answer"] == Answer.BROKEN]
    yield f"# Chaos: {'broken: ' + ', '.join(broken) if broken else 'nothing is broken'}"
    yield ""
    yield from _wrapped(
        f"{content['target']}, seed {content['seed']}, scenario {content['scenario']}, "
        f"{content['duration_s']} s of work, clients: {', '.join(content['libraries'])}."
    )
    yield from ("", "Again:", "", f"    {content['replay']}")
    yield from (
        "",
        "## Verdicts",
        "",
        "| anomaly | answer | judged | |",
        "| --- | --- | --- | --- |",
    )
    for one in content["verdicts"]:
        proof = "<br>".join(text.replace("|", "\\|") for text in one["proof"])
        yield f"| {one['checker']} | {one['answer']} | {one['judged']} | {proof} |"
    yield from ("", "## Faults and recovery", "")
    yield "From the begin of a fault to the next commit of a transaction begun after it."
    yield from ("", "| role | hits | p50 | p99 | max | kills | their p99 |", f"|{' --- |' * 7}")
    for one in content["roles"]:
        times = " | ".join(_s(one[key]) for key in ("p50_ms", "p99_ms", "max_ms"))
        kills = f"{one['kills']} | {_s(one['kills_p99_ms'])}"
        yield f"| {one['role']} | {one['hits']} | {times} | {kills} |"
    yield ""
    faults = content["faults"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in faults["by_kind"].items())
    yield from _wrapped(
        f"{faults['planned']} faults by the plan, {faults['by_workloads']} clients killed by their "
        f"workloads: {kinds or 'none'}."
    )
    yield from ("", "## Operations", "", "| what | how many |", "| --- | --- |")
    for name, count in content["operations"].items():
        yield f"| {name} | {count} |"
    for name, count in content["transactions"].items():
        yield f"| transactions: {name} | {count} |"
    yield f"| records read | {content['records_read']} |"
    pulse = content["pulse"]
    yield ""
    yield from _wrapped(
        f"The pulse, a producer that never pauses: {pulse['commits']} commits, "
        f"{pulse['availability']:.1%} of the time without a gap of a second; "
        f"commit p50 {pulse['commit_p50_ms']} ms, p99 {pulse['commit_p99_ms']} ms, longest "
        f"{pulse['commit_max_ms']} ms; greatest LSO lag {content['lso_lag_max']} records."
    )
    yield from ("", "## Never reached", "")
    for what, names in content["never_reached"].items():
        yield from _wrapped(f"- {what}: {', '.join(names) or 'none'}", indent="  ")
    for limit in content["limits"]:
        yield from _wrapped(f"- {limit}", indent="  ")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, LINE_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _s(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.2f} s"
