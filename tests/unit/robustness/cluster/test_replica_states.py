"""Checkers over what replicas said of themselves while the run went on."""

import pytest
from oncelog_robustness.checkers import (
    cluster_committed,
    cluster_high_watermark,
    cluster_leaders,
    cluster_offsets_order,
    cluster_shard_owners,
)
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.observations import Observations, ReplicaState, ShardOwned
from tests.unit.robustness.checkers.made_history import assert_broken
from tests.worlds.robustness.cluster.seen import answer, judged, log, replica
from tests.worlds.robustness.cluster.seen import data as batch


class TestOffsetsOrder:
    @pytest.mark.parametrize(
        "state",
        [
            replica(start=0, stable=3, high=4, end=5),
            replica(start=4, stable=4, high=4, end=4),
            replica(leads=False, high=2, end=5),
        ],
    )
    def test_in_order(self, state: ReplicaState) -> None:
        assert answer(cluster_offsets_order.check, Observations([state])) is Answer.OK

    @pytest.mark.parametrize(
        "state",
        [
            replica(stable=5, high=4, end=6),
            replica(high=6, end=5),
            replica(leads=False, high=6, end=5),
            replica(start=3, stable=2, high=4, end=5),
            replica(leads=False, start=6, high=5, end=7),
        ],
    )
    def test_out_of_order(self, state: ReplicaState) -> None:
        assert_broken(
            judged(cluster_offsets_order.check, Observations([replica(), state])),
            "orders-0 on node 1",
        )


class TestHighWatermark:
    def test_it_grows(self) -> None:
        seen = [replica(high=1), replica(high=3), replica(2, leads=False, high=2)]
        assert answer(cluster_high_watermark.check, Observations(seen)) is Answer.OK

    @pytest.mark.parametrize(
        "later",
        [
            replica(high=2, incarnation=2),
            replica(2, high=2, epoch=1),
            replica(high=2, leads=False, start_over_count=1),
        ],
        ids=["another process", "another node", "emptied and copied again"],
    )
    def test_it_may_be_smaller_in(self, later: ReplicaState) -> None:
        grows = [replica(high=1), replica(high=3)]
        assert answer(cluster_high_watermark.check, Observations([*grows, later])) is Answer.OK

    @pytest.mark.parametrize(
        "later",
        [
            replica(high=2, at_ms=9),
            replica(high=2, at_ms=9, epoch=1),
            replica(high=2, at_ms=9, epoch=1, leads=False),
        ],
        ids=["as leader", "in the next epoch", "as a follower"],
    )
    def test_it_went_back(self, later: ReplicaState) -> None:
        assert_broken(
            judged(cluster_high_watermark.check, Observations([replica(high=3), later])),
            "was 3",
            "2 at 9 ms",
        )


class TestCommitted:
    def test_a_new_leader_may_say_less_but_has_it(self) -> None:
        seen = [replica(1, high=5, end=7), replica(2, epoch=1, high=3, end=5)]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.OK

    def test_an_old_leader_that_wakes_up_lacks_what_came_after_it(self) -> None:
        seen = [
            replica(1, high=5, end=5),
            replica(2, epoch=1, high=9, end=9),
            replica(1, high=5, end=5),
        ]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.OK

    def test_a_follower_that_is_behind_is_none_of_it(self) -> None:
        seen = [replica(1, high=5), replica(2, leads=False, high=0, end=0)]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.OK

    def test_a_new_leader_without_it(self) -> None:
        seen = [replica(1, high=5, end=5), replica(2, epoch=2, high=4, end=4)]
        assert_broken(
            judged(cluster_committed.check, Observations(seen)),
            "node 1, leader in epoch 0, had committed up to 5",
            "node 2",
        )

    def test_a_leader_that_is_cut_back_later(self) -> None:
        seen = [
            replica(1, high=5),
            replica(2, epoch=1, high=3, end=5),
            replica(2, epoch=1, high=3, end=3),
        ]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.BROKEN

    def test_a_log_that_grows_within_its_epoch(self) -> None:
        seen = [replica(high=1, end=2), replica(high=5, end=5), replica(high=5, end=9)]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.OK

    def test_an_earlier_leader_committed_it_only_later(self) -> None:
        seen = [replica(1, high=2), replica(2, epoch=1, high=2, end=2), replica(1, high=5, at_ms=9)]
        assert answer(cluster_committed.check, Observations(seen)) is Answer.BROKEN

    def test_a_leader_begins_without_it_and_leads_on(self) -> None:
        seen = [replica(high=9, end=9), replica(high=4, end=4, incarnation=2, at_ms=8)]
        assert_broken(
            judged(cluster_committed.check, Observations(seen)),
            "committed up to 9",
            "up to 4 at 8 ms",
        )


