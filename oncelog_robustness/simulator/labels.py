"""Decisions of the machines, counted by their label: which branches runs reached, and which they never did."""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from oncelog import machine
from oncelog.runtime.driver import Driver
from oncelog_robustness.simulator import seams

_SERVICES: Final = Path(__file__).parents[2] / "services"
_MACHINE: Final = Path(machine.__file__)
"""The file of the class of decisions, and of the functions that make one of an answer."""

GUARDS: Final = frozenset(
    {"delivery_ignored", "resend_ignored", "stale_delivery_ignored", "stale_resend_ignored"}
)
"""Labels that no shell of ours causes: an outcome of a delivery, or a timer to repeat one,
whose decision is complete.

A machine has one delivery of a decision under way in its life, and one outcome of it is submitted. Only a refusal
sets the timer, and only the delivery that the timer asks for completes the decision. Machines are tested against such
events all the same. A run that reaches one of these labels shows that this is no longer so, and is broken.
"""


def count_labels(labels: dict[str, int], failures: list[str]) -> None:
    """Count each decision of each machine by the machine's kind and the label, over all processes, from now on."""
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
    """Return the labels that a machine of a role can decide with, guards aside, and that no run decided with."""
    reached = {key.rpartition(" ")[2] for labels in runs for key in labels}
    return sorted(known_labels() - GUARDS - reached)


@cache
def known_labels() -> frozenset[str]:
    """Return every text that code of a core passes as a label: to a decision, or to a function that makes one."""
    paths = (_MACHINE, *sorted(_SERVICES.glob("*/core/*.py")))
    trees = [ast.parse(path.read_text()) for path in paths]
    shared = {
        name: place
        for tree in trees
        for name, place in _places_of_labels(tree)
        if not name.startswith("_")
    }
    found: set[str] = set()
    for tree in trees:
        places = shared | dict(_places_of_labels(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found.update(_labels_in(node, places))
    return frozenset(found)


def _places_of_labels(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = _place_of_label(node)
            if place is not None:
                yield node.name, place


def _place_of_label(node: ast.FunctionDef | ast.ClassDef) -> int | None:
    """Return the place of the label among the function's arguments or the class's fields; None if it has none."""
    names: list[str] = []
    if isinstance(node, ast.FunctionDef):
        names = [one.arg for one in node.args.args if one.arg != "self"]
    else:
        names = [
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
    return names.index("label") if "label" in names else None


def _labels_in(call: ast.Call, places: Mapping[str, int]) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    given = [one.value for one in call.keywords if one.arg == "label"]
    if name in places and places[name] < len(call.args):
        given.append(call.args[places[name]])
    for argument in given:
        # Either of two in a conditional one; a text that is put together is not known before.
        if not isinstance(argument, ast.JoinedStr):
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                    yield part.value
