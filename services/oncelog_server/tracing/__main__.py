"""Draws the trace of one transaction: starts a cluster of processes and a receiver, commits, and ends both.

python -m oncelog_server.tracing             # make trace
python -m oncelog_server.tracing --abort
python -m oncelog_server.tracing --kill-coordinator
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from oncelog.client.blocking import Producer
from oncelog.errors import OncelogError
from oncelog.ids import shard_of
from oncelog.rpc.metadata import TRANSACTION
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, MARKER_SENDER
from oncelog_server.cluster.view import is_active, read_image
from oncelog_server.tracing.receiver import read_spans
from oncelog_server.tracing.tree import Trace, drawn, trace_of

NAME: Final = "payments"
_TOPICS: Final = ("ledger", "refunds")
_EXPORT_MS: Final = 200
_WAIT_S: Final = 60.0
_CLIENT_MS: Final = 30_000


@contextmanager
def _receiver(file: Path) -> Iterator[str]:
    """Start a process that receives traces into `file`, and yield its OTLP endpoint."""
    command = [sys.executable, "-m", "oncelog_server.tracing.receiver", "--port", "0", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise OncelogError("the receiver of traces did not start")
            yield f"http://{line.split()[-1]}"
        finally:
            process.terminate()


def _one_transaction(cluster: Cluster, *, abort: bool, kill: bool) -> None:
    with Producer(cluster.bootstrap, transactional_id=NAME, max_block_ms=_CLIENT_MS) as producer:
        producer.begin_transaction()
        for topic in _TOPICS:
            producer.send(topic, b"1,000")
        producer.flush()
        senders = [one.name for one in cluster.of_role(MARKER_SENDER)] if kill else []
        for name in senders:
            cluster.pause(name)
        (producer.abort_transaction if abort else producer.commit_transaction)()
    if kill:
        cluster.kill(_coordinator(cluster))
    for name in senders:
        cluster.resume(name)


def _coordinator(cluster: Cluster) -> str:
    image = read_image(
        [
            one.rpc_address
            for one in cluster.of_role(CONTROLLER)
            if is_active(one.rpc_address, cluster.tls)
        ],
        cluster.tls,
    )
    assert image is not None, "a controller is active"
    count = sum(kind == TRANSACTION for kind, _ in image.shards)
    node_id = image.shards[TRANSACTION, shard_of(NAME, count)].coordinator
    return next(one.name for one in cluster.members if one.node_id == node_id)


def _await_trace(file: Path) -> Trace:
    deadline = time.monotonic() + _WAIT_S
    while trace_of(read_spans(file), NAME) is None:
        if time.monotonic() > deadline:
            raise OncelogError(f"no trace of {NAME!r} came within {_WAIT_S:.0f} s")
        time.sleep(0.1)
    # Other processes send their spans of the trace with their next batch.
    time.sleep(5 * _EXPORT_MS / 1000)
    found = trace_of(read_spans(file), NAME)
    assert found is not None, "it was there"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oncelog_server.tracing")
    parser.add_argument("--abort", action="store_true", help="abort the transaction")
    parser.add_argument(
        "--kill-coordinator",
        action="store_true",
        help="SIGKILL it between the decision and the markers",
    )
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="oncelog-trace-") as made:
        file = Path(made) / "spans.jsonl"
        try:
            with _receiver(file) as endpoint, console.status("a cluster of processes starts"):
                environment = {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
                    "OTEL_BSP_SCHEDULE_DELAY": str(_EXPORT_MS),
                }
                with Cluster(Path(made) / "cluster", environment=environment) as cluster:
                    _one_transaction(cluster, abort=options.abort, kill=options.kill_coordinator)
                    trace = _await_trace(file)
        except OncelogError as error:
            print(f"no trace: {error}", file=sys.stderr)
            return 1
    console.print(drawn(trace))
    console.print(
        f"trace {trace.trace_id}: {len(trace.spans)} spans, "
        + ("one tree" if trace.is_connected else f"{len(trace.orphans)} without their parent")
    )
    return 0 if trace.is_connected else 1


if __name__ == "__main__":
    sys.exit(main())
