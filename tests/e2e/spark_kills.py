"""Kills of a release's Spark pods while payments run through them, and then the proof.

    python -m tests.e2e.spark_kills --namespace default --release oncelog --kills 6

The release runs with `spark.enabled=true` and `spark.payments.rows=N`. Each turn takes the driver away (its pod without
grace, or its processes by SIGKILL from within) or, where there are executors, one of them, and waits until a batch is
committed again. Then `helm test` proves that each payment is booked once. Ends with 0 when it is, 1 when not.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

BATCH_TIMEOUT_S: Final = 240.0
LOOK_S: Final = 0.5
INTO_A_BATCH_S: Final = 4.0
DRIVER: Final = "app.kubernetes.io/component=spark-driver"
EXECUTOR: Final = "app.kubernetes.io/component=spark-executor"


class Failed(Exception):
    """The run did not get to its end."""


@dataclass(frozen=True)
class Kubernetes:
    """kubectl, for one release."""

    namespace: str
    release: str

    def call(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise Failed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def pods(self, label: str) -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/instance={self.release},{label}"
        found: list[dict[str, Any]] = json.loads(
            self.call("get", "pods", "--selector", selector, "-o", "json")
        )["items"]
        return [
            one
            for one in found
            if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"]
        ]

    def committed(self) -> int:
        """The sink's batches so far: the number of the last one that is committed, or -1."""
        found = self.call(
            "exec", f"deployment/{self.release}-gateway", "--", "python", "-c", _SINK, check=False
        )
        return int(found or "-1")


_SINK: Final = """
import json, urllib.request
with urllib.request.urlopen("http://127.0.0.1:8080/v1/sinks") as answer:
    found = [one for one in json.load(answer)["sinks"] if one["sink"] == "payments-to-ledger"]
batch = found[0]["last_committed_batch_id"] if found else None
print(-1 if batch is None else batch)
"""


def delete_driver(kubernetes: Kubernetes) -> str:
    return _delete(kubernetes, DRIVER, "driver: pod deleted without grace")


def kill_driver(kubernetes: Kubernetes) -> str:
    (pod,) = kubernetes.pods(DRIVER)[:1] or [None]
    if pod is None:
        raise Failed("no driver is running")
    # Not number 1, which the kernel protects from its own pod: the Python of the driver and its JVM.
    kubernetes.call(
        "exec", pod["metadata"]["name"], "--", "sh", "-c", "kill -KILL -1 || true", check=False
    )
    return "driver: every process SIGKILLed"


def delete_executor(kubernetes: Kubernetes) -> str:
    return _delete(kubernetes, EXECUTOR, "executor: pod deleted without grace")


def _delete(kubernetes: Kubernetes, label: str, what: str) -> str:
    pods = kubernetes.pods(label)
    if not pods:
        raise Failed(f"no pod with {label} is running")
    name = random.choice(pods)["metadata"]["name"]
    kubernetes.call("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    return what


def wait_for_batch(kubernetes: Kubernetes, beyond: int) -> int:
    deadline = time.monotonic() + BATCH_TIMEOUT_S
    while (found := kubernetes.committed()) <= beyond:
        if time.monotonic() > deadline:
            raise Failed(f"no batch after {beyond} is committed within {BATCH_TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)
    return found


def run(kubernetes: Kubernetes, kills: int) -> None:
    has_executors = bool(kubernetes.pods(EXECUTOR))
    faults = [delete_driver, kill_driver, *([delete_executor] * 2 if has_executors else [])]
    batch = wait_for_batch(kubernetes, -1)
    for number in range(kills):
        # Somewhere within a batch.
        time.sleep(random.uniform(0, INTO_A_BATCH_S))
        batch = max(batch, kubernetes.committed())
        what = faults[number % len(faults)](kubernetes)
        began = time.monotonic()
        found = wait_for_batch(kubernetes, batch)
        print(
            f"{what:<40} batch {found} committed after {time.monotonic() - began:.1f} s", flush=True
        )
        batch = found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.spark_kills")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--release", default="oncelog")
    parser.add_argument("--kills", type=int, default=6)
    options = parser.parse_args(arguments)
    try:
        run(Kubernetes(options.namespace, options.release), options.kills)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    test = ["helm", "test", options.release, "--namespace", options.namespace, "--logs"]
    return subprocess.run([*test, "--timeout", "20m"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
