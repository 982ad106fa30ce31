"""The hunt for a planted bug: the simulator runs seeds with it until a checker that is meant to notice it
answers broken."""

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

from oncelog_robustness.ending import ENDS, no_interrupt
from oncelog_robustness.planted.bug import Bug
from oncelog_robustness.planted.importing import bug_named, install

SCENARIOS: Final = Path(__file__).parent / "scenarios"
"""The folder of the bugs' scenarios, each short and wild for one family of bugs;
`oncelog_robustness/scenarios` serves as well."""
_END_S: Final = 10
"""Seconds that a hunt which must end gets to kill its runs and remove their folders."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one simulated run with a planted bug: which checkers answered broken, and what else
    failed."""

    seed: int
    broken: dict[str, str]
    """The first proof of each checker that answered broken."""
    failures: tuple[str, ...]
    """The last line of each kind of failure that is no verdict, such as an exception, or a run that never ended."""
    unfinished: str = ""
    """The reason why the run was killed by its time limit and shows nothing; empty if it finished."""

    def catcher(self, bug: Bug) -> str | None:
        """Return the first of the bug's checkers that answered broken, and so caught the bug; None if none
        did."""
        return next((checker for checker in bug.caught_by if checker in self.broken), None)


@dataclass(frozen=True, slots=True)
class Hunted:
    """The result of the hunt for one bug: the seed and the checker that caught it, if any did."""

    bug: str
    tried: int
    """The number of seeds that were run, including the one that caught the bug."""
    seconds: float
    """The length of the hunt in seconds of wall time, imports included."""
    seed: int | None
    """The seed that caught the bug; None if none did."""
    checker: str
    unfinished: int = 0
    """The number of seeds whose run was killed by its time limit and shows nothing."""
    failure: str = ""
    """The reason why the hunt itself failed and shows nothing; empty if it did not."""


def findings(
    name: str, *, first_seed: int | None = None, seeds: int | None = None, jobs: int = 1
) -> Iterator[Finding]:
    """Plant the bug in this process, for good, run seeds with it, `jobs` at a time, and yield the finding of each as it
    comes. None for `first_seed` or `seeds` means the bug's own."""
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
    """Plant the bug in this process, for good, and run seeds, `jobs` at a time, until one of its checkers catches it.
    Return how that went."""
    bug = bug_named(name)
    began = time.monotonic()
    tried = unfinished = 0
    for found in findings(name, first_seed=first_seed, seeds=seeds, jobs=jobs):
        tried += 1
        unfinished += bool(found.unfinished)
        checker = found.catcher(bug)
        if checker is not None:
            return Hunted(name, tried, time.monotonic() - began, found.seed, checker, unfinished)
    return Hunted(name, tried, time.monotonic() - began, None, "", unfinished)


@dataclass(frozen=True, slots=True)
class _Hunter:
    name: str
    process: SpawnProcess
    began: float


def hunted_all(
    names: Sequence[str],
    *,
    first_seed: int | None = None,
    seeds: int | None = None,
    jobs: int = 1,
) -> Iterator[Hunted]:
    """Hunt each of these bugs in a process of its own, since a planted bug stays, `jobs` at a time. Yield the
    results as the hunts end."""
    waiting = iter(names)
    hunters: dict[Connection, _Hunter] = {}
    try:
        while True:
            for name in itertools.islice(waiting, jobs - len(hunters)):
                with no_interrupt():
                    answer, hunter = _hunter(name, first_seed, seeds)
                    hunters[answer] = hunter
            if not hunters:
                return
            for one in multiprocessing.connection.wait(list(hunters)):
                assert isinstance(one, Connection)
                yield _answered(one, hunters.pop(one))
    finally:
        for hunter in hunters.values():
            hunter.process.terminate()
        for hunter in hunters.values():
            hunter.process.join(_END_S)
            hunter.process.kill()


def _hunter(name: str, first_seed: int | None, seeds: int | None) -> tuple[Connection, _Hunter]:
    context = multiprocessing.get_context("spawn")
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=_hunt_into, args=(writing, name, first_seed, seeds))
    process.start()
    writing.close()
    return reading, _Hunter(name, process, time.monotonic())


def _hunt_into(answer: Connection, name: str, first_seed: int | None, seeds: int | None) -> None:
    # A terminal's Ctrl-C reaches every process. The one that prints ends the hunts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        # These signals were held back since before the start.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        answer.send(hunted(name, first_seed, seeds))


def _answered(answer: Connection, hunter: _Hunter) -> Hunted:
    with answer:
        try:
            found = answer.recv()
        except EOFError:
            found = None
    hunter.process.join()
    if isinstance(found, Hunted):
        return found
    failure = f"its process ended with {hunter.process.exitcode} and no result"
    return Hunted(hunter.name, 0, time.monotonic() - hunter.began, None, "", failure=failure)
