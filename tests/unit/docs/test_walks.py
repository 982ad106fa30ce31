"""The walks of docs/architecture/README.md lead through functions that exist, each to the next.

A walk is one or more tables: step, file, function, what it does, leads on by. `file` is below the repository's root.
`function` is `function`, `Class.method`, `outer.inner` or an assignment of the module. "leads on by" is one of these:

- a name that this function uses, and that is the next step's name or is used by the next step;
- `step N:` and such a name that an earlier step uses: the walk goes on where it was;
- `Spark`: Spark calls the next step, a method of one of its writers;
- nothing, at the end of a table.
"""

import ast
import itertools
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.docs.trees import named_in

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "architecture" / "README.md"
SECTION = re.compile(r"^### (Walk .+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| (.+?) \| ?(.*?) ?\|$", re.MULTILINE)
LEAD = re.compile(r"(?:step (\d+): )?`(\w+)`")
BY_SPARK = "Spark"


class Step(NamedTuple):
    number: int
    file: str
    function: str
    leads_on: str
    ends_a_table: bool = False

    @property
    def place(self):
        return f"step {self.number}, {self.function} in {self.file}"

    @property
    def name(self):
        return self.function.rpartition(".")[2]


def walks_of(text):
    return {
        title: [
            Step(int(row[1]), row[2], row[3], row[5], not body.startswith("\n|", row.end()))
            for row in ROW.finditer(body)
        ]
        for title, body in SECTION.findall(text)
    }


@cache
def tree_of(file):
    return ast.parse((ROOT / file).read_text())


def definition_of(step):
    found = tree_of(step.file) if (ROOT / step.file).is_file() else None
    for name in step.function.split("."):
        found = None if found is None else named_in(found.body, name)
    return found


@cache
def uses_of(step):
    """Every name, attribute and string of the step's body."""
    found = set()
    for node in ast.walk(definition_of(step)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.Constant(value=str() as text):
                found.add(text)
    return found


def moved(steps):
    """Steps whose function is no longer where the walk says."""
    for step in steps:
        if not (ROOT / step.file).is_file():
            yield f"{step.place}: there is no such file"
        elif definition_of(step) is None:
            yield f"{step.place}: the file defines no such function, method or name"


def torn(steps):
    """Steps that do not lead to the next one."""
    for at, (step, following) in enumerate(itertools.pairwise(steps)):
        if step.ends_a_table and not step.leads_on:
            continue
        if step.leads_on == BY_SPARK:
            if not is_called_by_spark(following):
                yield f"{step.place}: Spark does not call {following.place}"
            continue
        lead = LEAD.fullmatch(step.leads_on)
        if lead is None:
            yield f"{step.place}: name what it uses to lead on to {following.place}"
            continue
        number, name = lead.groups()
        user = (
            step
            if number is None
            else next((s for s in steps[:at] if s.number == int(number)), None)
        )
        if user is None:
            yield f"{step.place}: step {number} is not an earlier step of this walk"
        elif name not in uses_of(user):
            yield f"{step.place}: {user.function} no longer uses {name}"
        elif name.strip("_") != following.name.strip("_") and name not in uses_of(following):
            yield f"{step.place}: {following.place} is neither called {name} nor uses it"


def is_called_by_spark(step):
    owner = named_in(tree_of(step.file).body, step.function.partition(".")[0])
    bases = getattr(owner, "bases", ())
    return any(isinstance(base, ast.Name) and base.id.startswith("DataSource") for base in bases)


WALKS = walks_of(PAGE.read_text())


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_is_where_it_says(title):
    problems = list(moved(WALKS[title]))
    assert not problems, f"correct {title!r} of {PAGE.relative_to(ROOT)}:\n" + "\n".join(problems)


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_leads_to_the_next(title):
    steps = WALKS[title]
    if list(moved(steps)):
        pytest.skip("a step has moved, and test_every_step_of_a_walk_is_where_it_says names it")
    problems = list(torn(steps))
    assert not problems, f"correct {title!r} of {PAGE.relative_to(ROOT)}:\n" + "\n".join(problems)


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_numbered_and_whole(title):
    steps = WALKS[title]
    body = dict(SECTION.findall(PAGE.read_text()))[title]
    rows = len(re.findall(r"^\| \d", body, re.MULTILINE))
    assert [step.number for step in steps] == list(range(1, rows + 1)), (
        "a row that is not read is not checked"
    )
    assert rows >= 10
    assert steps[-1].ends_a_table


def test_there_are_three_walks():
    assert [title[:6] for title in WALKS] == ["Walk A", "Walk B", "Walk C"]


def test_what_is_wrong_with_a_walk_is_found():
    """Each of these checks can fail."""
    here = "tests/unit/docs/test_walks.py"
    first = Step(1, here, "torn", "`is_called_by_spark`")
    last = Step(2, here, "is_called_by_spark", "")
    assert not [*moved([first, last]), *torn([first, last])]
    assert list(moved([last._replace(function="Step.nowhere")]))
    assert list(moved([last._replace(file="nowhere.py")]))
    for wrong in ("", "`moved`", "`is_file`", "Spark", "step 1: `is_called_by_spark`"):
        assert list(torn([first._replace(leads_on=wrong), last])), wrong
    assert not list(torn([first._replace(leads_on="", ends_a_table=True), last]))
