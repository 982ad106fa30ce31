"""The command line of the simulator. It imports production code late: a planted bug, which changes code while
it is imported, must be in place before."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog_robustness.arguments import (
    EXIT_USED_WRONGLY,
    JOBS_MAX,
    SEED_MAX,
    SEEDS_MAX,
    Parser,
    whole_number,
)
from oncelog_robustness.ending import EXIT_INTERRUPTED, sigterm_as_ctrl_c
from oncelog_robustness.planted.importing import CannotPlant, install

if TYPE_CHECKING:
    from oncelog_robustness.scenario import Scenario
    from oncelog_robustness.simulator.forks import Job
    from oncelog_robustness.simulator.run import RunResult

EXIT_BROKEN: Final = 1
EXIT_UNFINISHED: Final = 3
EXIT_NOBODY_READS: Final = 141
_SHOWN_FAILURES: Final = 5
RUN_TIMEOUT_S: Final = 240
"""The time limit of one run, in seconds of a processor.
A longer run loops, or its scenario is too much: nobody knows which."""
RUN_TIMEOUT_MAX_S: Final = 86_400


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 nothing found, 1 something broken, 2 used wrongly, 3
    nothing found, but a run did not finish. 130: stopped by Ctrl-C; 141: nobody reads the output any more."""
    options = _parser().parse_args(arguments)
    try:
        _must_be_of_one_run(options)
        if options.planted:
            install(options.planted)
        return _run(options)
    except (OncelogError, CannotPlant) as error:
        print(f"oncelog_robustness.simulator: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY
    except BrokenPipeError:
        # `| head -1` has what it wants. What Python still has to flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NOBODY_READS


def _must_be_of_one_run(options: argparse.Namespace) -> None:
    """Raise OncelogError for options that contradict each other, or by which several runs would write to one
    file. Each run would replace the file of the last, or their lines would be mixed."""
    if options.first_seed + options.seeds - 1 > SEED_MAX:
        raise OncelogError(
            f"--first-seed {options.first_seed} --seeds {options.seeds} goes beyond the last seed, {SEED_MAX}"
        )
    files = {"--trace": options.trace, "--history": options.history}
    given = [flag for flag, file in files.items() if file is not None]
    if options.seed is None:
        for flag in (*given, *(["--log"] if options.log else [])):
            raise OncelogError(
                f"{flag} is of one run: give its --seed N, which --seeds and --first-seed are not"
            )
    names = list(dict.fromkeys(options.scenario or ()))
    if given and len(names) > 1:
        raise OncelogError(
            f"{given[0]} is of one run, and --scenario {' --scenario '.join(names)} are {len(names)}: give one"
        )
    if len(given) > 1 and options.trace.absolute() == options.history.absolute():
        raise OncelogError(f"--trace and --history are both {options.trace}: give two files")


def _must_be_writable(file: Path | None) -> None:
    """Raise OncelogError if the file cannot be written, before the run instead of after it."""
    if file is None:
        return
    try:
        file.open("a").close()
    except OSError as error:
        raise OncelogError(f"cannot write {file}: {error.strerror}") from error


def _parser() -> Parser:
    parser = Parser(
        prog="python -m oncelog_robustness.simulator",
        description="The whole cluster in one process on virtual time, with faults drawn from a seed.",
        epilog="Exit code 0: nothing found. 1: something is broken. 2: used wrongly. "
        "3: nothing found, but a run did not finish. 130: stopped by Ctrl-C.",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0, SEED_MAX),
        metavar="N",
        help="this one seed, with its whole report",
    )
    parser.add_argument(
        "--seeds",
        type=whole_number(1, SEEDS_MAX),
        default=20,
        metavar="N",
        help="so many seeds (default: 20)",
    )
    parser.add_argument(
        "--first-seed",
        type=whole_number(0, SEED_MAX),
        default=1,
        metavar="N",
        help="where they begin (default: 1)",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        metavar="NAME|FILE",
        help="storm, asked/moves, or a .toml file; may be given again. Default: all of oncelog_robustness/scenarios in "
        "turn, so a seed has its own",
    )
    parser.add_argument(
        "--jobs",
        type=whole_number(1, JOBS_MAX),
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at a time (default: one a processor)",
    )
    parser.add_argument(
        "--run-timeout-s",
        type=whole_number(1, RUN_TIMEOUT_MAX_S),
        default=RUN_TIMEOUT_S,
        metavar="S",
        help=f"what a run may take of a processor; then it is unfinished (default: {RUN_TIMEOUT_S})",
    )
    parser.add_argument(
        "--log", action="store_true", help="on stderr, the log lines of every process, with --seed"
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="every event, with --seed")
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="what clients did, as JSON lines, with --seed"
    )
    parser.add_argument("--digests", action="store_true", help="print seed, scenario and digest")
    parser.add_argument(
        "--planted",
        metavar="BUG",
        help="with this bug planted in the code; python -m oncelog_robustness.planted lists them",
    )
    _add_older(parser)
    parser.add_argument(
        "--until-broken", action="store_true", help="stop at the first seed that finds something"
    )
    return parser


def _add_older(parser: Parser) -> None:
    """Add the options of scenarios with a rolling upgrade: which older version takes part, and what it
    lacks."""
    parser.add_argument(
        "--older",
        metavar="VERSION|FOLDER",
        help="the older version of a scenario with an upgrade: one that tests/golden keeps, last, this (today's), or a "
        "folder like theirs",
    )
    parser.add_argument(
        "--without",
        action="append",
        metavar="NAME",
        help="what that version has not: a message, a field (RequestOrigin.request), a method (Storage.Fetch), or a "
        "tagged field of a transaction's record (__transaction_state:100); may be given again",
    )


