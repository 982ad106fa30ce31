"""The repository tests its own tidiness (STYLE: a function fits a screen, a module has a noun, limits are kept)."""

import ast
import re
from pathlib import Path

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
SERVICES = sorted(
    path.name for path in (ROOT / "services").iterdir() if (path / "wiring.py").exists()
)


def relative(path):
    return str(path.relative_to(ROOT))


def test_sources_are_found():
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", EVERYTHING, ids=relative)
def test_file_and_its_functions_fit(path):
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES_MAX
    assert path.stem not in JUNK_DRAWERS
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"
            if node.name.startswith("test_"):
                assert len(node.name) <= TEST_NAME_MAX, f"{node.name}: a test states its rule"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_module_says_what_it_is_for(path):
    text = path.read_text()
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module begins with its idea"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_open_ends(path):
    text = path.read_text()
    assert not re.search(r"\b(TODO|FIXME)\b(?!\(#\d+\))", text), (
        "a TODO names an issue or does not exist"
    )
    assert not re.search(r"except( Exception| BaseException)?:\s*\n\s*pass\b", text)


@pytest.mark.parametrize("path", PRODUCTION, ids=relative)
def test_what_is_shipped_is_there(path):
    """Only the simulated network may refuse: what it does not carry, no service asks of it."""
    assert "NotImplementedError" not in path.read_text()


@pytest.mark.parametrize("path", [path for path in SOURCES if "core" in path.parts], ids=relative)
def test_no_bare_epoch_in_a_core(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arg):
            assert node.arg not in ("epoch", "id"), f"line {node.lineno}: say whose epoch or id"


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_rooms(service):
    folder = ROOT / "services" / service
    readme = (folder / "README.md").read_text()
    for heading in ("Owns", "Speaks", "Persists", "Fails how", "Start reading at"):
        assert re.search(rf"^#+ {heading}", readme, re.MULTILINE), heading
    assert (folder / "settings.py").exists()
    assert (folder / "wiring.py").exists()


def test_tests_that_the_docs_cite_exist():
    paths = list((ROOT / "tests").rglob("*.py"))
    files = {path.stem for path in paths}
    everything = "".join(path.read_text() for path in paths)
    for page in (ROOT / "docs").rglob("*.md"):
        for name, is_file in re.findall(r"`(test_\w+)(\.py)?`", page.read_text()):
            found = name in files if is_file else f"def {name}(" in everything
            assert found, f"{relative(page)} cites {name}, which does not exist"


def called(node):
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {getattr(one, "attr", getattr(one, "id", "")) for one in calls}


def checks(node):
    said = any(isinstance(one, ast.Assert) for one in ast.walk(node))
    named = re.compile(r"(assert|check|expect|require)_|(raises|warns|fail)$")
    return said or any(named.match(name) for name in called(node))


def test_every_test_checks_something():
    """Itself, or through a function of the tests that does."""
    functions = [
        (path, node)
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    # Any process, server and lab has these: they say nothing of what a test wants to see.
    everywhere = {"start", "stop", "close", "run", "get", "main"}
    checking = {node.name for _, node in functions if checks(node)} - everywhere
    without = [
        f"{relative(path)}: {node.name}"
        for path, node in functions
        if node.name.startswith("test_") and not checks(node) and not called(node) & checking
    ]
    assert not without
