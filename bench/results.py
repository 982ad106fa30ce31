"""Results: one row a measurement, kept as JSON per commit and shown as a table in `docs/performance.md`."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
DOCUMENT = ROOT / "docs" / "performance.md"
WHOLE = "results"
"""The table of a whole run. A workload that runs only by its name has a table of its own."""
WHY_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of oncelog, beside it the mock's and Apache Kafka's where there are any, and the bars it is held to.

    `bar` is an upper bound when `is_lower_better`, else a lower bound; `is_bar_a_ratio` says that it bounds
    oncelog / mock instead of the number itself. `kafka_bar` bounds oncelog / Kafka in the same way.
    """

    workload: str
    what: str
    unit: str
    oncelog: float
    mock: float | None = None
    is_lower_better: bool = False
    bar: float | None = None
    is_bar_a_ratio: bool = False
    peer: str = "mock"
    """The broker or client whose number stands in `mock`."""
    kafka: float | None = None
    kafka_bar: float | None = None
    spread: float | None = None
    """The spread of oncelog's rounds: (largest - smallest) / median."""

    @property
    def ratio(self) -> float | None:
        return None if not self.mock else self.oncelog / self.mock

    @property
    def kafka_ratio(self) -> float | None:
        return None if not self.kafka else self.oncelog / self.kafka

    @property
    def meets_bar(self) -> bool | None:
        """True if the measurement meets each bar for which there is a number; None where there is none."""
        held = (
            (self.bar, self.ratio if self.is_bar_a_ratio else self.oncelog),
            (self.kafka_bar, self.kafka_ratio),
        )
        met = [
            value <= bar if self.is_lower_better else value >= bar
            for bar, value in held
            if bar is not None and value is not None
        ]
        return all(met) if met else None

    def peer_text(self) -> str:
        return "" if self.peer == "mock" else f" ({self.peer})"

    def bar_text(self) -> str:
        sign = "≤" if self.is_lower_better else "≥"
        unit = f"× {self.peer}" if self.is_bar_a_ratio else self.unit
        bars = [] if self.bar is None else [f"{sign} {number(self.bar)} {unit}"]
        if self.kafka_bar is not None:
            bars.append(f"{sign} {number(self.kafka_bar)} × Kafka")
        return ", ".join(bars)

    def spread_text(self) -> str:
        return "" if self.spread is None else f" ± {self.spread * 50:.0f} %"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a workload that ended early."""

    workload: str
    why: str

    @classmethod
    def of(cls, workload: str, error: Exception) -> Self:
        """Return the failure of a workload with its error in one line, for a table."""
        words = " ".join(str(error).split()).replace("|", "/")
        return cls(workload, f"{type(error).__name__}: {words[:WHY_CHARACTERS]}".rstrip(": "))


def number(value: float | None) -> str:
    """Return the number as text, with three significant digits."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values: Sequence[float]) -> float:
    """Return (largest - smallest) / median; 0 where all values are too small to be measured."""
    median = percentile(values, 0.5)
    return (max(values) - min(values)) / median if median else 0.0


def machine() -> dict[str, object]:
    """Return the facts about the machine on which the numbers were taken."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def write(
    measurements: Sequence[Measurement],
    failures: Sequence[Failure],
    *,
    is_quick: bool,
    only: Sequence[str] = (),
) -> Path:
    """Write one run to `bench/results/<date>-<commit>.json`; the name of a run of some workloads includes theirs."""
    commit = _git("rev-parse", "--short", "HEAD") or "none"
    is_clean = not _git("status", "--porcelain", "--", "src", "services")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / file_name(time.strftime("%Y-%m-%d"), commit, only, is_quick=is_quick)
    content = {
        "commit": commit,
        "is_commit_clean": is_clean,
        "is_quick": is_quick,
        "machine": machine(),
        "measurements": [
            {
                **asdict(one),
                "ratio": one.ratio,
                "kafka_ratio": one.kafka_ratio,
                "meets_bar": one.meets_bar,
            }
            for one in measurements
        ],
        "failures": [asdict(one) for one in failures],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def file_name(date: str, commit: str, only: Sequence[str], *, is_quick: bool) -> str:
    """Return the file name of a run, with its kind, so that it does not replace another kind of run on that day."""
    return "-".join([date, commit, *only, *(["quick"] if is_quick else [])]) + ".json"


def write_document(
    measurements: Sequence[Measurement], failures: Sequence[Failure], source: Path, table: str
) -> None:
    """Replace one whole table in `docs/performance.md`: that of a whole run, or of one workload."""
    facts = machine()
    run = f"Run `{source.stem}`: {facts['cores']} cores, {facts['processor']}, Python {facts['python']}."
    lines = [run, "", *table_lines(measurements, failures)]
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), table, lines))


def with_table(text: str, table: str, lines: Sequence[str]) -> str:
    """Return `text` with these lines between the two comments that name the table."""
    begin = f"<!-- {table}: written by `make bench` -->"
    end = f"<!-- end of {table} -->"
    head, found, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"docs/performance.md has no line {begin!r}, or no {end!r} after it")
    content = "\n".join(lines)
    return f"{head}{begin}\n{content}\n{end}{tail}"


def table_lines(measurements: Sequence[Measurement], failures: Sequence[Failure]) -> list[str]:
    """Return the lines of the table, one for each row; at the end those workloads that failed."""
    lines = [
        "| workload | what | oncelog | Kafka | mock | to Kafka | to the mock | bar | met |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for one in measurements:
        met = {None: "", True: "yes", False: "**no**"}[one.meets_bar]
        mock = "" if one.mock is None else f"{number(one.mock)} {one.unit}{one.peer_text()}"
        lines.append(
            f"| {one.workload} | {one.what} | {number(one.oncelog)} {one.unit}{one.spread_text()} "
            f"| {number(one.kafka)} | {mock} | {number(one.kafka_ratio)} | {number(one.ratio)} "
            f"| {one.bar_text()} | {met} |"
        )
    lines += [f"| {one.workload} | failed: {one.why} | | | | | | | **no** |" for one in failures]
    return lines


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def _git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return result.stdout.strip()
