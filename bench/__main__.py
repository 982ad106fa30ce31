"""`python -m bench [--only NAME …] [--quick] [--dry]`: run workloads, show them, keep them."""

import argparse
import sys
from collections.abc import Callable

from rich.console import Console
from rich.status import Status
from rich.table import Table

from bench import results
from bench.client_workloads import ShowStep, commit_latency, reading, throughput, transaction_rate
from bench.cluster_workloads import cluster
from bench.console_workload import console
from bench.coordinator_workloads import coordinator_memory, coordinator_recovery
from bench.dead_broker import dead_broker
from bench.hanging_workload import find_hanging
from bench.own_client_workloads import own_client
from bench.process_workloads import recovery, start
from bench.results import Measurement
from bench.secure_workloads import secure
from bench.spark_workloads import spark

WORKLOADS: dict[str, Callable[[bool, ShowStep], list[Measurement]]] = {
    "start": start,
    "commit-latency": commit_latency,
    "transaction-rate": transaction_rate,
    "throughput": throughput,
    "reading": reading,
    "own-client": own_client,
    "dead-broker": dead_broker,
    "recovery": recovery,
    "coordinator-recovery": coordinator_recovery,
    "coordinator-memory": coordinator_memory,
    "cluster": cluster,
    "secure": secure,
    "find-hanging": find_hanging,
    "console": console,
    "spark": spark,
}

ONLY_BY_NAME = {"find-hanging", "console"}
"""Many ids take minutes to make; without `--only`, these do not run."""


def main() -> int:
    """Returns 0, or 1 when a bar was missed."""
    arguments = _arguments()
    console = Console(highlight=False)
    measurements: list[Measurement] = []
    for name in arguments.only or [one for one in WORKLOADS if one not in ONLY_BY_NAME]:
        with console.status(name) as status:
            measurements += WORKLOADS[name](arguments.quick, _shown_beside(status, name))
        console.print(f"{name} done")
    console.print(_table(measurements))
    if not arguments.dry:
        path = results.write(measurements, is_quick=arguments.quick)
        console.print(f"written: {path.relative_to(results.ROOT)}")
        if not arguments.only and not arguments.quick:
            results.write_document(measurements, path)
            console.print(f"written: {results.DOCUMENT.relative_to(results.ROOT)}")
    return 1 if any(one.meets_bar is False for one in measurements) else 0


def _shown_beside(status: Status, name: str) -> ShowStep:
    """Shows what a workload is at beside the spinner."""
    return lambda text: status.update(f"{name}: {text}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=list(WORKLOADS), help="run this one; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="small and rough, to see that it runs")
    parser.add_argument("--dry", action="store_true", help="show, and write no file")
    return parser.parse_args()


def _table(measurements: list[Measurement]) -> Table:
    table = Table()
    table.add_column("workload")
    table.add_column("what")
    for column in ("oncelog", "Kafka", "mock", "to Kafka", "to mock"):
        table.add_column(column, justify="right")
    table.add_column("bar")
    table.add_column("met")
    for one in measurements:
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
    return table


if __name__ == "__main__":
    sys.exit(main())
