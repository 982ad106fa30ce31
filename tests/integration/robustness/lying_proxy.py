"""A log behind a proxy that lies: its process, and who notices."""

import queue
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from pathlib import Path

import oncelog_robustness.lying
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED
from oncelog_robustness.history import History
from oncelog_robustness.workloads.catalog import facts_about, make_workload
from oncelog_robustness.workloads.run_lab import RunLab, run

SCENARIO = Path(oncelog_robustness.lying.__file__).parent / "scenario.toml"
START_TIMEOUT_S = 60
PROOF_OPERATIONS_MAX = 10

FOUND_BY = {
    "drop-batch": "lost-write",
    "repeat-batch": "duplicate",
    "show-aborted": "aborted-read",
    "reorder-batches": "inconsistent-offsets",
    "same-producer-id": "inconsistent-offsets",
    "answer-aborted-commit": "lost-write",
    "forget-offsets": "processed-once",
    "fence-wrong": "healthy-transaction-aborted",
    "lso-too-far": "aborted-read",
    "zombie-write": "zombie-write",
}
"""Of each bug the checker that names it; others may find it as well."""


class Proxy:
    def __init__(self, process):
        self._process = process
        self._lines = queue.Queue()
        self.told = []
        threading.Thread(target=self._read, daemon=True).start()
        line = self._lines.get(timeout=START_TIMEOUT_S)
        assert line.startswith("listens at "), line
        self.bootstrap = line.split()[2].rstrip(";")

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
            self.told.append(line.strip())

    @property
    def strikes(self):
        return self.told[1:]


@contextmanager
def lying(bug, bootstrap, seed=1):
    arguments = ("--bug", bug, "--to", bootstrap, "--listen", "127.0.0.1:0", "--seed", str(seed))
    with subprocess.Popen(
        [sys.executable, "-m", "oncelog_robustness.lying", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Proxy(process)
        finally:
            process.terminate()


def history_behind(proxy, name, kinds, seconds, seed=1) -> History:
    """Of the scenario's workloads of these kinds, in this process. `name` keeps topics of several runs apart."""
    content = tomllib.loads(SCENARIO.read_text())
    given = [
        {**one, "name": f"{one['name']}-{name}"}
        for one in content["workloads"]
        if one["kind"] in kinds
    ]
    clients = [LIBRARIES[one]([proxy.bootstrap]) for one in SIMULATED]
    lab = RunLab(clients, seed=seed, duration_ms=seconds * 1000)
    lab.history.facts.update(facts_about(given))
    workloads = [
        make_workload(
            one["kind"],
            one["name"],
            {key: value for key, value in one.items() if key not in ("kind", "name")},
        )
        for one in given
    ]
    run(lab, workloads)
    return lab.history
