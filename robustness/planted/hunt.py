"""Does the simulator catch a planted bug? Runs seeds with it until a checker that is meant to notice says broken."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from robustness.planted.bug import Bug
from robustness.planted.importing import install

SCENARIOS: Final = Path(__file__).parent / "scenarios"
"""Short and wild, one a family of bugs; `robustness/scenarios` serves as well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one seed showed of a bug."""

    seed: int
    broken: dict[str, str]
    """Checker → its first proof."""
    failures: tuple[str, ...]
    """The last line of each kind of failure that is no verdict: something broke aloud or never ended."""

    def is_catch(self, bug: Bug) -> bool:
        return any(checker in self.broken for checker in bug.caught_by)


def findings(
    name: str, *, first_seed: int | None = None, seeds: int | None = None, jobs: int = 1
) -> Iterator[Finding]:
    """One a seed, in the order in which they come. Plants the bug in this process, for good."""
    bug = install(name)
    # Only now: what the bug changes must not be imported before it is planted.
    from robustness.checkers.verdict import Answer
    from robustness.scenario import load_scenario
    from robustness.simulator.forks import Job, run_all

    own = SCENARIOS / f"{bug.scenario}.toml"
    scenario = load_scenario(str(own) if own.is_file() else bug.scenario)
    first = bug.first_seed if first_seed is None else first_seed
    count = bug.seeds if seeds is None else seeds
    for result in run_all((Job(scenario, first + index) for index in range(count)), jobs):
        yield Finding(
            result.seed,
            {
                verdict.checker: verdict.proof[0] if verdict.proof else ""
                for verdict in result.verdicts
                if verdict.answer is Answer.BROKEN
            },
            tuple(dict.fromkeys(failure.strip().splitlines()[-1] for failure in result.failures)),
        )
