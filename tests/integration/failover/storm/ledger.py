"""What the applications of a storm have tried, and what they were told. All else the judge asks of the cluster."""

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Place(NamedTuple):
    topic: str
    partition: int


@dataclass(slots=True)
class Attempt:
    """One transaction: the same value once in each place. Until it is told otherwise its outcome is unknown."""

    worker: str
    number: int
    places: tuple[Place, ...]
    begun_at: float
    outcome: str = UNKNOWN
    ended_at: float = 0.0

    @property
    def value(self) -> bytes:
        return value_of(self.worker, self.number)

    def ends(self, outcome: str) -> None:
        self.outcome, self.ended_at = outcome, time.monotonic()


def value_of(worker: str, what: object) -> bytes:
    return f"<{worker}#{what}>".encode()


def parsed(value: bytes) -> tuple[str, str]:
    """Who wrote it, and which of its values it is."""
    worker, _, what = value.decode().strip("<>").partition("#")
    return worker, what


@dataclass
class Ledger:
    attempts: list[Attempt] = field(default_factory=list)
    complaints: Counter[str] = field(default_factory=Counter)
    """What the clients raised. Applications live with that; it is told, not judged."""
    transformed_at: dict[str, float] = field(default_factory=dict)
    _numbers: itertools.count = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begins(self, worker: str, places: tuple[Place, ...]) -> Attempt:
        with self._lock:
            attempt = Attempt(worker, next(self._numbers), places, time.monotonic())
            self.attempts.append(attempt)
            return attempt

    def complains(self, worker: str, error: BaseException) -> None:
        with self._lock:
            self.complaints[f"{worker}: {type(error).__name__} {str(error)[:160]}"] += 1

    def first_commit_begun_after(self, instant: float) -> Attempt | None:
        with self._lock:
            return min(
                (
                    one
                    for one in self.attempts
                    if one.begun_at >= instant and one.outcome == COMMITTED
                ),
                key=lambda one: one.ended_at,
                default=None,
            )

    def idle_s(self) -> dict[str, float]:
        """For how long each transformer has not committed."""
        now = time.monotonic()
        return {worker: round(now - at, 1) for worker, at in self.transformed_at.items()}

    def longest_pauses(self) -> dict[str, float]:
        """For each worker the longest time between two of its ends."""
        pauses: dict[str, float] = {}
        last: dict[str, float] = {}
        for one in self.attempts:
            if one.ended_at:
                pause = one.ended_at - last.get(one.worker, one.ended_at)
                pauses[one.worker] = max(pauses.get(one.worker, 0.0), pause)
                last[one.worker] = one.ended_at
        return {worker: round(pause, 1) for worker, pause in pauses.items()}
