"""`docs/rules.md`, made from `docs/rules.toml`: `make docs-rules` writes it, a test holds the page and the code to it.

With the name of a rule it prints the rule's tests instead, as pytest takes them.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
RULES: Final = ROOT / "docs" / "rules.toml"
GROUPS: Final = "groups"
IN_NO_RULE: Final = "in-no-rule"
_PLANTED_PAGE: Final = "track-record/planted.md"
_HEAD: Final = """# Rules

This page is made from [rules.toml](rules.toml) by `make docs-rules`. Do not edit it by hand.

Each row is one rule of exactly-once or of replication: what it says, which functions decide it, and which tests guard
it. Break the rule in one of the functions, and a test of the row fails; the most direct one comes first. "facts 9" is
section 9 of [Kafka facts](kafka-facts.md). A [planted bug](track-record/planted.md) breaks the rule on purpose, and the
simulator must find it.

To see that tests guard a rule, break the rule in its function and run them:

```
.venv/bin/python -m pytest -q $(.venv/bin/python -m scripts.rules_page late-marker-dropped)
```

An empty cell means that no planted bug breaks the rule. A new rule is a table in `rules.toml`; `make docs-rules` then
writes this page. `tests/unit/docs/test_rules_page.py` fails if a row names what does not exist. It also fails if a
planted bug is neither in a row nor at the end of the page.
"""


class Place(NamedTuple):
    """A function or a test: the file that has it, below the root, and its name there, such as `Class::method`."""

    path: str
    name: str

    @property
    def node_id(self) -> str:
        return f"{self.path}::{self.name}"

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def shown(self) -> str:
        """The name as the page shows it: a function of a module has the module's name before it."""
        if self.is_test:
            return self.name
        name = self.name.replace("::", ".")
        return name if "." in name else f"{Path(self.path).stem}.{name}"


class Rule(NamedTuple):
    group: str
    """The key of the rule's group."""
    name: str
    """The stable id of the rule, such as `late-marker-dropped`."""
    says: str
    source: str
    decided_in: tuple[Place, ...]
    tests: tuple[Place, ...]
    planted: tuple[str, ...]


class RuleMap(NamedTuple):
    """All that `docs/rules.toml` says."""

    groups: Mapping[str, str]
    """The title of each group by its key, in the order of the page."""
    rules: tuple[Rule, ...]
    in_no_rule: Mapping[str, str]
    """Planted bugs that break none of these rules, each with the reason."""


def rule_map(text: str) -> RuleMap:
    """Return all that this text of `docs/rules.toml` says.

    Raises tomllib.TOMLDecodeError, and KeyError for a field that is missing.
    """
    tables = tomllib.loads(text)
    groups, in_no_rule = tables.pop(GROUPS), tables.pop(IN_NO_RULE)
    rules = (
        _rule(group, name, fields) for group, of in tables.items() for name, fields in of.items()
    )
    return RuleMap(groups, tuple(rules), in_no_rule)


def _rule(group: str, name: str, fields: dict[str, Any]) -> Rule:
    return Rule(
        group,
        name,
        fields["says"],
        fields["source"],
        tuple(map(_place, fields["decided_in"])),
        tuple(map(_place, fields["tests"])),
        tuple(fields.get("planted", ())),
    )


def _place(text: str) -> Place:
    path, _, name = text.partition("::")
    return Place(path, name)


def page(found: RuleMap) -> str:
    """The whole page."""
    sections = (_section(title, key, found.rules) for key, title in found.groups.items())
    return _HEAD + "".join(sections) + "".join(_rest(found.in_no_rule))


def _section(title: str, group: str, rules: tuple[Rule, ...]) -> str:
    lines = [
        f"\n## {title}\n\n",
        "| rule | what it says | source | decided in | tests | planted |\n",
        "| --- | --- | --- | --- | --- | --- |\n",
    ]
    for rule in rules:
        if rule.group == group:
            cells = (
                f"`{rule.name}`",
                rule.says,
                rule.source,
                ", ".join(map(_linked, rule.decided_in)),
                ", ".join(map(_linked, rule.tests)),
                ", ".join(f"[{bug}]({_PLANTED_PAGE})" for bug in rule.planted),
            )
            lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _linked(place: Place) -> str:
    return f"[`{place.shown}`](../{place.path})"


def _rest(in_no_rule: Mapping[str, str]) -> Iterator[str]:
    yield "\n## Planted bugs in no rule\n\n| planted bug | why |\n| --- | --- |\n"
    for bug, reason in in_no_rule.items():
        yield f"| [{bug}]({_PLANTED_PAGE}) | {reason} |\n"


def node_ids(found: RuleMap, name: str) -> str:
    """Return the tests of a rule as pytest takes them, one a line. Ends the program for a rule that there is not."""
    for rule in found.rules:
        if rule.name == name:
            return "".join(f"{test.node_id}\n" for test in rule.tests)
    sys.exit(f"there is no rule {name!r}; docs/rules.md lists them")


if __name__ == "__main__":
    read = rule_map(RULES.read_text())
    print(page(read) if len(sys.argv) == 1 else node_ids(read, sys.argv[1]), end="")
