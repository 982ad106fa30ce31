"""The output that the simulator prints about its runs."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Column, Table

from oncelog.wording import counted
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.simulator.effects import never_injected
from oncelog_robustness.simulator.labels import never_reached
from oncelog_robustness.simulator.run import RunResult

_STYLES: Final = {Answer.OK: "green", Answer.BROKEN: "bold red", Answer.UNKNOWN: "yellow"}

_COUNTED: Final = {
    "storm": "storms",
    "fault": "faults",
    "hit": "faults by role",
    "effect": "what faults did",
    "work": "done by workload",
    "operation": "operations",
}
_OF_UPGRADES: Final = "older"
"""The first word of the counts that only runs with two versions have: how much the processes of the older one
sent, received and lost."""


def print_failure(result: RunResult, replay: str) -> None:
    """Print why a run is broken: the broken checkers with their first proofs, the first failures, and the
    command that replays it."""
    console = Console(highlight=False)
    console.print(f"[bold red]seed {result.seed} of {result.scenario} is broken[/bold red]")
    for verdict in result.verdicts:
        if verdict.answer is Answer.BROKEN:
            console.print(f"  {verdict.checker}:", style="red")
            for line in verdict.proof[:3]:
                console.print(f"    {line}", markup=False)
    for failure in result.failures[:2]:
        console.print(f"  {failure.rstrip()[-1500:]}", markup=False)
    _print_line(console, f"  replay: {replay}")


def print_unfinished(result: RunResult, replay: str) -> None:
    """Print that a run was killed by its time limit, and the command that replays it. Nobody knows what it
    would have shown."""
    console = Console(highlight=False)
    _print_line(console, f"[yellow]{_unfinished(result)}[/yellow]\n  replay: {replay}")


def _unfinished(result: RunResult) -> str:
    return f"seed {result.seed} of {result.scenario} is unfinished: {result.unfinished}"


def print_one(result: RunResult, replay: str) -> None:
    """Print the whole report of one run: failures, verdicts with all proofs, counts, and the command that
    replays it."""
    console = Console(highlight=False)
    if result.unfinished:
        print_unfinished(result, replay)
        return
    for failure in result.failures:
        console.print(failure, style="red", markup=False)
    if result.verdicts:
        console.print(_verdict_table([result]))
    for verdict in result.verdicts:
        if verdict.answer is Answer.BROKEN:
            console.print(f"{verdict.checker}:", style="red")
            for line in verdict.proof:
                console.print(f"  {line}", markup=False)
    _print_counts(console, [result])
    _print_line(
        console,
        f"seed {result.seed} of {result.scenario}, {result.simulated_s:.0f} simulated seconds in "
        f"{result.real_s:.1f} s, digest {result.digest}",
    )
    if not result.is_broken:
        _print_line(console, "[green]nothing is broken[/green]")
        return
    broken = [one.checker for one in result.verdicts if one.answer is Answer.BROKEN]
    if result.failures:
        broken.append(f"failures: {len(result.failures)}")
    _print_line(console, f"[bold red]broken[/bold red]: {', '.join(broken)}")
    _print_line(console, f"  replay: {replay}")


def print_summary(
    results: Sequence[RunResult], wall_s: float, replay_of: Callable[[RunResult], str]
) -> None:
    """Print a summary of many runs: verdicts, counts, broken and unfinished seeds. It names the decisions
    that no run reached, and the faults that none had."""
    console = Console(highlight=False)
    console.print(_verdict_table(results))
    _print_counts(console, results)
    simulated_s = sum(result.simulated_s for result in results)
    real_s = sum(result.real_s for result in results)
    never = never_reached(result.labels for result in results)
    console.print(f"decisions never reached: {', '.join(never) or 'none'}")
    unharmed = never_injected(result.counts for result in results)
    console.print(f"faults never injected: {', '.join(unharmed) or 'none'}")
    broken = [result for result in results if result.is_broken]
    unfinished = [result for result in results if result.unfinished]
    _print_line(
        console,
        f"{counted(len(results), 'seed')}, {simulated_s / 3600:.2f} simulated hours, "
        f"{simulated_s / max(wall_s, 1e-9):.0f} simulated seconds a second "
        f"({simulated_s / max(real_s, 1e-9):.0f} a run), {wall_s:.0f} s in all, {len(broken)} broken"
        + (f", {len(unfinished)} unfinished" if unfinished else ""),
    )
    for result in broken[:20]:
        _print_line(console, f"  replay: {replay_of(result)}")
    for result in unfinished[:20]:
        _print_line(console, f"  unfinished: {replay_of(result)}")


def _print_line(console: Console, line: str) -> None:
    """Print a line unbroken, however narrow the terminal, because somebody may copy or grep it."""
    console.print(line, soft_wrap=True)


def _verdict_table(results: Sequence[RunResult]) -> Table:
    table = Table(Column("anomaly", no_wrap=True), "answer", "judged", "first proof", title=None)
    merged: dict[str, list[Verdict]] = {}
    for result in results:
        for verdict in result.verdicts:
            merged.setdefault(verdict.checker, []).append(verdict)
    for checker, verdicts in merged.items():
        answers = Counter(verdict.answer for verdict in verdicts)
        worst = next(one for one in (Answer.BROKEN, Answer.OK, Answer.UNKNOWN) if answers[one])
        proof = next((one.proof[0] for one in verdicts if one.answer is worst and one.proof), "")
        shown = worst.value
        if len(verdicts) > 1:
            shown = ", ".join(f"{answers[one]} {one.value}" for one in Answer if answers[one])
        judged = sum(verdict.judged for verdict in verdicts)
        table.add_row(checker, f"[{_STYLES[worst]}]{shown}[/]", f"{judged:,}", proof[:100])
    return table


def _print_counts(console: Console, results: Sequence[RunResult]) -> None:
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    for kind, text in {**_COUNTED, _OF_UPGRADES: "of the older version"}.items():
        found = [
            f"{name.removeprefix(kind + ' ')} {count:,}"
            for name, count in sorted(counts.items())
            if name.startswith(kind + " ")
        ]
        if found or kind != _OF_UPGRADES:
            console.print(f"{text}: {', '.join(found) or 'none'}")
