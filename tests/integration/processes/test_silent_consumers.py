"""Consumers that never read hold little memory, and give it back when they go."""

import time

from tests.integration.processes.silent_consumers import fill, memory_mb, peaks_mb, silent_consumers
from tests.targets import cluster_folder

from oncelog.embedded import running
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape

CONSUMERS = 100
GROWS_BY_MB = 100
KEEPS_MB = 30
SHRINKS_WITHIN_S = 30


def test_silent_consumers_of_a_cluster_hold_little():
    with cluster_folder() as folder, Cluster(folder, ClusterShape(1, 1, 1, 1, 1, 1)) as cluster:
        pids = [cluster.process(name).pid for name in ("listener-1", "storage-1")]
        check(cluster.bootstrap, pids)


def test_silent_consumers_of_an_embedded_log_hold_little():
    with running(timeout_s=120) as log:
        check(log.bootstrap_servers, [log.pid])


def check(bootstrap, pids):
    fill(bootstrap)
    with silent_consumers(bootstrap, 1):
        before = peaks_mb(pids)
    with silent_consumers(bootstrap, CONSUMERS):
        peaks = peaks_mb(pids)
    for pid in pids:
        assert peaks[pid] - before[pid] < GROWS_BY_MB
        deadline = time.monotonic() + SHRINKS_WITHIN_S
        while memory_mb(pid) > before[pid] + KEEPS_MB:
            assert time.monotonic() < deadline, (memory_mb(pid), before[pid], peaks[pid])
            time.sleep(0.1)
