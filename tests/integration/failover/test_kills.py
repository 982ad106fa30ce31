"""Every kind of process of a cluster is killed under a running application, which only sees a pause (issue 3).

Each kind twice here, and one process of each kind restarted. `make failover` kills twenty times each, freezes and
restarts all of them, and prints how long the application waited: from the kill to the acknowledgement of the first
transaction that began after it.
"""

import os
import statistics
import time

import pytest
from tests.integration.failover.traffic import Traffic
from tests.targets import asked_security

from oncelog.ids import shard_of
from oncelog.rpc.metadata import TRANSACTION
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    LISTENER,
    MARKER_SENDER,
    POSTGRES,
    REDIS,
)
from oncelog_server.cluster.view import is_active, read_image

IS_FULL = "ONCELOG_FAILOVER_FULL" in os.environ
KILLS = int(os.environ.get("ONCELOG_FAILOVER_KILLS", "20" if IS_FULL else "2"))
POSTGRES_AWAY_S = 30 if IS_FULL else 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), **asked_security()) as running:
        yield running


def image_of(cluster):
    """As the active controller has it: a standby's may be of yesterday, and name a victim that does nothing."""
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    return read_image([one for one in addresses if is_active(one, cluster.tls)], cluster.tls)


def name_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)


def coordinator_of(cluster, traffic):
    image = image_of(cluster)
    shards = [one for (kind, _), one in image.shards.items() if kind == TRANSACTION]
    number = shard_of(traffic.transactional_id, len(shards))
    return name_of(cluster, image.shards[TRANSACTION, number].coordinator)


def leader_of(cluster, traffic):
    return name_of(cluster, image_of(cluster).topics[traffic.topic].partitions[0].leader)


def active_controller(cluster, traffic):
    return next(
        one.name for one in cluster.of_role(CONTROLLER) if is_active(one.rpc_address, cluster.tls)
    )


def taking_turns(role):
    def choose(cluster, traffic):
        members = cluster.of_role(role)
        return members[len(traffic.commits) % len(members)].name

    return choose


VICTIMS = {
    COORDINATOR.role: coordinator_of,
    "storage leader": leader_of,
    LISTENER.role: taking_turns(LISTENER),
    "active controller": active_controller,
    MARKER_SENDER.role: taking_turns(MARKER_SENDER),
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_process_is_a_pause(cluster, victim, record_property):
    waits_s = []
    with Traffic(cluster.bootstrap) as traffic:
        for _ in range(KILLS):
            name = VICTIMS[victim](cluster, traffic)
            cluster.kill(name)
            killed_at = time.monotonic()
            commit = traffic.await_commit_begun_after(killed_at)
            waits_s.append(commit.acknowledged_at - killed_at)
            cluster.start_dead()
            traffic.await_commit_begun_after(time.monotonic())
    print(told(victim, waits_s))
    traffic.check()


# A frozen listener is as a frozen broker is: its clients wait for their own socket timeout, a minute by default.
FROZEN = [victim for victim in VICTIMS if victim != LISTENER.role]


@pytest.mark.skipif(not IS_FULL, reason="sessions take seconds to expire: make failover")
@pytest.mark.parametrize("victim", FROZEN)
def test_a_frozen_process_is_a_pause_and_harmless_when_it_wakes(cluster, victim):
    with Traffic(cluster.bootstrap) as traffic:
        name = VICTIMS[victim](cluster, traffic)
        cluster.pause(name)
        frozen_at = time.monotonic()
        try:
            commit = traffic.await_commit_begun_after(frozen_at)
        finally:
            cluster.resume(name)
        print(told(f"frozen {victim}", [commit.acknowledged_at - frozen_at]))
        cluster.start_dead()
        for _ in range(20):
            traffic.await_commit_begun_after(time.monotonic())
    traffic.check()


def told(victim, waits_s):
    waits_ms = sorted(int(wait * 1000) for wait in waits_s)
    p99 = waits_ms[min(len(waits_ms) - 1, int(len(waits_ms) * 0.99))]
    return (
        f"{victim}: {len(waits_ms)} kills, next commit after p50 {statistics.median(waits_ms):.0f} ms, "
        f"p99 {p99} ms, all {waits_ms}"
    )


def test_without_redis_transactions_go_on(cluster):
    if cluster.process(REDIS) is None:
        pytest.skip("this cluster has no Redis")
    with Traffic(cluster.bootstrap) as traffic:
        cluster.kill(REDIS)
        for _ in range(20):
            traffic.await_commit_begun_after(time.monotonic())
        cluster.start_one(REDIS)
        traffic.await_commit_begun_after(time.monotonic())
    traffic.check()


def test_without_postgres_transactions_go_on(cluster):
    with Traffic(cluster.bootstrap) as traffic:
        cluster.kill(POSTGRES)
        until = time.monotonic() + POSTGRES_AWAY_S
        while time.monotonic() < until:
            traffic.await_commit_begun_after(time.monotonic())
        cluster.start_one(POSTGRES)
        cluster.start_dead()
        traffic.await_commit_begun_after(time.monotonic())
    traffic.check()


def test_a_rolling_restart_fails_no_transaction(cluster):
    with Traffic(cluster.bootstrap) as traffic:
        ones = {member.role: member for member in cluster.members}.values()
        for member in cluster.members if IS_FULL else ones:
            cluster.restart(member.name)
            cluster.start_dead()
            traffic.await_commit_begun_after(time.monotonic())
    traffic.check()
