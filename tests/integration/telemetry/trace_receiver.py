"""A receiver of OTLP in its own process, and what it has got."""

import subprocess
import sys
import time
from contextlib import contextmanager

from oncelog_server.tracing.receiver import read_spans
from oncelog_server.tracing.tree import trace_of, traces_of

EXPORT_MS = 100


class TraceReceiver:
    def __init__(self, endpoint, file):
        self.endpoint = endpoint
        self._file = file

    def environment(self, **more):
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": str(EXPORT_MS),
            **more,
        }

    @property
    def spans(self):
        return read_spans(self._file)

    @property
    def traces(self):
        return traces_of(self.spans)

    def transaction(self, transactional_id, wanted=(), count=1, timeout_s=20.0):
        """The newest trace of this id once `count` of them are whole and this one has spans of the names `wanted`."""
        deadline = time.monotonic() + timeout_s
        while True:
            whole = [
                one
                for one in self.traces
                if any(root.name == f"transaction {transactional_id}" for root in one.roots)
            ]
            found = trace_of(self.spans, transactional_id)
            if found and len(whole) >= count and not missing(found, wanted):
                # Whatever else there is leaves in the next batch.
                time.sleep(5 * EXPORT_MS / 1000)
                return trace_of(self.spans, transactional_id)
            assert time.monotonic() < deadline, (
                [(one.name, one.parent_id) for trace in self.traces for one in trace.spans],
                wanted,
            )
            time.sleep(0.1)

    def attempts(self, sink, count, timeout_s=20.0):
        """The traces of a Spark sink's attempts, once there are so many."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = [
                one
                for one in self.traces
                if any(root.name == f"Spark batch {sink}" for root in one.roots)
            ]
            if len(found) >= count:
                time.sleep(5 * EXPORT_MS / 1000)
                ids = [one.trace_id for one in found]
                return [one for one in self.traces if one.trace_id in ids]
            assert time.monotonic() < deadline, [
                (one.name, one.parent_id) for trace in self.traces for one in trace.spans
            ]
            time.sleep(0.1)


def names(trace):
    return [one.name for one in trace.spans]


def missing(trace, wanted):
    return [name for name in wanted if name not in names(trace)]


@contextmanager
def receiving(folder):
    file = folder / "spans.jsonl"
    command = [sys.executable, "-m", "oncelog_server.tracing.receiver", "--port", "0", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            yield TraceReceiver(f"http://{line.split()[-1]}", file)
        finally:
            process.terminate()
