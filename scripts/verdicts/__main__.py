"""Run `oncelog verify` on Apache Kafka and on oncelog, the same run on each, and publish the verdicts.

    python -m scripts.verdicts --targets "kafka-1 oncelog-up" --for 60m --seed 7

For each target in turn: its brokers start as processes, `oncelog verify` works against them with every client and
with faults, and its report is kept in `artifacts/verdicts/`. A short form of it goes to `docs/reports/`, where the page
with the table is written anew. The exit code is 0 only if nothing was found on any target.
"""

import json
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.apache_kafka import CACHE, POM
from oncelog_robustness.arguments import SEED_MAX, Parser
from oncelog_robustness.verify.options import EVERY_LEAST_S, EVERY_MOST_S, FOR_MOST_S, duration_s
from oncelog_robustness.verify.report import JSON
from scripts.maven_jars import NoJarsError, fetched_jars
from scripts.verdicts.page import name_of, write_page
from scripts.verdicts.publishing import commit, machine, published, text_of, without_machine
from scripts.verdicts.targets import TARGETS, Running, Target
from scripts.verdicts.verifying import LOG, ROOT, Order, Ran, verify, words_of

from oncelog.errors import OncelogError

FOR_LEAST_S: Final = 30.0
CANNOT_BEGIN: Final = 2
MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Given:
    """The command's options, after a check."""

    targets: tuple[Target, ...]
    order: Order
    artifacts: Path
    reports: Path


def main(arguments: Sequence[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        given = given_in(arguments)
        return _run(given)
    except OncelogError as error:
        print(f"verdicts: {error}", file=sys.stderr)
        return CANNOT_BEGIN
    except KeyboardInterrupt:
        print("stopped; the target at work is not published", file=sys.stderr)
        return 130


def given_in(arguments: Sequence[str]) -> _Given:
    """Return the options. Raises OncelogError that names a wrong value, in the words of `make verdicts`."""
    parser = Parser(prog="python -m scripts.verdicts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", default="", help=f"of {' '.join(TARGETS)}; all by default")
    parser.add_argument("--for", dest="lasts", default="60m", help="how long clients work")
    parser.add_argument("--every", default="30s", help="how often a broker, and a client, is hit")
    parser.add_argument("--seed", default="7", help="of faults and draws, for every target")
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts" / "verdicts")
    parser.add_argument("--reports", type=Path, default=ROOT / "docs" / "reports")
    said = parser.parse_args(arguments)
    duration_s("FOR", said.lasts, FOR_LEAST_S, FOR_MOST_S)
    duration_s("EVERY", said.every, EVERY_LEAST_S, EVERY_MOST_S)
    return _Given(
        targets=_targets_in(said.targets),
        order=Order(said.lasts, said.every, _seed_in(said.seed)),
        artifacts=said.artifacts,
        reports=said.reports,
    )


def _targets_in(text: str) -> tuple[Target, ...]:
    names = text.split() or list(TARGETS)
    for name in names:
        if name not in TARGETS:
            raise OncelogError(f"TARGETS: {name!r} is no target; there are {' '.join(TARGETS)}")
    return tuple(TARGETS[name] for name in dict.fromkeys(names))


def _seed_in(text: str) -> int:
    # A seed of 0 would draw another one for each target.
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= SEED_MAX):
        raise OncelogError(f"SEED {text!r} is no whole number from 1 to {SEED_MAX}")
    return int(text)


def _run(given: _Given) -> int:
    date = time.strftime("%Y-%m-%d", time.gmtime())
    failures: dict[str, str] = {}
    codes = []
    for target in given.targets:
        print(f"{target.name}: {target.product}, {target.nodes}", flush=True)
        try:
            codes.append(_publish(target, given, date))
        except NoJarsError as error:
            # What Maven says has addresses.
            failures[target.name] = str(error).partition(":")[0]
        except OncelogError as error:
            failures[target.name] = without_machine(str(error).partition("\n")[0].strip(" .:"))
            print(error, file=sys.stderr)
        # After each target, so that a later failure loses none.
        write_page(given.reports, failures)
    for name, why in failures.items():
        print(f"{name} could not run: {why}", file=sys.stderr)
    return 0 if not failures and not any(codes) else 1


def _publish(target: Target, given: _Given, date: str) -> int:
    """Run one target and write its report. Return the exit code of verify. Raises NoJarsError or OncelogError where
    there is no verdict."""
    folder = _new_folder(given.artifacts / date, target.name)
    brokers = folder / "brokers"
    brokers.mkdir(parents=True)
    java_classpath = _java_classpath()
    with target.run(brokers) as running:
        words = words_of(given.order, running, java_classpath, folder)
        ran = verify(words, folder / LOG)
    report = folder / JSON
    if not report.exists():
        last = (folder / LOG).read_text().strip().splitlines()[-1:] or ["it said nothing"]
        raise OncelogError(f"verify ended with {ran.exit_code} and no verdict: {last[0]}")
    if ran.exit_code == 0:
        # Where something was found, the data of the brokers are evidence.
        for data in running.data:
            shutil.rmtree(data, ignore_errors=True)
    content = published(
        _facts(target, given.order, running, ran, date, words), json.loads(report.read_text())
    )
    given.reports.joinpath(f"{content['name']}.json").write_text(text_of(content))
    return ran.exit_code


def _new_folder(parent: Path, name: str) -> Path:
    """Return a folder that does not exist yet: a second run of a day gets a number."""
    names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
    return next(parent / one for one in names if not (parent / one).exists())


def _java_classpath() -> str:
    """Return the jars of Kafka's Java client; empty where they cannot be had. Verify says then that Java takes no
    part."""
    try:
        return f"{fetched_jars(CACHE, POM)}/*"
    except NoJarsError as error:
        print(f"without the Java client: {error}", file=sys.stderr)
        return ""


def _facts(
    target: Target, order: Order, running: Running, ran: Ran, date: str, words: Sequence[str]
) -> dict[str, Any]:
    return {
        "format": 1,
        "name": name_of(date, target.name),
        "target": target.name,
        "product": target.product,
        "version": running.version,
        "nodes": target.nodes,
        "replicas": target.replicas,
        "struck": len(running.pid_files),
        "date": date,
        **commit(),
        "machine": machine(),
        "for": order.lasts,
        "fault_every": order.fault_every,
        "seed": order.seed,
        "again": f"make verdicts TARGETS={target.name} FOR={order.lasts} "
        f"EVERY={order.fault_every} SEED={order.seed}",
        "verify_command": shlex.join(["oncelog", *words]),
        "exit_code": ran.exit_code,
        "checker_peak_mb": round(ran.peak_bytes / MB),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
