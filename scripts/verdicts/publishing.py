"""Shortens a report of `oncelog verify` for publication: nothing of this machine stays in it, and at most 100 kB."""

import json
import os
import platform
import re
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.chaos.measures import percentile

from oncelog.errors import OncelogError

BYTES_MAX: Final = 100_000
ANOMALIES_MAX: Final = 5
"""The anomalies of one checker that are published. The others are counted."""
ROOT: Final = Path(__file__).resolve().parents[2]
JUDGED: Final = ("src", "services", "oncelog_robustness", "scripts", "bench", "requirements")
_ADDRESS: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"]+")
_PATH: Final = re.compile(r"(?<![\w.:])/(?:[\w.@+,~=-]+/)+[\w.@+,~=*-]*")
_NO_SECRETS: Final = ("localhost", "oncelog", "kafka")
"""Host names that a report may show: they are words of its own."""

Published = Mapping[str, Any]
"""The content of the file of a published verdict."""


def published(facts: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published: the facts about the run, and the report of verify. Raises OncelogError if it is too
    long even without what can be left out."""
    content: dict[str, Any] = without_machine(
        {
            **facts,
            "broken": Counter(one["promise"] for one in report["anomalies"]),
            "unavailability": _unavailability(report["fault_list"]),
            "left_out": [],
            "report": report,
        }
    )
    _at_most(content["report"], ANOMALIES_MAX)
    for what, leave_out in _LESS:
        if len(text_of(content).encode()) <= BYTES_MAX:
            return content
        leave_out(content["report"])
        content["left_out"].append(what)
    if len(text_of(content).encode()) > BYTES_MAX:
        raise OncelogError(f"the report of {facts['name']} does not fit into {BYTES_MAX:,} bytes")
    return content


def text_of(content: Published) -> str:
    """Return the content as JSON, with a line for each of its keys and for each key of the report."""
    parts = {key: _compact(value) for key, value in content.items() if key != "report"}
    inside = [f"  {_compact(key)}: {_compact(value)}" for key, value in content["report"].items()]
    parts["report"] = "{\n" + ",\n".join(inside) + "\n }"
    return "{\n" + ",\n".join(f" {_compact(key)}: {text}" for key, text in parts.items()) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def without_machine(value: Any) -> Any:
    """Return the value without what is of this machine: its name, addresses of the network, and folders of paths."""
    if isinstance(value, str):
        return _without_machine(value)
    if isinstance(value, Mapping):
        return {key: without_machine(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [without_machine(one) for one in value]
    return value


def _without_machine(text: str) -> str:
    text = _PATH.sub(_name_in, _ADDRESS.sub("(an address)", text))
    for folder in (ROOT, Path.home(), Path(tempfile.gettempdir())):
        if len(folder.parts) > 1:
            text = text.replace(str(folder), folder.name)
    host = socket.gethostname()
    if host and host not in _NO_SECRETS:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "(this machine)", text)
    return text


def _name_in(path: re.Match[str]) -> str:
    """Return the last part of a path; of `folder/*` both."""
    parts = path[0].split("/")
    return "/".join(parts[-2:]) if parts[-1] == "*" else parts[-1]


def _unavailability(faults: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, by kind of fault, the time until the next commit. Where the client that commits was itself killed
    meanwhile, the time says nothing of the fault."""
    found = {}
    for kind in sorted({one["kind"] for one in faults}):
        own = [one for one in faults if one["kind"] == kind]
        watched = [one for one in own if one["is_watched"]]
        next_ms = [one["next_commit_ms"] for one in watched if one["next_commit_ms"] is not None]
        gaps_ms = [one["longest_gap_ms"] for one in own if one["longest_gap_ms"] is not None]
        found[kind] = {
            "faults": len(own),
            "watched": len(watched),
            "never": len(watched) - len(next_ms),
            "next_commit_median_ms": percentile(next_ms, 0.5),
            "next_commit_max_ms": max(next_ms, default=None),
            "longest_gap_median_ms": percentile(gaps_ms, 0.5),
            "longest_gap_max_ms": max(gaps_ms, default=None),
        }
    return found


def _at_most(report: dict[str, Any], most: int) -> None:
    """Keep this many anomalies of each checker."""
    seen: Counter[str] = Counter()
    kept = []
    for one in report["anomalies"]:
        seen[one["checker"]] += 1
        if seen[one["checker"]] <= most:
            kept.append(one)
    report["anomalies"] = kept


def _without_gaps(report: dict[str, Any]) -> None:
    report["pulse"] = {key: one for key, one in report["pulse"].items() if key != "gaps_s"}


def _without_deaths(report: dict[str, Any]) -> None:
    report["fault_list"] = [one for one in report["fault_list"] if one["kind"] != "client-kill"]


def _without_faults(report: dict[str, Any]) -> None:
    report["fault_list"] = []


_LESS: Final[Sequence[tuple[str, Callable[[dict[str, Any]], None]]]] = (
    ("the times without a commit", _without_gaps),
    ("the deaths of clients, one by one", _without_deaths),
    ("the faults, one by one", _without_faults),
    ("all anomalies of a checker but the first", lambda report: _at_most(report, 1)),
)


def machine() -> dict[str, Any]:
    """Return the facts about this machine that a reader of latencies needs."""
    return {"cores": os.cpu_count(), "python": platform.python_version()}


def commit() -> dict[str, Any]:
    """Return the commit that ran, and whether the code was as committed."""
    return {
        "commit": _git("rev-parse", "--short", "HEAD") or "none",
        "is_commit_clean": not _git("status", "--porcelain", "--", *JUDGED),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
