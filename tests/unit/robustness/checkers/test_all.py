"""All checkers together: each has a name of its own, a row in the README, and an answer to an empty history."""

import ast
from pathlib import Path

from oncelog_robustness.checkers.all import ALL, judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations

HERE = Path(__file__).parent
README = Path(__file__).parents[4] / "oncelog_robustness" / "checkers" / "README.md"


def test_an_empty_history_is_unknown_to_every_checker():
    verdicts = judge(History(), Observations())
    assert len(verdicts) == len(ALL)
    assert [one for one in verdicts if one.answer is not Answer.UNKNOWN] == []
    assert all(one.proof and one.judged == 0 for one in verdicts)


def test_each_has_a_name_of_its_own_and_a_row_in_the_readme():
    names = [one.checker for one in judge(History(), Observations())]
    assert len(names) == len(set(names))
    page = README.read_text().replace("`-tv2`", "`delayed-end-txn-tv2`")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_only_those_that_are_wanted_judge():
    def wanted(history: History, observations: Observations) -> Verdict:
        return Verdict("wanted", Answer.OK, judged=1)

    assert [one.checker for one in judge(History(), Observations(), [wanted])] == ["wanted"]


def refused_in(path: Path) -> set[tuple[str, str]]:
    """Module and function of each checker of which a test in this file wants to hear `broken`."""
    tree = ast.parse(path.read_text())
    package = "oncelog_robustness.checkers"
    names: dict[str, tuple[str, str]] = {}
    modules: dict[str, str] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith(package):
            for alias in one.names:
                bound = alias.asname or alias.name
                modules[bound] = f"{one.module}.{alias.name}"
                names[bound] = (one.module or "", alias.name)
    found: set[tuple[str, str]] = set()
    for test in ast.walk(tree):
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        inside = list(ast.walk(test))
        words = {one.id for one in inside if isinstance(one, ast.Name)}
        attributes = [one for one in inside if isinstance(one, ast.Attribute)]
        if not {"assert_broken", "BROKEN"} & (words | {one.attr for one in attributes}):
            continue
        found |= {names[word] for word in words if word in names}
        found |= {
            (modules[one.value.id], one.attr)
            for one in attributes
            if isinstance(one.value, ast.Name) and one.value.id in modules
        }
    return found


def test_each_has_a_history_that_it_must_refuse():
    """A checker that never said broken is none yet."""
    files = [*HERE.glob("test_*.py"), *(HERE.parent / "cluster").glob("test_*.py")]
    refused = set().union(*map(refused_in, files))
    wanted = {(one.__module__, one.__name__) for one in ALL}
    assert sorted(wanted - refused) == []
