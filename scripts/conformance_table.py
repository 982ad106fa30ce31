"""The tests of `tests/conformance` on oncelog and on Apache Kafka, side by side: what `make conformance-kafka` writes.

    python -m scripts.conformance_table artifacts/conformance-oncelog.xml artifacts/conformance-kafka.xml

It reads two reports in JUnit's form, and rewrites the table between its marks in docs/compatibility.md. A test that
passes on oncelog and fails on Kafka needs a line in `tests/conformance/differences.toml`. Without one this ends with 1,
and names it; so it does for a test that ran on one alone. A reason that begins with "now and then:" or "open:" is of a
test that differs in some runs. Why is not known where it is open. No line excuses a failure of oncelog.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "compatibility.md"
DIFFERENCES: Final = ROOT / "tests" / "conformance" / "differences.toml"
BEGIN: Final = "<!-- begin of the table that make conformance-kafka writes -->"
END: Final = "<!-- end of that table -->"
NOW_AND_THEN: Final = ("open:", "now and then:")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

Outcomes = Mapping[str, str]
"""By `file::test[parameters]`."""


def outcomes(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.attrib["classname"].split("tests.conformance.")[-1]
        outcome = PASSED
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = FAILED
        elif case.find("skipped") is not None:
            outcome = SKIPPED
        found[f"{file}::{case.attrib['name']}"] = outcome
    return found


def unexplained(ours: Outcomes, theirs: Outcomes, reasons: Mapping[str, str]) -> list[str]:
    """Tests that fail on oncelog, those that fail on Kafka without a reason, and reasons for which there is no test.
    Also tests that ran on one alone though their file ran on both."""
    differing = {
        name for name in ours.keys() & theirs.keys() if FAILED in (ours[name], theirs[name])
    }
    without = [
        f"{name}: {ours[name]} on oncelog, {theirs[name]} on Kafka"
        for name in sorted(differing)
        if ours[name] == FAILED or not any(re.fullmatch(pattern, name) for pattern in reasons)
    ]
    unused = [
        f"{pattern}: no test differs by this name"
        for pattern, reason in reasons.items()
        if not any(
            re.fullmatch(pattern, name)
            for name in (ours if reason.startswith(NOW_AND_THEN) else differing)
        )
    ]
    files = {_file(name) for name in ours} & {_file(name) for name in theirs}
    alone = [
        f"{name}: ran on {'oncelog' if name in ours else 'Kafka'} alone"
        for name in sorted(ours.keys() ^ theirs.keys())
        if _file(name) in files
    ]
    return without + unused + alone


def _file(name: str) -> str:
    return name.partition("::")[0]


def table(ours: Outcomes, theirs: Outcomes, reasons: Mapping[str, str]) -> str:
    files = sorted({_file(name) for name in ours})
    lines = ["| tests | oncelog | Apache Kafka 4.4 |", "| --- | --- | --- |"]
    for file in files:
        cells = [_counted(one, file) for one in (ours, theirs)]
        lines.append(f"| {file.removeprefix('test_')} | {cells[0]} | {cells[1]} |")
    lines += ["", "| differs | why |", "| --- | --- |"]
    for pattern, reason in reasons.items():
        shown = pattern.replace("|", "\\|").replace("test_", "")
        lines.append(f"| `{shown}` | {reason} |")
    return "\n".join(lines)


def _counted(found: Outcomes, file: str) -> str:
    counts = Counter(outcome for name, outcome in found.items() if name.startswith(f"{file}::"))
    return ", ".join(f"{counts[one]} {one}" for one in (PASSED, FAILED, SKIPPED) if counts[one])


def main(arguments: Sequence[str]) -> int:
    ours, theirs = (outcomes(Path(one)) for one in arguments)
    reasons: dict[str, str] = tomllib.loads(DIFFERENCES.read_text())
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(ours, theirs, reasons)}\n{END}{after}")
    faults = unexplained(ours, theirs, reasons)
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
