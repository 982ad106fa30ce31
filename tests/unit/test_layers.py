"""What import-linter has no contract for; the others are in pyproject.toml."""

import ast
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services"
CORES = sorted(SERVICES.glob("*/core"))


def imported(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or "."
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.parent.name)
def test_a_core_imports_nothing_of_its_shell(core):
    service = core.parent.name
    modules = sorted(core.rglob("*.py"))
    assert len(modules) > 1
    for module in modules:
        own = [name for name in imported(module) if name.split(".")[0] in (service, "", ".")]
        assert [name for name in own if not name.startswith(f"{service}.core")] == []


def test_every_service_with_decisions_has_a_core():
    assert [core.parent.name for core in CORES] == [
        "oncelog_controller",
        "oncelog_coordinator",
        "oncelog_gateway",
        "oncelog_listener",
        "oncelog_marker_sender",
        "oncelog_storage",
    ]


def test_no_modules_import_each_other_in_a_circle():
    """Also not for type checking alone: a reader of one of them has to read all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    known = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(known) > 500
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_what_several_trees_of_tests_share_stands_in_worlds():
    """A test of another tree, or a world, needs nothing of `tests/unit`: what they share is in `tests/worlds`."""
    modules = [one for one in (ROOT / "tests").rglob("*.py") if "unit" not in one.parts]
    assert len(modules) > 100
    assert {
        f"{module.relative_to(ROOT)}: {name}"
        for module in modules
        for name in imported(module)
        if name.split(".")[:2] == ["tests", "unit"]
    } == set()
