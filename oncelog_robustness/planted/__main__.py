"""The command `python -m oncelog_robustness.planted`: the planted bugs, and whether the simulator catches them.

python -m oncelog_robustness.planted                  lists them
python -m oncelog_robustness.planted NAME             runs seeds from its recorded one until it is caught
python -m oncelog_robustness.planted NAME --every     goes on after that: how many of the budget's seeds catch it
python -m oncelog_robustness.planted --all            hunts each of them, and ends with a table
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.arguments import (
    EXIT_USED_WRONGLY,
    JOBS_MAX,
    SEED_MAX,
    SEEDS_MAX,
    Parser,
    whole_number,
)
from oncelog_robustness.ending import EXIT_INTERRUPTED, sigterm_as_ctrl_c
from oncelog_robustness.planted.catalog import BUGS
from oncelog_robustness.planted.hunt import Finding, Hunted, findings, hunted_all
from oncelog_robustness.planted.importing import CannotPlant, bug_named
from oncelog_robustness.planted.screen import print_bugs, print_hunts, showing_hunts, told

EXIT_NOT_CAUGHT: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 caught (or listed), 1 not caught within the budget, 2 used
    wrongly, 130 ended from outside."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.all:
        if options.bug is not None or options.every:
            parser.error("--all hunts every bug until its first catch: no NAME, no --every")
        return _hunt_all(options)
    if options.bug is None:
        for flag, given in (
            ("--every", options.every),
            ("--first-seed", options.first_seed is not None),
            ("--seeds", options.seeds is not None),
        ):
            if given:
                parser.error(f"{flag} is of a hunt: give the NAME of a bug, or --all")
        print_bugs(BUGS)
        print(
            f"{len(BUGS)} bugs. One of them: python -m oncelog_robustness.planted NAME; each of them: --all"
        )
        return 0
    try:
        return _hunt(options)
    except (OncelogError, CannotPlant) as error:
        print(f"oncelog_robustness.planted: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY


def _parser() -> Parser:
    parser = Parser(
        prog="python -m oncelog_robustness.planted",
        description="Planted bugs, and who catches them. Without a NAME: lists them.",
        epilog="Exit code 0: caught, or listed. 1: not caught within the budget. 2: used wrongly. "
        "130: ended by Ctrl-C or SIGTERM.",
    )
    parser.add_argument("bug", nargs="?", metavar="NAME", help="hunt this one until it is caught")
    parser.add_argument("--all", action="store_true", help="hunt each of them")
    parser.add_argument(
        "--first-seed",
        type=whole_number(0, SEED_MAX - SEEDS_MAX),
        metavar="N",
        help="default: the one that the catalog records",
    )
    parser.add_argument(
        "--seeds",
        type=whole_number(1, SEEDS_MAX),
        metavar="N",
        help="so many at most; default: the bug's budget",
    )
    parser.add_argument(
        "--jobs",
        type=whole_number(1, JOBS_MAX),
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at a time (default: one a processor)",
    )
    parser.add_argument("--every", action="store_true", help="go on after it was caught")
    return parser


def _hunt(options: argparse.Namespace) -> int:
    bug = bug_named(options.bug)
    caught: list[int] = []
    tried = unfinished = 0
    is_interrupted = True
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), sigterm_as_ctrl_c():
        for found in findings(
            bug.name, first_seed=options.first_seed, seeds=options.seeds, jobs=options.jobs
        ):
            tried += 1
            unfinished += bool(found.unfinished)
            checker = found.catcher(bug)
            if checker is not None:
                caught.append(found.seed)
            _show(found, is_catch=checker is not None)
            if checker is not None and not options.every:
                break
        is_interrupted = False
    print(told(bug.name, caught, tried, unfinished, time.monotonic() - began))
    return _exit_code(is_interrupted=is_interrupted, is_caught=bool(caught))


def _hunt_all(options: argparse.Namespace) -> int:
    names = [bug.name for bug in BUGS]
    ended: dict[str, Hunted] = {}
    is_interrupted = True
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), sigterm_as_ctrl_c():
        with showing_hunts(len(names)) as advance:
            for hunt in hunted_all(
                names, first_seed=options.first_seed, seeds=options.seeds, jobs=options.jobs
            ):
                ended[hunt.bug] = hunt
                advance(hunt)
        is_interrupted = False
    hunts = [ended[name] for name in names if name in ended]
    if hunts:
        print_hunts(hunts)
    caught = sum(hunt.seed is not None for hunt in hunts)
    tried = sum(hunt.tried for hunt in hunts)
    print(
        f"{caught} of {len(names)} planted bugs caught; {counted(tried, 'seed')}, {time.monotonic() - began:.0f} s"
    )
    left = [name for name in names if name not in ended]
    if left:
        print(f"not decided: {', '.join(left)}", flush=True)
    return _exit_code(is_interrupted=is_interrupted, is_caught=caught == len(names))


def _exit_code(*, is_interrupted: bool, is_caught: bool) -> int:
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 0 if is_caught else EXIT_NOT_CAUGHT


def _show(found: Finding, *, is_catch: bool) -> None:
    verdict = "caught" if is_catch else "not caught"
    if found.unfinished:
        verdict = f"unfinished, {found.unfinished}"
    print(f"seed {found.seed}: {verdict}", flush=True)
    for checker, proof in found.broken.items():
        print(f"  {checker}: {proof[:300]}")
    for failure in found.failures:
        print(f"  failure: {failure[:300]}")


if __name__ == "__main__":
    sys.exit(main())
