"""The runner of workloads, one after the other: it shows progress, and goes on after one that fails."""

import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, NamedTuple

from rich.console import Console

from bench.results import Failure, Measurement

LIMIT_S: Final = 600.0
LIMIT_FACTOR: Final = 4.0
QUICK_SHARE: Final = 0.3
"""The length of a quick run as a rough share of a whole one."""

ShowStep = Callable[[str], None]


class Workload(NamedTuple):
    """A workload: `run` makes rows, one after the other; those before a failure are kept."""

    run: Callable[[bool, ShowStep], Iterable[Measurement]]
    expected_s: float
    """The expected length on two slow cores, in seconds; the length of the first workloads
    corrects that of the rest."""


@dataclass(slots=True)
class Outcome:
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return 0, or 1 when a bar was missed or a workload failed."""
        has_missed = any(one.meets_bar is False for one in self.measurements)
        return 1 if has_missed or self.failures else 0


def seconds_left(expected_s: Sequence[float], taken_s: Sequence[float], current_s: float) -> float:
    """Return the seconds that all workloads still take.
    Those of `taken_s` are done; the next has run for `current_s`."""
    done = len(taken_s)
    pace = sum(taken_s) / sum(expected_s[:done]) if done else 1.0
    current, *later = (one * pace for one in expected_s[done:])
    return max(0.0, current - current_s) + sum(later)


def time_text(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def run_all(workloads: Mapping[str, Workload], console: Console, *, is_quick: bool) -> Outcome:
    """Run all workloads and return all their rows, and for each that failed the reason."""
    outcome = Outcome()
    scale = QUICK_SHARE if is_quick else 1.0
    expected_s = [one.expected_s * scale for one in workloads.values()]
    taken_s: list[float] = []
    for number, (name, workload) in enumerate(workloads.items(), 1):
        began = time.monotonic()

        def left(began: float = began) -> str:
            seconds = seconds_left(expected_s, taken_s, time.monotonic() - began)
            return f"about {time_text(seconds)} left"

        head = f"{number} of {len(workloads)}, {name}"
        console.print(f"{head} ({left()})")
        with console.status(head) as status:

            def show_step(text: str, head: str = head, left: Callable[[], str] = left) -> None:
                status.update(f"{head}: {text} ({left()})")

            try:
                with _limit(max(LIMIT_S, LIMIT_FACTOR * workload.expected_s)):
                    for one in workload.run(is_quick, show_step):
                        outcome.measurements.append(one)
            except Exception as error:
                traceback.print_exc()
                outcome.failures.append(Failure.of(name, error))
        taken_s.append(time.monotonic() - began)
        is_failed = any(one.workload == name for one in outcome.failures)
        console.print(f"  {'[red]failed[/red]' if is_failed else 'done'} in {taken_s[-1]:.0f} s")
    return outcome


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after this time, because a workload that hangs must not stop the others."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it was not done after {time_text(seconds)}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
