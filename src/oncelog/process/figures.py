"""What a role counts, for `/metrics` of its process: plain numbers, so that no role knows Prometheus."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One name with its samples; without labels there is one sample, under the empty tuple."""

    name: str
    text: str
    samples: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    is_counter: bool = False


def gauge(name: str, text: str, value: float) -> Figure:
    return Figure(name, text, {(): value})


def counter(name: str, text: str, value: float) -> Figure:
    return Figure(name, text, {(): value}, is_counter=True)


def counters_by(name: str, text: str, label: str, values: Mapping[str, float]) -> Figure:
    """One counter for each value of a label."""
    samples: dict[tuple[str, ...], float] = {(key,): values[key] for key in sorted(values)}
    return Figure(name, text, samples, (label,), is_counter=True)
