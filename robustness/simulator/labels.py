"""Decisions of the machines, counted by their label: which branches runs reached, and which they never did."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from oncelog.runtime.driver import Driver
from robustness.simulator import seams

_LABEL: Final = re.compile(r'label="([a-z0-9_]+)"')
_SERVICES: Final = Path(__file__).parents[2] / "services"

GUARDS: Final = frozenset(
    {"delivery_ignored", "resend_ignored", "stale_delivery_ignored", "stale_resend_ignored"}
)
"""What no shell of ours brings about: an outcome of a delivery, or a timer to repeat one, whose decision is complete.

One delivery of a decision is under way in a life of its machine and one outcome of it is submitted; the timer is set by
a refusal alone, and nothing but the delivery that it asks for completes the decision. Machines are tested against such
events all the same. A run that reaches one of these shows that this is no longer so, and is broken.
"""


def count_labels(labels: dict[str, int], failures: list[str]) -> None:
    """Each decision of each machine by the machine's kind and its label, over all processes, from now on."""
    original = Driver.__init__

    def counting(
        self: Driver,
        name: str,
        machine: Any,
        *args: Any,
        on_label: Callable[[str], None] | None = None,
        **more: Any,
    ) -> None:
        kind = type(machine).__name__

        def count(label: str) -> None:
            key = f"{kind} {label}"
            labels[key] = labels.get(key, 0) + 1
            if label in GUARDS:
                failures.append(f"{name} decided {label}, which no shell should bring about")
            if on_label is not None:
                on_label(label)

        original(self, name, machine, *args, on_label=count, **more)

    seams.replace(Driver, "__init__", counting)


def never_reached(runs: Iterable[Mapping[str, int]]) -> list[str]:
    """Labels that a machine of a role can decide with, guards aside, and that no run decided with."""
    reached = {key.rpartition(" ")[2] for labels in runs for key in labels}
    return sorted(_known() - GUARDS - reached)


def _known() -> set[str]:
    return {
        label
        for path in _SERVICES.glob("*/core/*.py")
        for label in _LABEL.findall(path.read_text())
    }
