"""Elections, ISRs and shards: what the life and death of nodes does to what they lead and own."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.worlds.controller.metadata_cases import SMALL, Bench

from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog_controller.core.events import (
    AlterConfigs,
    BalanceLeaders,
    BeginTerm,
    DrainNode,
    ElectLeaders,
    RemoveNode,
    SessionsEnded,
)
from oncelog_controller.core.machine import MetadataRules

RULES = replace(SMALL, transaction_shard_count=6, group_shard_count=4, bootstrap_storage_nodes=3)


@pytest.fixture
def bench():
    """Storage nodes 1, 2 and 3, coordinators 4 and 5."""
    bench = Bench(RULES)
    for node_id in (1, 2, 3):
        bench.join(node_id, "storage")
    for node_id in (4, 5):
        bench.join(node_id, "coordinator")
    return bench


def owners(bench, kind="transaction"):
    return Counter(s.coordinator for s in bench.image.shards.values() if s.kind == kind)


def shape(partition):
    return partition.leader, partition.leader_epoch, partition.isr


def test_a_node_is_fenced_until_its_first_heartbeat(bench):
    bench.register(6, roles=("coordinator",), rpc_address="node-6:1")
    assert bench.image.nodes[6].fenced
    assert 6 not in owners(bench)
    assert not bench.beat(6).fenced
    assert not bench.image.nodes[6].fenced
    assert owners(bench) == {4: 2, 5: 2, 6: 2}
    assert bench.labels[-1] == "unfenced"


def test_a_fenced_leader_is_replaced_from_the_isr_and_leaves_it(bench):
    bench.create("t", (1, 2, 3))
    before = bench.partition("t")
    assert bench.fence(1) == "fenced"
    after = bench.partition("t")
    assert after.leader in (2, 3)
    assert after.isr == (2, 3)
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.replicas == before.replicas


def test_a_fenced_follower_leaves_the_isr_and_the_leader_stays(bench):
    bench.create("t", (1, 2, 3))
    bench.fence(2)
    assert shape(bench.partition("t")) == (1, 0, (1, 3))
    assert bench.partition("t").partition_epoch == 1


def test_the_last_in_sync_replica_stays_and_leads_again(bench):
    bench.create("t", (1, 2))
    bench.fence(2)
    bench.fence(1)
    assert shape(bench.partition("t")) == (-1, 1, (1,))
    bench.beat(2)  # alive, but it may lack records
    assert shape(bench.partition("t")) == (-1, 1, (1,))
    bench.beat(1)
    assert shape(bench.partition("t")) == (1, 2, (1,))


def test_replicas_lost_together_keep_the_isr(bench):
    bench.create("t", (1, 2))
    bench.fence(1, 2)
    assert shape(bench.partition("t")) == (-1, 1, (1, 2))
    bench.beat(2)
    assert shape(bench.partition("t")) == (2, 2, (2,))


def test_an_unclean_election_is_made_only_where_allowed(bench):
    bench.create("t", (1, 2))
    bench.fence(2)
    bench.fence(1)
    bench.beat(2)
    assert bench.partition("t").leader == -1
    bench.ask(AlterConfigs, "t", {"unclean.leader.election.enable": "true"})
    assert shape(bench.partition("t")) == (2, 2, (2,))


def test_a_new_incarnation_gives_its_leaderships_away(bench):
    bench.create("t", (1, 2, 3))
    bench.join(1, "storage", incarnation_id="second")
    assert bench.partition("t").leader in (2, 3)
    assert bench.partition("t").isr == (2, 3)
    assert bench.partition("t").leader_epoch == 2  # once by the registration, once by the election


def test_leaders_of_a_fenced_node_are_spread_over_the_others(bench):
    bench.create("t", *[(1, 2, 3)] * 8)
    bench.fence(1)
    leaders = Counter(p.leader for t in bench.image.topics.values() for p in t.partitions)
    assert abs(leaders[2] - leaders[3]) <= 1


def test_leadership_goes_home_once_the_preferred_is_in_sync(bench):
    bench.create("t", (1, 2, 3))
    bench.fence(1)
    bench.beat(1)
    label = bench.tell(BalanceLeaders())
    assert label == "leaders_in_balance"
    assert bench.propose("t", (2, 3, 1)) is ErrorCode.NONE
    assert bench.tell(BalanceLeaders()) == "leaders_balanced"
    assert shape(bench.partition("t")) == (1, 2, (1, 2, 3))


# ----------------------------------------------------------------------------------------------------------- shards


def test_shards_of_a_fenced_coordinator_move_and_even_out_again(bench):
    assert owners(bench) == {4: 3, 5: 3}
    before = dict(bench.image.shards)
    bench.fence(4)
    assert owners(bench) == {5: 6}
    for key, shard in bench.image.shards.items():
        moved = before[key].coordinator == 4
        assert shard.coordinator_epoch == before[key].coordinator_epoch + moved
    before = dict(bench.image.shards)
    bench.beat(4)
    assert owners(bench) == {4: 3, 5: 3}
    changed = [key for key, shard in bench.image.shards.items() if shard != before[key]]
    assert len(changed) == 3 + 2


def test_without_coordinators_shards_wait_for_a_new_epoch(bench):
    bench.fence(4, 5)
    assert owners(bench) == {-1: 6}
    epochs = {key: s.coordinator_epoch for key, s in bench.image.shards.items()}
    bench.beat(5)
    assert owners(bench) == {5: 6}
    assert all(s.coordinator_epoch == epochs[key] + 1 for key, s in bench.image.shards.items())


# ------------------------------------------------------------------------------------------------- drain and removal


def test_a_draining_node_gives_up_duties_and_stays_in_the_isr(bench):
    bench.create("t", (1, 2, 3))
    assert bench.beat(1, want_drain=True).drained
    assert bench.partition("t").leader in (2, 3)
    assert bench.partition("t").isr == (1, 2, 3)
    assert bench.beat(4, want_drain=True).drained
    assert owners(bench) == {5: 6}
    assert bench.beat(4, want_drain=True).drained
    # Its next process is not drained, and gets something to do.
    bench.join(4, "coordinator", incarnation_id="second")
    assert not bench.image.nodes[4].draining
    assert owners(bench) == {4: 3, 5: 3}


def test_a_drain_waits_for_a_follower_that_may_catch_up(bench):
    bench.create("t", (1, 2))
    bench.fence(2)
    bench.beat(2)
    assert bench.partition("t").isr == (1,)
    assert not bench.beat(1, want_drain=True).drained
    assert bench.partition("t").leader == 1
    assert bench.propose("t", (1, 2)) is ErrorCode.NONE
    assert bench.partition("t").leader == 2
    assert bench.beat(1, want_drain=True).drained


def test_what_cannot_move_does_not_hold_up_a_drain(bench):
    bench.create("alone", (1,))
    assert bench.beat(1, want_drain=True).drained
    assert bench.partition("alone").leader == 1
    bench.fence(5)
    assert bench.beat(4, want_drain=True).drained
    assert owners(bench) == {4: 6}


def test_a_fenced_node_that_wants_to_stop_may(bench):
    bench.fence(4)
    answer = bench.beat(4, want_drain=True)
    assert (answer.fenced, answer.drained) == (True, True)
    assert bench.image.nodes[4].fenced


def test_drain_by_an_operator_can_be_taken_back(bench):
    drained = bench.ask(DrainNode, 4)
    assert drained.error_code is ErrorCode.NONE
    assert drained.metadata_offset == bench.image.metadata_offset
    assert owners(bench) == {5: 6}
    bench.ask(DrainNode, 4, cancel=True)
    assert owners(bench) == {4: 3, 5: 3}
    count = len(bench.records)
    bench.ask(DrainNode, 4, cancel=True)
    assert len(bench.records) == count
    refused = bench.ask(DrainNode, 99)
    assert refused.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_node_is_removed_when_it_is_stopped_and_hosts_nothing(bench):
    running = bench.ask(RemoveNode, 3)
    assert running.error_code is ErrorCode.INVALID_REQUEST
    assert "stop it first" in running.message
    bench.fence(3)
    hosting = bench.ask(RemoveNode, 3)
    assert hosting.error_code is ErrorCode.INVALID_REQUEST
    assert "10 partitions" in hosting.message
    assert f"{TRANSACTION_STATE_TOPIC}-0" in hosting.message
    assert "reassign" in hosting.message
    bench.fence(4)
    assert bench.ask(RemoveNode, 4).error_code is ErrorCode.NONE
    assert 4 not in bench.image.nodes
    unknown = bench.ask(RemoveNode, 4)
    assert unknown.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    # Its id may be used again, with a greater node epoch than ever.
    assert bench.join(4, "coordinator") > max(
        node.node_epoch for node in bench.image.nodes.values() if node.node_id != 4
    )


# -------------------------------------------------------------------------------------------------------- sessions


def test_a_process_is_refused_while_its_node_id_lives(bench):
    twin = bench.register(1, "twin", ("storage",), rpc_address="x:1", is_other_live=True)
    assert twin.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    same = bench.register(1, "first", ("storage",), rpc_address="x:1", is_other_live=True)
    assert same.error_code is ErrorCode.NONE


def test_the_end_of_an_earlier_process_fences_no_successor(bench):
    stale = ((1, bench.image.nodes[1].node_epoch - 1), (99, 0))
    assert bench.tell(SessionsEnded(stale)) == "sessions_known_ended"
    assert not bench.image.nodes[1].fenced


def test_a_new_term_is_claimed_at_once_and_only_once(bench):
    successor = MetadataRules(controller=2, incarnation_id="controller-b", controller_epoch=7)
    bench.machine = bench.replayed(successor)
    assert bench.tell(BeginTerm()) == "term_begun"
    assert (bench.image.controller, bench.image.controller_epoch) == (2, 7)
    count = len(bench.records)
    bench.tell(BeginTerm())
    assert len(bench.records) == count
    assert Bench(RULES).tell(BeginTerm()) == "term_without_cluster"


# ------------------------------------------------------------------------ elections that an operator asks for (KIP-460)


def elect(bench, *partitions, unclean=False):
    answer = bench.ask(ElectLeaders, partitions, unclean)
    return [one.error_code for one in answer.results]


def test_the_preferred_replica_leads_again_once_it_is_in_sync(bench):
    bench.create("t", (1, 2))
    assert elect(bench, ("t", 0), ("t", 9), ("nowhere", 0)) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    bench.fence(1)
    assert bench.partition("t").leader == 2
    assert elect(bench, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    bench.beat(1)
    assert elect(bench, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], "not in sync yet"
    epoch = bench.partition("t").leader_epoch
    bench.propose("t", (2, 1))
    assert elect(bench, ("t", 0)) == [ErrorCode.NONE]
    assert (bench.partition("t").leader, bench.partition("t").leader_epoch) == (1, epoch + 1)


def test_an_unclean_election_takes_any_replica_that_runs(bench):
    bench.create("t", (1, 2))
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.ELECTION_NOT_NEEDED]
    bench.fence(2)
    bench.fence(1)
    assert bench.partition("t").leader == -1
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    bench.beat(2)
    assert bench.partition("t").leader == -1, "node 1 alone is in sync"
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.NONE]
    assert (bench.partition("t").leader, bench.partition("t").isr) == (2, (2,))
