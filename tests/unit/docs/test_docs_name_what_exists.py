"""What the pages tell a reader to open, to run or to type is there: links, paths, make targets, commands and flags."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
import typer

from oncelog_server.cli import root
from oncelog_server.cli.lazy import COMMANDS
from oncelog_server.cli.partitions import DEFAULT_COMMAND

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("services/*/README.md"),
        *ROOT.glob("oncelog_robustness/**/*.md"),
    ]
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
FOLDERS = (
    "src/",
    "services/",
    "oncelog_robustness/",
    "tests/",
    "proto/",
    "docs/",
    "bench/",
    "scripts/",
    "docker/",
)
NO_COMMANDS = {"is", "…"}
"""What `oncelog is ready` and `oncelog …` go on with."""


def relative(path):
    return str(path.relative_to(ROOT))


def code_of(text):
    """What is set as code: lines of blocks, and spans of prose."""
    for block in FENCE.findall(text):
        yield from (line.strip().removeprefix("$ ") for line in block.splitlines())
    yield from SPAN.findall(FENCE.sub("", text))


def words_of(line):
    """As a shell would see them; a line that is no shell's ends where it stops being one."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split("#")[0].split()


def anchors_of(text):
    """Of its headings, as they are made for links."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def missing_links(page, text):
    for target in LINK.findall(SPAN.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and anchor not in anchors_of(there.read_text())):
            yield target


def alternatives(path):
    """`a/{b,c}.py` is two paths."""
    parts = re.split(r"\{([^}]*)\}", path)
    choices = [one.split(",") if number % 2 else [one] for number, one in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def missing_paths(text):
    for span in SPAN.findall(FENCE.sub("", text)):
        if span.startswith(FOLDERS) and re.fullmatch(r"[\w./{},*-]+", span):
            for path in alternatives(span.rstrip("/")):
                if not any(ROOT.glob(path)):
                    yield path


def names_of_tests(folder):
    """Names of functions and of files, each as a page may name it."""
    for path in folder.rglob("*.py"):
        yield from (path.name, path.stem)
        yield from re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)


def missing_tests(text, known):
    for span in SPAN.findall(FENCE.sub("", text)):
        name = span.partition("[")[0].rpartition("::")[2].rpartition("/")[2]
        if re.fullmatch(r"test_\w+(\.py)?", name) and name not in known:
            yield name


def targets_of(makefile):
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def missing_targets(text, known):
    for line in code_of(text):
        words = words_of(line)
        if words[:1] == ["make"]:
            wanted = itertools.takewhile(
                lambda word: re.fullmatch(r"[a-z][a-z-]*", word), words[1:]
            )
            yield from (one for one in wanted if one not in known)


def wrong_commands(text):
    tree = typer.main.get_command(root)
    for line in code_of(text):
        words = words_of(line)
        if words[:1] != ["oncelog"] or not words[1:] or words[1] in NO_COMMANDS:
            continue
        if said := wrong_in(tree, words[1:]):
            yield f"{line}: {said}"


def wrong_in(tree, words):
    """What of it the command line does not know: a command, or a flag of it or of what stands before it."""
    command = tree
    takes_value = {"--help": False, "-h": False} | flags_of(tree)
    is_value = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif word.startswith("-"):
            if flag not in takes_value:
                return f"there is no {flag}"
            is_value = takes_value[flag] and not equals
        elif hasattr(command, "commands"):
            found = command.get_command(None, word) or command.commands.get(DEFAULT_COMMAND)
            if found is None:
                return f"there is no command {word}"
            command = found
            takes_value |= flags_of(command)
    return ""


def flags_of(command):
    """Each with whether a value comes behind it."""
    return {
        flag: not getattr(one, "is_flag", False)
        for one in command.params
        for flag in (*one.opts, *one.secondary_opts)
        if flag.startswith("-")
    }


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    assert list(missing_links(page, page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_paths_that_a_page_names_exist(page):
    assert list(missing_paths(page.read_text())) == []


def test_tests_that_a_page_names_exist():
    known = set(names_of_tests(ROOT / "tests"))
    missing = {relative(page): list(missing_tests(page.read_text(), known)) for page in PAGES}
    assert {page: names for page, names in missing.items() if names} == {}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_make_targets_that_a_page_names_exist(page):
    known = targets_of((ROOT / "Makefile").read_text())
    assert list(missing_targets(page.read_text(), known)) == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_that_a_page_names_exist_with_these_flags(page):
    assert list(wrong_commands(page.read_text())) == []


def test_what_is_wrong_is_found():
    """Each of these checks can fail."""
    page = ROOT / "docs" / "operations.md"
    assert list(
        missing_links(page, "[a](nowhere.md) [b](adr/README.md) [c](#no-such-heading)")
    ) == [
        "nowhere.md",
        "#no-such-heading",
    ]
    assert list(missing_paths("`services/oncelog_{storage,nowhere}/` `src/x y`")) == [
        "services/oncelog_nowhere"
    ]
    assert list(
        missing_targets("`make check sing`\n```\n$ make dance  # now\n```\n", {"check"})
    ) == [
        "dance",
        "sing",
    ]
    assert list(
        missing_tests("`tests/x/test_a.py::test_b` `test_c.py` `test_d`", {"test_b", "test_c.py"})
    ) == ["test_d"]
    said = list(
        wrong_commands(
            "`oncelog sing` `oncelog topics lst` `oncelog consume x --sing` `oncelog partitions x` "
            "`oncelog --output json topics list --internal`"
        )
    )
    assert [one.rpartition("no ")[2] for one in said] == ["command sing", "command lst", "--sing"]


def test_there_are_pages_and_they_name_commands():
    lines = [line for page in PAGES for line in code_of(page.read_text())]
    named = {words[1] for words in map(words_of, lines) if words[:1] == ["oncelog"] and words[1:]}
    assert len(named & set(COMMANDS)) >= 8