def _run(options: argparse.Namespace) -> int:
    from oncelog_robustness.simulator.forks import run_all
    from oncelog_robustness.simulator.report import (
        print_failure,
        print_one,
        print_summary,
        print_unfinished,
    )
    from oncelog_robustness.simulator.screen import showing_progress

    scenarios = _with_older(_scenarios(options.scenario), options.older, options.without)
    for file in (options.trace, options.history):
        _must_be_writable(file)
    replay_of = _replays(scenarios, options)
    jobs = list(_jobs(options, scenarios))
    results: list[RunResult] = []
    broken = 0
    is_interrupted = False
    began = time.monotonic()
    try:
        with (
            sigterm_as_ctrl_c(),
            showing_progress(len(jobs), is_wanted=not options.digests) as advance,
        ):
            at_a_time = 1 if options.seed is not None else options.jobs
            for result in run_all(jobs, at_a_time, options.run_timeout_s):
                results.append(result)
                advance(result)
                if options.digests:
                    print(f"{result.seed} {result.scenario} {result.digest}", flush=True)
                if result.unfinished and options.seed is None and not options.digests:
                    print_unfinished(result, replay_of(result))
                if result.is_broken:
                    broken += 1
                    if broken <= _SHOWN_FAILURES and options.seed is None:
                        print_failure(result, replay_of(result))
                    if options.until_broken:
                        break
    except KeyboardInterrupt:
        is_interrupted = True
    if options.seed is not None:
        for result in results:
            print_one(result, replay_of(result))
        if options.history is not None and results:
            options.history.write_text("\n".join(results[0].history_lines) + "\n")
    elif results and not options.digests:
        print_summary(results, time.monotonic() - began, replay_of)
    if is_interrupted:
        print(f"stopped after {len(results)} of {len(jobs)} runs", file=sys.stderr)
        return EXIT_INTERRUPTED
    if broken:
        return EXIT_BROKEN
    return EXIT_UNFINISHED if any(result.unfinished for result in results) else 0


def _jobs(options: argparse.Namespace, scenarios: "dict[str, Scenario]") -> "Iterator[Job]":
    from oncelog_robustness.simulator.forks import Job
    from oncelog_robustness.simulator.run import RunOptions

    def run_options(folder: Path) -> RunOptions:
        return RunOptions(
            folder,
            trace=None if options.trace is None else options.trace.open("w"),
            log_level=logging.INFO if options.log else None,
            keeps_history=options.history is not None,
        )

    if options.seed is not None and options.scenario is not None:
        for scenario in scenarios.values():
            yield Job(scenario, options.seed, run_options)
        return
    first, count = options.first_seed, options.seeds
    if options.seed is not None:
        first, count = options.seed, 1
    in_turn = list(scenarios.values())
    for seed in range(first, first + count):
        yield Job(in_turn[seed % len(in_turn)], seed, run_options)


def _scenarios(names: Sequence[str] | None) -> "dict[str, Scenario]":
    """Return the scenarios, each under the name or file by which the user selected it. Raises OncelogError
    for one that cannot be loaded, and for two with the same name."""
    from oncelog_robustness.scenario import FOLDER, load_scenario

    wanted = names or [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    scenarios = {name: load_scenario(name) for name in wanted}
    first: dict[str, str] = {}
    for name, scenario in scenarios.items():
        other = first.setdefault(scenario.name, name)
        if other != name:
            raise OncelogError(
                f"--scenario {other} and {name} both have the name '{scenario.name}', and what broke is told by name: "
                "change the name in one of the files, or give one of them"
            )
    return scenarios


def _with_older(
    scenarios: "dict[str, Scenario]", older: str | None, without: Sequence[str] | None
) -> "dict[str, Scenario]":
    """Return the scenarios with the options `--older` and `--without` put into the [upgrade] of each that has
    one. Raises OncelogError if there is no such version, or if no scenario has an upgrade."""
    from oncelog_robustness.simulator.kept_versions import older_contracts

    given = {"older": older, "without": None if without is None else tuple(without)}
    wanted = {name: value for name, value in given.items() if value is not None}
    found = {}
    for name, scenario in scenarios.items():
        upgrade = scenario.upgrade
        if upgrade is not None:
            upgrade = upgrade.model_copy(update=wanted)
            older_contracts(upgrade.older, upgrade.without)
        found[name] = scenario.model_copy(update={"upgrade": upgrade})
    if wanted and not any(scenario.upgrade for scenario in found.values()):
        raise OncelogError(
            f"--{next(iter(wanted))} is of a scenario with an [upgrade], which {', '.join(found)} has not: "
            "give --scenario upgrade"
        )
    return found


def _replays(
    scenarios: "dict[str, Scenario]", options: argparse.Namespace
) -> "Callable[[RunResult], str]":
    """Return a function that gives the command line which repeats a run. It names the scenario as the user
    selected it, by name or file."""
    names = {scenario.name: name for name, scenario in scenarios.items()}
    flags = [("--planted", options.planted), ("--older", options.older)]
    flags += [("--without", name) for name in options.without or ()]
    given = " ".join(f"{flag} {value}" for flag, value in flags if value)
    rest = f' ARGS="{given}"' if given else ""
    return lambda result: f"make sim SEED={result.seed} SCENARIO={names[result.scenario]}{rest}"
