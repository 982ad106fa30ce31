"""The page of published verdicts, `docs/reports/README.md`: one table with the newest report of each target, side by
side, and under it every anomaly with its proof.

All of it comes from the files of JSON beside the page. The one thing that people add is the number of a known bug, in
`issues.toml`.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.verify.page import without_empty
from scripts.verdicts.publishing import Published
from scripts.verdicts.table import table_lines
from scripts.verdicts.targets import TARGETS

from oncelog.errors import OncelogError
from oncelog.wording import counted

PAGE: Final = "README.md"
ISSUES: Final = "issues.toml"
BEGIN: Final = "<!-- begin of what make verdicts writes -->"
END: Final = "<!-- end of that -->"
JIRA: Final = "https://issues.apache.org/jira/browse/"
_NAME: Final = re.compile(rf"(\d{{4}}-\d\d-\d\d)-({'|'.join(TARGETS)})")
_OF_KAFKA: Final = re.compile(r"KAFKA-\d+")
OPERATION_MAX: Final = 600
"""The characters of an operation that the page shows. The file of the report has all of it."""


def name_of(date: str, target: str) -> str:
    """Return the name of a report: that of its file, and of its table in `issues.toml`."""
    return f"{date}-{target}"


def write_page(folder: Path, failures: Mapping[str, str]) -> None:
    """Write the page anew from the reports in the folder. `failures`: why targets could not run now."""
    page = folder / PAGE
    reports = newest_reports(folder)
    lines = page_lines(reports, issues_in(folder), failures)
    page.write_text(_with_lines(page.read_text(), lines))


def newest_reports(folder: Path) -> list[Published]:
    """Return the newest report of each target that has one, in the order of the targets."""
    newest: dict[str, Path] = {}
    for path in sorted(folder.glob("*.json")):
        if found := _NAME.fullmatch(path.stem):
            newest[found[2]] = path
    return [json.loads(newest[one].read_text()) for one in TARGETS if one in newest]


def issues_in(folder: Path) -> dict[str, dict[str, str]]:
    """Return the numbers of known bugs, by report and number of the anomaly. Raises OncelogError for an entry that
    belongs to no published anomaly."""
    found: dict[str, dict[str, str]] = tomllib.loads((folder / ISSUES).read_text())
    for name, numbers in found.items():
        path = folder / f"{name}.json"
        if not path.exists():
            raise OncelogError(f"{ISSUES} names the report {name}, but there is no {path.name}")
        count = len(json.loads(path.read_text())["report"]["anomalies"])
        for number in numbers:
            if not (number.isdigit() and 1 <= int(number) <= count):
                raise OncelogError(
                    f"{ISSUES} names anomaly {number} of {name}, which shows {count}"
                )
    return found


def _with_lines(text: str, lines: Sequence[str]) -> str:
    head, found, rest = text.partition(BEGIN)
    _, found_end, tail = rest.partition(END)
    if not found or not found_end:
        raise OncelogError(f"the page of verdicts has no line {BEGIN!r}, or no {END!r} after it")
    return "\n".join([f"{head}{BEGIN}", *lines, f"{END}{tail}"])


def page_lines(
    reports: Sequence[Published],
    issues: Mapping[str, Mapping[str, str]],
    failures: Mapping[str, str],
) -> list[str]:
    """Return the lines between the marks."""
    lines = [*table_lines(reports), ""] if reports else ["No verdict is published yet.", ""]
    lines += [f"- {target} could not run: {why}." for target, why in failures.items()]
    lines += [""] if failures else []
    if reports:
        lines += ["## Anomalies", ""]
        for one in reports:
            lines += _anomalies(one, issues.get(one["name"], {}))
        lines += ["## Limits of these runs", ""]
        for one in reports:
            lines += _limits(one)
    return lines


def _anomalies(one: Published, issues: Mapping[str, str]) -> Iterator[str]:
    report = one["report"]
    if not report["anomalies"]:
        yield from (f"- {one['target']}: none found. That is no proof.", "")
        return
    total = sum(one["broken"].values())
    left = total - len(report["anomalies"])
    for number, anomaly in enumerate(report["anomalies"], start=1):
        proof = counted(len(anomaly["operations"]), "operation")
        yield (
            f"**{one['target']}, anomaly {number}.** In this run the promise “{anomaly['promise']}” was not kept, "
            f"says the checker `{anomaly['checker']}`. The proof has {proof}:"
        )
        yield from ("", "```", anomaly["sentence"])
        yield from (_operation(operation) for operation in anomaly["operations"])
        yield from ("```", "", f"Known bug: {_issue(issues.get(str(number), ''))}", "")
    if left:
        yield from (f"{one['target']} has {left} more of these checkers, which are not shown.", "")


def _issue(number: str) -> str:
    if not number:
        return "none is named."
    return f"[{number}]({JIRA}{number})." if _OF_KAFKA.fullmatch(number) else f"{number}."


def _operation(operation: Mapping[str, Any]) -> str:
    # An operation without an end was never answered.
    facts = {**without_empty(operation), "completed_ms": operation["completed_ms"]}
    text = json.dumps(facts, ensure_ascii=False)
    return text if len(text) <= OPERATION_MAX else f"{text[:OPERATION_MAX]}…"


def _limits(one: Published) -> Iterator[str]:
    """Yield what could not be done, used or judged. A limit is text of a machine, so it is no prose of the page."""
    report = one["report"]
    unread = [
        f"not judged: {promise['name']}: {why}"
        for promise in report["promises"]
        if promise["answer"] == Answer.UNKNOWN
        for checker in promise["checkers"]
        for why in checker["why"][:1]
    ]
    left_out = [f"left out of {one['name']}.json: {what}" for what in one["left_out"]]
    lines = [*report["limits"], *unread, *left_out]
    yield from (f"{one['target']}:", "", "```", *(lines or ["none"]), "```", "")
