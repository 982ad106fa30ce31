"""Damage to one replica of three, while its node is down: it takes its data from the others, whichever node led.

Never is a record lost that was acknowledged, and in the end all three have the same log. `make damage` runs all cases.
"""

import asyncio

import pytest
from tests.integration.storage.damage_cases import (
    CONTROL,
    IS_WHOLE,
    cases,
    damage,
    fault,
    shown,
    write_rounds,
)
from tests.integration.storage.replica_cluster import differences, running_cluster
from tests.integration.storage.storage_node import until

GATE_SHARE = 12
HEALED_S = 60


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("state", ["stopped", "killed-early", "killed-late"])
async def test_a_damaged_replica_of_three_costs_nothing(tmp_path, state, role):
    node_id = 1 if role == "leader" else 3
    found = [*cases(state), *(cut_newest(state) if role == "follower" else ())]
    wanted = found if IS_WHOLE else found[3::GATE_SHARE]

    settings = {
        "replica_lag_time_max_ms": 1000,
        "transaction_partition_verification_enable": False,
    }
    async with running_cluster(tmp_path, **settings) as cluster:
        topics = [CONTROL, *(case.name for case in wanted)]
        for topic in topics:
            cluster.controller.topic(topic, segment_bytes=2048, min_insync_replicas=2)
        await write_rounds(cluster.nodes[1].storage, topics, 0)
        if state == "killed-late":
            for node in cluster.nodes.values():
                await node.role.maintenance.checkpoint_all()
        await write_rounds(cluster.nodes[1].storage, topics, 6)
        for topic in topics:
            await cluster.caught_up(topic)
        # While they end one after the other, none is found late and leaves the ISR.
        cluster.controller.holds_back = asyncio.Event()
        for other in (2, 3, 1):
            if state == "stopped":
                node = cluster.nodes.pop(other)
                cluster.controller.followers.pop(other)
                await node.role.stop()
            else:
                await cluster.kill(other, fence=False)
        cluster.controller.holds_back = None
        hit = [case for case in wanted if damage(tmp_path / str(node_id) / f"{case.name}-0", case)]
        assert hit
        # The damaged one comes first: it leads what it led.
        for other in (node_id, *({1, 2, 3} - {node_id})):
            await cluster.start(other)
        await asyncio.gather(*(healed(cluster, topic) for topic in topics))
        # What a start does not read is found by the leader that reads it, and by the scrub.
        for topic in topics:
            if cluster.controller.partition(topic).leader != node_id:
                cluster.controller.change(topic, leader=node_id)
            await shown(cluster.leader(topic).storage, topic)
        await cluster.nodes[node_id].role.replication.scrub_all(1 << 30)
        await asyncio.gather(*(healed(cluster, topic) for topic in topics))
        expected = await shown(cluster.leader(CONTROL).storage, CONTROL)
        assert len(expected[1].rows) == 2 * 6 * 5
        for case in hit:
            found = await shown(cluster.leader(case.name).storage, case.name)
            for pair in zip(found, expected, strict=True):
                assert fault(*pair) == "", case
            assert not pair[0].error_code, case
            # The CRC does not cover a leader epoch, and the scrub reads no segment that is written.
            if case.how != "flip-leader-epoch":
                assert differences(cluster, case.name) == {}, case
        print(f"{state}, {role}: {len(hit)} cases")


def cut_newest(state):
    """Nobody can tell such a cut from a write that a kill ended. The leader, if it is not this one, has the rest."""
    if state == "stopped":
        return []
    return [case._replace(state=state) for case in cases("stopped") if is_cut_of_newest(case)]


def is_cut_of_newest(case):
    return case.kind == "log-newest" and case.how in ("cut", "emptied")


async def healed(cluster, topic):
    def is_whole():
        held = [node.held(topic) for node in cluster.nodes.values()]
        return (
            all(each.offline is None for each in held)
            and sorted(cluster.controller.partition(topic).isr) == [1, 2, 3]
            and cluster.controller.partition(topic).leader in cluster.nodes
        )

    try:
        await until(is_whole, HEALED_S)
        await cluster.caught_up(topic, timeout_s=HEALED_S)
    except TimeoutError:
        held = {node_id: node.held(topic) for node_id, node in cluster.nodes.items()}
        ends = {node_id: (one.offline, one.log.log_end_offset) for node_id, one in held.items()}
        raise AssertionError(f"{topic}: {ends}, {cluster.controller.partition(topic)}") from None
