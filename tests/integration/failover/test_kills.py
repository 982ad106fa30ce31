"""Every kind of process of a cluster is killed under a running application, which only sees a pause (issue 3).

Each kind twice here, and one process of each kind restarted. `make failover` kills twenty times each, freezes and
restarts all of them, and prints how long the application waited: from the kill to the acknowledgement of the first
transaction that began after it.
"""

import os
import statistics
import time

import pytest
from tests.integration.failover.squaring import Squaring
from tests.integration.failover.traffic import Traffic
from tests.integration.failover.victims import (
    active_controller,
    coordinator_of,
    group_coordinator,
    leader_of,
    leader_of_the_groups_shard,
)
from tests.targets import asked_security, cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import COORDINATOR, LISTENER, MARKER_SENDER, POSTGRES, REDIS

IS_FULL = "ONCELOG_FAILOVER_FULL" in os.environ
KILLS = int(os.environ.get("ONCELOG_FAILOVER_KILLS", "20" if IS_FULL else "2"))
POSTGRES_AWAY_S = 30 if IS_FULL else 5


@pytest.fixture(scope="module")
def cluster():
    with cluster_folder() as folder, Cluster(folder, **asked_security()) as running:
        yield running


def taking_turns(role):
    def choose(cluster, traffic):
        members = cluster.of_role(role)
        return members[len(traffic.commits) % len(members)].name

    return choose


VICTIMS = {
    COORDINATOR.role: lambda cluster, traffic: coordinator_of(cluster, traffic.transactional_id),
    "storage leader": lambda cluster, traffic: leader_of(cluster, traffic.topic),
    LISTENER.role: taking_turns(LISTENER),
    "active controller": lambda cluster, _: active_controller(cluster),
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
    print(row_of(victim, waits_s))
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
        print(row_of(f"frozen {victim}", [commit.acknowledged_at - frozen_at]))
        cluster.start_dead()
        for _ in range(20):
            traffic.await_commit_begun_after(time.monotonic())
    traffic.check()


def row_of(victim, waits_s):
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


# Not listeners: librdkafka remembers the broker that coordinated its group's transactional offsets even after it has
# dropped that broker. Then send_offsets_to_transaction waits for a connection that nobody will open again.
VICTIMS_UNDER_A_GROUP = (
    group_coordinator,
    leader_of_the_groups_shard,
    lambda cluster, _: cluster.of_role(MARKER_SENDER)[0].name,
)


@pytest.mark.timeout(120 + 60 * KILLS)
def test_a_kill_costs_a_transactional_group_a_pause(cluster):
    """No number is lost, none is squared twice, and no member loses its partitions."""
    waits_s = []
    with Squaring(cluster.bootstrap) as squaring:
        before = squaring.rebalances
        for victim in VICTIMS_UNDER_A_GROUP * (KILLS if IS_FULL else 1):
            cluster.kill(victim(cluster, squaring.group))
            killed_at = time.monotonic()
            squaring.await_progress()
            waits_s.append(time.monotonic() - killed_at)
            cluster.start_dead()
            squaring.await_progress()
        after = squaring.rebalances
        squaring.check()
    print(f"both instances went on after {[round(one, 2) for one in waits_s]} s")
    assert squaring.errors == []
    assert after == before, "nobody's partitions were taken away"
