"""`python -m bench [--only NAME …] [--quick] [--dry]`: run workloads, print their results, and keep them."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import results
from bench.client_workloads import commit_latency, reading, throughput, transaction_rate
from bench.cluster_workloads import cluster
from bench.console_workload import console
from bench.coordinator_workloads import coordinator_memory, coordinator_recovery, shard_recovery
from bench.dead_broker import dead_broker
from bench.growth_workload import growth
from bench.hanging_workload import find_hanging
from bench.own_client_workloads import own_client
from bench.process_workloads import recovery, start
from bench.runner import Outcome, Workload, run_all
from bench.secure_workloads import secure
from bench.spark_workloads import spark
from bench.transaction_workloads import overhead, tail_reader

WORKLOADS: dict[str, Workload] = {
    "start": Workload(start, 90),
    "commit-latency": Workload(commit_latency, 100),
    "transaction-rate": Workload(transaction_rate, 170),
    "throughput": Workload(throughput, 90),
    "reading": Workload(reading, 50),
    "overhead": Workload(overhead, 110),
    "tail-reader": Workload(tail_reader, 80),
    "own-client": Workload(own_client, 240),
    "dead-broker": Workload(dead_broker, 60),
    "recovery": Workload(recovery, 60),
    "coordinator-recovery": Workload(coordinator_recovery, 120),
    "shard-recovery": Workload(shard_recovery, 130),
    "coordinator-memory": Workload(coordinator_memory, 60),
    "cluster": Workload(cluster, 250),
    "secure": Workload(secure, 130),
    "find-hanging": Workload(find_hanging, 600),
    "console": Workload(console, 300),
    "growth": Workload(growth, 2_400),
    "spark": Workload(spark, 340),
}

ONLY_BY_NAME = {"find-hanging", "console", "growth"}
"""Workloads that need minutes of preparation, and so run only with `--only`."""


TABLE_COLUMNS = 200
"""The width of a table where there is no terminal, in characters."""


def main() -> int:
    """Run the workloads and return 0, or 1 when a bar was missed or a workload failed."""
    arguments = _arguments()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else TABLE_COLUMNS)
    names = arguments.only or [one for one in WORKLOADS if one not in ONLY_BY_NAME]
    chosen = {name: WORKLOADS[name] for name in names}
    outcome = run_all(chosen, console, is_quick=arguments.quick)
    console.print(_table(outcome))
    if not arguments.dry:
        found = outcome.measurements, outcome.failures
        only = arguments.only or ()
        path = results.write(*found, is_quick=arguments.quick, only=only)
        console.print(f"written: {path.relative_to(results.ROOT)}")
        table = _table_of(only)
        if table is not None and not arguments.quick:
            results.write_document(*found, path, table)
            console.print(f"written: {results.DOCUMENT.relative_to(results.ROOT)}")
    return outcome.exit_code


def _table_of(only: Sequence[str]) -> str | None:
    """Return which table of the document this run replaces; None: no table."""
    if not only:
        return results.WHOLE
    return only[0] if len(only) == 1 and only[0] in ONLY_BY_NAME else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=list(WORKLOADS), help="run this one; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="small and rough, to see that it runs")
    parser.add_argument("--dry", action="store_true", help="show, and write no file")
    return parser.parse_args()


def _table(outcome: Outcome) -> Table:
    table = Table()
    table.add_column("workload")
    table.add_column("what")
    for column in ("oncelog", "Kafka", "mock", "to Kafka", "to mock"):
        table.add_column(column, justify="right")
    table.add_column("bar")
    table.add_column("met")
    for one in outcome.measurements:
        met = {None: "", True: "[green]yes[/green]", False: "[red]no[/red]"}[one.meets_bar]
        table.add_row(
            one.workload,
            one.what,
            f"{results.number(one.oncelog)} {one.unit}{one.spread_text()}",
            results.number(one.kafka),
            results.number(one.mock) + one.peer_text(),
            results.number(one.kafka_ratio),
            results.number(one.ratio),
            one.bar_text(),
            met,
        )
    for failure in outcome.failures:
        table.add_row(failure.workload, f"[red]failed[/red]: {escape(failure.why)}")
    return table


if __name__ == "__main__":
    sys.exit(main())
