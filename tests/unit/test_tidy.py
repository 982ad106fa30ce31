"""The repository tests its own tidiness (docs/style.md, "Shape" and "Names")."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "src" / "oncelog" / "api"


def python_files(*folders):
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if GENERATED not in path.parents)


PRODUCTION = python_files("src", "services")
SOURCES = PRODUCTION + python_files("oncelog_robustness")
EVERYTHING = SOURCES + python_files("tests", "bench", "scripts")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
TEST_NAME_MAX = 60
JUNK_DRAWERS = {"utils", "util", "common", "helpers", "helper", "shared", "misc", "base"}
WRITTEN_FOLDERS = "src services oncelog_robustness tests bench scripts proto docs deploy docker"
WRITTEN = re.compile(r"\.(pyi?|md|proto|toml|ya?ml|html|js|css|java|sh|tpl|example)$")
SERVICES = sorted(
    path.name for path in (ROOT / "services").iterdir() if (path / "wiring.py").exists()
)


def relative(path):
    return str(path.relative_to(ROOT))


class Function(NamedTuple):
    name: str
    lines: int
    calls: frozenset
    checks: bool


class Module(NamedTuple):
    docstring: str | None
    functions: tuple
    bare: tuple
    """Arguments that say not whose epoch or id they are."""


@cache
def module(path):
    """Of a file. Its tree is not kept: a million nodes make every test slow."""
    tree = ast.parse(path.read_text())
    functions, bare = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            calls = called(node) if "tests" in path.parts else frozenset()
            functions.append(Function(node.name, lines, calls, checks(node, calls)))
        elif isinstance(node, ast.arg) and node.arg in ("epoch", "id"):
            bare.append(f"{relative(path)}:{node.lineno}")
    return Module(ast.get_docstring(tree), tuple(functions), tuple(bare))


def called(node):
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return frozenset(getattr(one, "attr", getattr(one, "id", "")) for one in calls)


def checks(node, calls):
    said = any(isinstance(one, ast.Assert) for one in ast.walk(node))
    named = re.compile(r"(assert|check|expect|require)_|(raises|warns|fail)$")
    return said or any(named.match(name) for name in calls)


def test_sources_are_found():
    assert len(SOURCES) > 50


def test_files_and_their_functions_fit():
    faults = []
    for path in EVERYTHING:
        if path.stem in JUNK_DRAWERS:
            faults.append(f"{relative(path)}: a module is named for what it knows")
        if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX:
            faults.append(f"{relative(path)} has {lines} lines")
        for one in module(path).functions:
            where = f"{relative(path)}: {one.name}"
            if one.lines > FUNCTION_LINES_MAX:
                faults.append(f"{where} has {one.lines} lines")
            if one.name.startswith("test_") and len(one.name) > TEST_NAME_MAX:
                faults.append(f"{where}: a test states its rule")
    assert not faults


def test_modules_say_what_they_are_for():
    """A module begins with its idea."""
    written = [path for path in SOURCES if path.read_text().strip()]
    assert not [relative(path) for path in written if not module(path).docstring]


def having(paths, pattern):
    return [relative(path) for path in paths if re.search(pattern, path.read_text())]


def test_no_open_ends():
    """A TODO names an issue or does not exist."""
    assert not having(SOURCES, r"\b(TODO|FIXME)\b(?!\(#\d+\))")
    assert not having(SOURCES, r"except( Exception| BaseException)?:\s*\n\s*pass\b")


def test_each_sentence_names_its_actor():
    """The ADRs are history and stay as they were."""
    found = [path for folder in WRITTEN_FOLDERS.split() for path in (ROOT / folder).rglob("*")]
    written = [path for path in found if WRITTEN.search(path.name) and "adr" not in path.parts]
    assert len(written) > 1_000
    nameless = r"(?i)\bwho" + r"ever\b"
    assert not having([*ROOT.glob("*.md"), *written], nameless)


def test_what_is_shipped_is_there():
    """Only the simulated network may refuse: what it does not carry, no service asks of it."""
    assert not having(PRODUCTION, "NotImplementedError")


def test_no_bare_epoch_in_a_core():
    """Say whose epoch or id."""
    cores = [path for path in SOURCES if "core" in path.parts]
    assert not [where for path in cores for where in module(path).bare]


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_rooms(service):
    folder = ROOT / "services" / service
    readme = (folder / "README.md").read_text()
    for heading in ("Owns", "Speaks", "Persists", "Fails how", "Start reading at"):
        assert re.search(rf"^#+ {heading}", readme, re.MULTILINE), heading
    assert (folder / "settings.py").exists()
    assert (folder / "wiring.py").exists()


def test_every_test_checks_something():
    """Itself, or through a function of the tests that does."""
    found = [(path, one) for path in python_files("tests") for one in module(path).functions]
    # Any process, server and lab has these: they say nothing of what a test wants to see.
    everywhere = {"start", "stop", "close", "run", "get", "main"}
    checking = {one.name for _, one in found if one.checks} - everywhere
    assert not [
        f"{relative(path)}: {one.name}"
        for path, one in found
        if one.name.startswith("test_") and not one.checks and not one.calls & checking
    ]
