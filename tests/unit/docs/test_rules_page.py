"""docs/rules.md says what docs/rules.toml says, and each row of it names functions, tests and planted bugs that exist.

Files are read as trees and never imported. So this stays cheap, and a rule may name code of every process.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from scripts.rules_page import RULES, Place, Rule, RuleMap, page, rule_map
from tests.unit.docs.trees import named_in

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "rules.md"
FACTS = ROOT / "docs" / "kafka-facts.md"
PLANTED = ROOT / "oncelog_robustness" / "planted"
WORDS_MAX = 25
TESTS_MAX = 5
SECTION = re.compile(r"^#+ (\d+(?:\.\d+)?)[. ]", re.MULTILINE)


@cache
def tree_of(path):
    file = ROOT / path
    return ast.parse(file.read_text()) if file.is_file() else None


def bases_of(node, path):
    """The classes that a class inherits from, where its file imports them by name."""
    imports = [line for line in tree_of(path).body if isinstance(line, ast.ImportFrom)]
    for base in getattr(node, "bases", ()):
        name = getattr(base, "id", "")
        for line in imports:
            if name in [one.name for one in line.names]:
                of_base = tree_of(f"{line.module.replace('.', '/')}.py")
                yield named_in(of_base.body if of_base else (), name)


def definition_of(place):
    found = tree_of(place.path)
    for name in re.split(r"::|\.", place.name):
        owners = () if found is None else (found, *bases_of(found, place.path))
        inside = [named_in(getattr(one, "body", ()), name) for one in owners]
        found = next((one for one in inside if one is not None), None)
    return found


def is_function(place):
    return isinstance(definition_of(place), ast.FunctionDef | ast.AsyncFunctionDef)


def is_test(place):
    """A function that pytest collects, or a state machine of hypothesis: `TestX = X.TestCase`."""
    match definition_of(place):
        case ast.Assign(value=ast.Attribute(attr="TestCase")):
            return True
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return place.is_test and name.startswith("test_")
    return False


@cache
def planted_bugs():
    """The names in the registry of planted bugs: `Bug(name="…", …)`."""
    return frozenset(
        keyword.value.value
        for path in PLANTED.glob("*_bugs.py")
        for node in ast.walk(tree_of(path.relative_to(ROOT)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Bug"
        for keyword in node.keywords
        if keyword.arg == "name"
    )


@cache
def sections_of_the_facts():
    return frozenset(SECTION.findall(FACTS.read_text()))


def missing_sources(source):
    """Sections of the facts and ADRs that a rule cites and that there are not."""
    for cited in re.split(r"; ", source):
        bare = re.sub(r" \([^)]*\)", "", cited)
        if bare.startswith("facts "):
            wanted = re.findall(r"\d+(?:\.\d+)?", bare)
            yield from (f"facts {one}" for one in wanted if one not in sections_of_the_facts())
        elif bare.startswith("ADR "):
            if not any(ROOT.glob(f"docs/adr/{bare.removeprefix('ADR ')}-*.md")):
                yield bare
        elif bare.startswith("architecture/"):
            if not (ROOT / "docs" / f"{bare}.md").is_file():
                yield bare
        elif not re.fullmatch(r"(KIP|KAFKA)-\d+", bare):
            yield f"{bare!r} is no source"


def problems_of(rule, known_groups):
    if rule.group not in known_groups:
        yield f"[{rule.group}] is in no group"
    if len(rule.says.split()) > WORDS_MAX or not rule.says.endswith("."):
        yield f"says is one sentence of at most {WORDS_MAX} words"
    yield from missing_sources(rule.source)
    if not rule.decided_in:
        yield "is decided nowhere"
    yield from (f"no function {one.node_id}" for one in rule.decided_in if not is_function(one))
    if not 1 <= len(rule.tests) <= TESTS_MAX:
        yield f"has {len(rule.tests)} tests, and needs 1 to {TESTS_MAX}"
    yield from (f"no test {one.node_id}" for one in rule.tests if not is_test(one))
    yield from (f"no planted bug {one}" for one in rule.planted if one not in planted_bugs())


def problems(found):
    for name, count in Counter(rule.name for rule in found.rules).items():
        if count > 1 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name):
            yield f"{name}: an id is a few words with hyphens, and used once"
    for rule in found.rules:
        yield from (f"{rule.name}: {one}" for one in problems_of(rule, found.groups))
    broken = {bug for rule in found.rules for bug in rule.planted}
    for bug in sorted(planted_bugs() - broken - found.in_no_rule.keys()):
        yield f"{bug}: a planted bug in no rule of docs/rules.toml; say there which one it breaks"
    for bug, reason in found.in_no_rule.items():
        if bug not in planted_bugs() or bug in broken or not reason:
            yield f"{bug}: [in-no-rule] has planted bugs that are in no rule, each with a reason"


FOUND = rule_map(RULES.read_text())


def test_the_rules_page_is_made_from_the_rules():
    is_same = PAGE.read_text() == page(FOUND)
    assert is_same, "a rule has changed: run `make docs-rules` and commit docs/rules.md"


def test_rules_name_what_exists_and_every_planted_bug():
    assert len(FOUND.rules) >= 40
    assert list(problems(FOUND)) == []


def test_what_is_wrong_with_a_rule_is_found():
    """Each of these checks can fail."""
    here = "tests/unit/docs/test_rules_page.py"
    good = Rule(
        "markers",
        "late-marker",
        "A late marker ends nothing.",
        "facts 9 (5, 8) and 8.11; ADR 0018; KIP-98; architecture/storage",
        (Place("scripts/rules_page.py", "_rule"),),
        (Place(here, "test_what_is_wrong_with_a_rule_is_found"),),
        ("hw-without-followers",),
    )
    rest = dict.fromkeys(planted_bugs() - {"hw-without-followers"}, "for this test")

    def found_in(*rules, in_no_rule=rest):
        return list(problems(RuleMap({"markers": "Markers"}, rules, in_no_rule)))

    assert found_in(good) == []
    for field, value in (
        ("group", "nowhere"),
        ("name", "Late Marker"),
        ("says", "word " * WORDS_MAX + "end."),
        ("source", "facts 99"),
        ("source", "ADR 9999"),
        ("source", "hearsay"),
        ("decided_in", ()),
        ("decided_in", (Place("scripts/rules_page.py", "nothing"),)),
        ("decided_in", (Place("nowhere.py", "_rule"),)),
        ("tests", ()),
        ("tests", good.tests * (TESTS_MAX + 1)),
        ("tests", (Place(here, "test_nothing"),)),
        ("tests", (Place(here, "problems"),)),
        ("planted", ("no-such-bug", *good.planted)),
        ("planted", ()),
    ):
        assert len(found_in(good._replace(**{field: value}))) == 1, (field, value)
    assert len(found_in(good, good)) == 1
    assert len(found_in(good, in_no_rule={**rest, "no-such-bug": "why"})) == 1
    assert len(found_in(good, in_no_rule={**rest, good.planted[0]: "why"})) == 1
    assert len(found_in(good, in_no_rule={**rest, min(rest): ""})) == 1