class TestLeaders:
    def test_one_in_each_epoch(self) -> None:
        seen = [replica(1), replica(2, leads=False), replica(2, epoch=1), replica(1, leads=False)]
        verdict = judged(cluster_leaders.check_one_leader, Observations(seen))
        assert (verdict.answer, verdict.judged) == (Answer.OK, 2)

    def test_two_in_one(self) -> None:
        seen = [replica(1, epoch=3), replica(2, epoch=3, at_ms=8)]
        assert_broken(
            judged(cluster_leaders.check_one_leader, Observations(seen)),
            "leader epoch 3: node 1 led at 0 ms, node 2 at 8 ms",
        )

    def test_two_processes_of_one_node_in_one(self) -> None:
        seen = [replica(epoch=3), replica(epoch=3, at_ms=8, incarnation=2)]
        assert_broken(
            judged(cluster_leaders.check_one_leader, Observations(seen)),
            "node 1 led at 0 ms, node 1 in its process 2 at 8 ms",
        )

    def test_epochs_that_grow(self) -> None:
        seen = [replica(epoch=0), replica(epoch=2), replica(epoch=-1), replica(epoch=2)]
        logs = [log(batch(0), batch(1, leader_epoch=2), batch(2, leader_epoch=2))]
        assert answer(cluster_leaders.check_epochs, Observations(seen, logs)) is Answer.OK

    def test_a_replica_that_goes_back(self) -> None:
        seen = [replica(epoch=2), replica(epoch=1, at_ms=4)]
        assert answer(cluster_leaders.check_epochs, Observations(seen)) is Answer.BROKEN

    def test_a_log_that_goes_back(self) -> None:
        logs = [log(batch(0, leader_epoch=2), batch(1, leader_epoch=1))]
        assert_broken(
            judged(cluster_leaders.check_epochs, Observations(logs=logs)),
            "the one behind it at 1 of 1",
        )


class TestShardOwners:
    def owned(
        self, node_id: int, coordinator_epoch: int, shard: int = 0, incarnation: int = 1
    ) -> ShardOwned:
        return ShardOwned(5, node_id, incarnation, "__transaction_state", shard, coordinator_epoch)

    def test_one_an_epoch(self) -> None:
        seen = [self.owned(1, 0), self.owned(2, 1), self.owned(1, 2), self.owned(2, 0, shard=1)]
        assert answer(cluster_shard_owners.check, Observations(shards=seen)) is Answer.OK

    def test_a_shard_that_is_loaded_again(self) -> None:
        seen = [self.owned(1, 0), self.owned(1, 0)]
        assert answer(cluster_shard_owners.check, Observations(shards=seen)) is Answer.OK

    def test_two_in_one_epoch(self) -> None:
        seen = [self.owned(1, 4), self.owned(2, 4)]
        assert_broken(
            judged(cluster_shard_owners.check, Observations(shards=seen)),
            "coordinator epoch 4: node 1",
        )

    def test_two_processes_of_one_node_in_one_epoch(self) -> None:
        seen = [self.owned(1, 4), self.owned(1, 4, incarnation=2)]
        assert_broken(
            judged(cluster_shard_owners.check, Observations(shards=seen)), "node 1 in its process 2"
        )
