"""Does the simulator catch a planted bug? Runs seeds with it until a checker that is meant to notice says broken."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncelog_robustness.planted.bug import Bug
from oncelog_robustness.planted.importing import bug_named, install

SCENARIOS: Final = Path(__file__).parent / "scenarios"
"""Short and wild, one a family of bugs; `oncelog_robustness/scenarios` serves as well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one seed showed of a bug."""

    seed: int
    broken: dict[str, str]
    """Checker → its first proof."""
    failures: tuple[str, ...]
    """The last line of each kind of failure that is no verdict: something broke aloud or never ended."""
    unfinished: str = ""
    """The run was killed by its own clock, and says nothing."""

    def catcher(self, bug: Bug) -> str | None:
        """The first checker meant to notice that did."""
        return next((checker for checker in bug.caught_by if checker in self.broken), None)


@dataclass(frozen=True, slots=True)
class Hunted:
    """How the hunt for one bug ended."""

    bug: str
    tried: int
    """Seeds that were run, the one that caught it included."""
    seconds: float
    """By the clock of the wall, imports included."""
    seed: int | None
    """The one that caught it."""
    checker: str


def findings(
    name: str, *, first_seed: int | None = None, seeds: int | None = None, jobs: int = 1
) -> Iterator[Finding]:
    """One a seed, in the order in which they come. Plants the bug in this process, for good."""
    bug = install(name)
    # Only now: what the bug changes must not be imported before it is planted.
    from oncelog_robustness.checkers.verdict import Answer
    from oncelog_robustness.scenario import load_scenario
    from oncelog_robustness.simulator.command import RUN_TIMEOUT_S
    from oncelog_robustness.simulator.forks import Job, run_all

    own = SCENARIOS / f"{bug.scenario}.toml"
    scenario = load_scenario(str(own) if own.is_file() else bug.scenario)
    first = bug.first_seed if first_seed is None else first_seed
    count = bug.seeds if seeds is None else seeds
    tried = (Job(scenario, first + index) for index in range(count))
    for result in run_all(tried, jobs, RUN_TIMEOUT_S):
        yield Finding(
            result.seed,
            {
                verdict.checker: verdict.proof[0] if verdict.proof else ""
                for verdict in result.verdicts
                if verdict.answer is Answer.BROKEN
            },
            tuple(dict.fromkeys(failure.strip().splitlines()[-1] for failure in result.failures)),
            result.unfinished,
        )


def hunted(
    name: str, first_seed: int | None = None, seeds: int | None = None, jobs: int = 1
) -> Hunted:
    """Stops at the first catch. Plants the bug in this process, for good."""
    bug = bug_named(name)
    began = time.monotonic()
    tried = 0
    for found in findings(name, first_seed=first_seed, seeds=seeds, jobs=jobs):
        tried += 1
        checker = found.catcher(bug)
        if checker is not None:
            return Hunted(name, tried, time.monotonic() - began, found.seed, checker)
    return Hunted(name, tried, time.monotonic() - began, None, "")


def hunted_all(
    names: Sequence[str],
    *,
    first_seed: int | None = None,
    seeds: int | None = None,
    jobs: int = 1,
    on_end: Callable[[Hunted], None] = lambda _: None,
) -> list[Hunted]:
    """In the order of `names`. Each bug has a process of its own: planted code is not taken back."""
    with ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        hunts = {pool.submit(hunted, name, first_seed, seeds): name for name in names}
        ended: dict[str, Hunted] = {}
        for hunt in as_completed(hunts):
            ended[hunts[hunt]] = hunt.result()
            on_end(ended[hunts[hunt]])
    return [ended[name] for name in names]
