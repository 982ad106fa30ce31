"""Counts which branches of the cluster's state machines runs reached, and which they never did. Each decision
of a machine (its answer to one event) has a label, such as `fenced`, that names its branch."""

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
"""The file of the class of decisions, and of the functions that make a decision of an answer."""

GUARDS: Final = frozenset(
    {"delivery_ignored", "resend_ignored", "stale_delivery_ignored", "stale_resend_ignored"}
)
"""Labels that no code around the machines causes. They answer the result of sending markers (a delivery), or a timer to
send them again, for a transaction that is complete already.

A machine has one delivery of the same markers under way, and receives one result of it. Only a failed delivery sets the
timer, and only the delivery that the timer asks for completes the transaction. Machines are tested against such events
all the same. A run that reaches one of these labels shows that this is no longer so, and is broken.
"""


def count_labels(labels: dict[str, int], failures: list[str]) -> None:
    """Count in `labels`, from now on, each decision of each state machine in all processes, by the machine's
    class and the label. Append a failure if a label of `GUARDS` is reached."""
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
    """Return the labels that occur in the code of the state machines and that no run reached; those in
    `GUARDS` are left out. `runs` has the counted labels of each run."""
    reached = {key.rpartition(" ")[2] for labels in runs for key in labels}
    return sorted(known_labels() - GUARDS - reached)


@cache
def known_labels() -> frozenset[str]:
    """Return every label in the code of the state machines: each text that is passed as a label to a
    decision, or to a function that makes a decision."""
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
    """Return the position of the argument or field `label` in the function's arguments or the class's fields;
    None if it has none."""
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
