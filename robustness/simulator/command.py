"""The command line of the simulator. Heavy imports wait: a planted bug must be in place before the code it breaks."""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from robustness.planted.importing import CannotPlant, install

if TYPE_CHECKING:
    from robustness.scenario import Scenario
    from robustness.simulator.forks import Job
    from robustness.simulator.run import RunResult

EXIT_BROKEN: Final = 1
EXIT_USED_WRONGLY: Final = 2
_SHOWN_FAILURES: Final = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 nothing found, 1 something broken, 2 used wrongly."""
    options = _parser().parse_args(arguments)
    try:
        if options.planted:
            install(options.planted)
        return _run(options)
    except (OncelogError, CannotPlant) as error:
        print(f"robustness.simulator: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m robustness.simulator",
        description="The whole cluster in one process on virtual time, with faults drawn from a seed.",
    )
    parser.add_argument("--seed", type=int, help="this one seed, with its whole report")
    parser.add_argument("--seeds", type=_positive, default=20, metavar="N", help="so many seeds")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N")
    parser.add_argument(
        "--scenario",
        action="append",
        metavar="NAME|FILE",
        help="may be given again; default: all of robustness/scenarios in turn",
    )
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="runs at a time"
    )
    parser.add_argument("--log", action="store_true", help="the log lines of every process")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="every event of one seed")
    parser.add_argument("--history", type=Path, metavar="FILE", help="what clients did, JSON lines")
    parser.add_argument("--digests", action="store_true", help="print seed, scenario and digest")
    parser.add_argument("--planted", metavar="BUG", help="with this bug planted in the code")
    parser.add_argument(
        "--until-broken", action="store_true", help="stop at the first seed that finds something"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    from robustness.simulator.forks import run_all
    from robustness.simulator.report import print_failure, print_one, print_summary
    from robustness.simulator.screen import showing_progress

    jobs = list(_jobs(options))
    results: list[RunResult] = []
    broken = 0
    began = time.monotonic()
    with showing_progress(len(jobs), is_wanted=not options.digests) as advance:
        for result in run_all(jobs, 1 if options.seed is not None else options.jobs):
            results.append(result)
            advance(result)
            if options.digests:
                print(f"{result.seed} {result.scenario} {result.digest}", flush=True)
            if not result.is_good:
                broken += 1
                if broken <= _SHOWN_FAILURES and options.seed is None:
                    print_failure(result)
                if options.until_broken:
                    break
    if options.seed is not None and results:
        print_one(results[0])
        if options.history is not None:
            options.history.write_text("\n".join(results[0].history_lines) + "\n")
    elif not options.digests:
        print_summary(results, time.monotonic() - began)
    return EXIT_BROKEN if broken else 0


def _jobs(options: argparse.Namespace) -> "Iterator[Job]":
    from robustness.simulator.forks import Job
    from robustness.simulator.run import RunOptions

    scenarios = _scenarios(options.scenario)

    def run_options(folder: Path) -> RunOptions:
        return RunOptions(
            folder,
            trace=None if options.trace is None else options.trace.open("w"),
            log_level=logging.INFO if options.log else None,
            keeps_history=options.history is not None,
        )

    if options.seed is not None:
        for scenario in scenarios[:1] if options.scenario is None else scenarios:
            yield Job(scenario, options.seed, run_options)
        return
    for index in range(options.seeds):
        seed = options.first_seed + index
        yield Job(scenarios[seed % len(scenarios)], seed, run_options)


def _scenarios(names: Sequence[str] | None) -> "list[Scenario]":
    from robustness.scenario import FOLDER, load_scenario

    if names:
        return [load_scenario(name) for name in names]
    return [load_scenario(path.stem) for path in sorted(FOLDER.glob("*.toml"))]


def totals(results: "Sequence[RunResult]") -> Counter[str]:
    """All counts of all runs."""
    found: Counter[str] = Counter()
    for result in results:
        found.update(result.counts)
    return found
