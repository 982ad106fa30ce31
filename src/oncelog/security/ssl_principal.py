"""The principal of a client certificate: its subject, mapped by `ssl.principal.mapping.rules` (KIP-371).

```
RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT
```

The first rule whose pattern matches the whole subject gives the name. `L` and `U` change its case. `DEFAULT` is the
subject itself. A rule is split and applied as Kafka does it; patterns are Python's regular expressions with ASCII
classes, which read Java's except `(?<name>…)`, `\\p{…}` and classes within classes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncelog.security.distinguished_name import subject_of
from oncelog.security.pki import CLUSTER_NAME
from oncelog.security.principal import ANONYMOUS, Principal

DEFAULT_RULES = "DEFAULT"

_DEFAULT = re.compile(r"DEFAULT(?=\s*(?:,|$))")
_UNESCAPED = r"(?:\\.|[^\\/])*"
_RULE = re.compile(rf"RULE:(?P<pattern>{_UNESCAPED})/(?P<replacement>{_UNESCAPED})/(?P<case>[LU]?)")
_END = re.compile(r"\s*(?:,\s*|$)")
_TO_THE_END = re.compile(r".*?(?=\s*(?:,|$))")
_PIECE = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9]+)|(?P<stray>[\\$])|[^\\$]+", re.DOTALL)


class NoMatchingRuleError(Exception):
    """No rule maps the subject of a client's certificate to a name, so the client is refused."""


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str
    """The change of case: `L`, `U` or empty."""

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        # Kafka replaces every match within the subject, so a pattern that also matches nothing does so twice.
        name = self.pattern.sub(lambda match: "".join(self._pieces(match)), subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _pieces(self, match: re.Match[str]) -> Iterator[str]:
        for piece in _PIECE.finditer(self.replacement):
            if piece["group"] is not None:
                yield self._group(match, piece["group"])
            else:
                yield piece[0] if piece["literal"] is None else piece["literal"]

    def _group(self, match: re.Match[str], digits: str) -> str:
        """Return the text for a reference `$12` in a rule: group 12 if there are so many, else group 1 and a 2.

        A number above the groups, such as `$4` of three, stays as it is.
        """
        used = 1
        while used < len(digits) and int(digits[: used + 1]) <= self.pattern.groups:
            used += 1
        group = int(digits[:used])
        if group > self.pattern.groups:
            return f"${digits}"
        return (match[group] or "") + digits[used:]

    def __str__(self) -> str:
        return (
            f"RULE:{self.pattern.pattern}/{self.replacement}{'/' if self.case else ''}{self.case}"
        )


def refuse_process(certificate: Mapping[str, object] | None) -> None:
    """Raise ValueError if this certificate belongs to a process of the cluster, and so not to a client. Both kinds may
    be of one CA. `certificate`: as `getpeercert()` returns it."""
    names = (certificate or {}).get("subjectAltName", ())
    assert isinstance(names, tuple), names
    for kind, name in names:
        if kind == "DNS" and (name == CLUSTER_NAME or name.endswith(f".{CLUSTER_NAME}")):
            raise ValueError(
                f"it names {name}: it is a process's and no client's; make one with `oncelog pki FOLDER --user NAME`"
            )


class PrincipalRules:
    """The rules that map certificate subjects to principals on a listener. Raises ValueError with Kafka's words where a
    rule is malformed."""

    def __init__(self, text: str = DEFAULT_RULES) -> None:
        self._rules = list(_parse(text.strip()))

    def name_of(self, subject: str) -> str:
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRuleError(f"No rules apply to {subject!r}, rules {self}")

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's certificate in DER. Without one the client is anonymous."""
        if certificate is None:
            return ANONYMOUS
        return Principal.user(self.name_of(subject_of(certificate)))

    def __str__(self) -> str:
        return f"[{', '.join('DEFAULT' if rule is None else str(rule) for rule in self._rules)}]"


def _parse(text: str) -> Iterator[Rule | None]:
    """Read the text of a setting, and yield its rules in order; None is DEFAULT. Raises ValueError with Kafka's
    words."""
    at = 0
    while at < len(text):
        if separator := re.compile(r"[\s,]+").match(text, at):
            at = separator.end()
            continue
        found = _DEFAULT.match(text, at) or _RULE.match(text, at)
        if found is None or not _END.match(text, found.end()):
            whole = _TO_THE_END.match(text, found.end() if found else at)
            rule = text[at : whole.end() if whole else len(text)]
            unmatched = rule[found.end() - at :] if found else rule
            raise ValueError(f"Invalid rule: `{rule}`, unmatched substring: `{unmatched}`")
        yield _compiled(found) if found.re is _RULE else None
        at = found.end()


def _compiled(found: re.Match[str]) -> Rule:
    try:
        pattern = re.compile(found["pattern"], re.ASCII)
    except re.error as error:
        raise ValueError(f"Invalid rule: `{found[0]}`, {error}") from None
    for piece in _PIECE.finditer(found["replacement"]):
        if piece["stray"] or (piece["group"] and not pattern.groups and piece["group"][0] != "0"):
            raise ValueError(
                f"Invalid rule: `{found[0]}`, `{piece[0]}` names no group of the pattern; write \\$ for a dollar"
            )
    return Rule(pattern, found["replacement"], found["case"])
