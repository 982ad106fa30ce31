"""`python -m robustness.planted`: the planted bugs, and whether the simulator catches one of them.

python -m robustness.planted                       lists them
python -m robustness.planted NAME                  runs seeds from its recorded one until it is caught
python -m robustness.planted NAME --every --seeds 40 --first-seed 1    runs them all
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from robustness.planted.catalog import BUGS
from robustness.planted.hunt import Finding, findings
from robustness.planted.importing import CannotPlant, bug_named

EXIT_NOT_CAUGHT: Final = 1
EXIT_USED_WRONGLY: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 caught (or listed), 1 not caught within the budget, 2 used wrongly."""
    options = _parser().parse_args(arguments)
    if options.bug is None:
        for bug in BUGS:
            print(f"{bug.name:<46} {bug.scenario:<12} {', '.join(bug.caught_by)}")
        return 0
    try:
        return _hunt(options)
    except CannotPlant as error:
        print(f"robustness.planted: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m robustness.planted", description="Planted bugs, and who catches them."
    )
    parser.add_argument("bug", nargs="?")
    parser.add_argument("--first-seed", type=int, help="default: the one that the catalog records")
    parser.add_argument("--seeds", type=int, help="default: the bug's budget")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--every", action="store_true", help="go on after it was caught")
    return parser


def _hunt(options: argparse.Namespace) -> int:
    bug = bug_named(options.bug)
    caught: list[str] = []
    for found in findings(
        bug.name, first_seed=options.first_seed, seeds=options.seeds, jobs=options.jobs
    ):
        is_catch = found.is_catch(bug)
        if is_catch:
            caught.append(str(found.seed))
        _show(found, is_catch=is_catch)
        if is_catch and not options.every:
            break
    verdict = f"caught by seed {', '.join(caught)}" if caught else "not caught"
    print(f"{bug.name}: {verdict}")
    return 0 if caught else EXIT_NOT_CAUGHT


def _show(found: Finding, *, is_catch: bool) -> None:
    print(f"seed {found.seed}: {'caught' if is_catch else 'not caught'}", flush=True)
    for checker, proof in found.broken.items():
        print(f"  {checker}: {proof[:300]}")
    for failure in found.failures:
        print(f"  failure: {failure[:300]}")


if __name__ == "__main__":
    sys.exit(main())
