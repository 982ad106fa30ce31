"""Processes are killed under an application that reads as a group and writes in transactions (issue 3): no number is
lost, none is squared twice, and no member loses its partitions."""

import os
import time

import pytest
from tests.integration.failover.squaring import Squaring
from tests.targets import asked_security

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, shard_of
from oncelog.rpc.metadata import GROUP
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, MARKER_SENDER
from oncelog_server.cluster.view import is_active, read_image

KILLS = int(os.environ.get("ONCELOG_FAILOVER_KILLS", "2"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), **asked_security()) as running:
        yield running


def image_of(cluster):
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    return read_image([one for one in addresses if is_active(one, cluster.tls)], cluster.tls)


def name_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)


def shard_number(image, squaring):
    return shard_of(squaring.group, image.shard_count(GROUP))


def group_coordinator(cluster, squaring, _):
    image = image_of(cluster)
    return name_of(cluster, image.shards[GROUP, shard_number(image, squaring)].coordinator)


def leader_of_the_groups_shard(cluster, squaring, _):
    image = image_of(cluster)
    partitions = image.topics[CONSUMER_OFFSETS_TOPIC].partitions
    return name_of(cluster, partitions[shard_number(image, squaring)].leader)


def marker_sender(cluster, _, turn):
    members = cluster.of_role(MARKER_SENDER)
    return members[turn % len(members)].name


# Not listeners: librdkafka remembers the broker that coordinated its group's transactional offsets even after it has
# dropped that broker, and send_offsets_to_transaction then waits for a connection that nobody will open again.
VICTIMS = [
    group_coordinator,
    pytest.param(leader_of_the_groups_shard, marks=pytest.mark.slow),
    pytest.param(marker_sender, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: victim.__name__)
def test_a_kill_costs_a_transactional_group_a_pause(cluster, victim):
    waits_s = []
    with Squaring(cluster.bootstrap) as squaring:
        before = squaring.rebalances
        for turn in range(KILLS):
            cluster.kill(victim(cluster, squaring, turn))
            killed_at = time.monotonic()
            squaring.await_progress()
            waits_s.append(time.monotonic() - killed_at)
            cluster.start_dead()
            squaring.await_progress()
        after = squaring.rebalances
        squaring.check()
    print(f"{victim.__name__}: both instances went on after {[round(one, 2) for one in waits_s]} s")
    assert squaring.errors == []
    assert after == before, "nobody's partitions were taken away"
