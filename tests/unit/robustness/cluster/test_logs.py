"""Checkers over the logs of replicas: producers, sequences, markers, copies."""

from dataclasses import replace

import pytest
from oncelog_robustness.checkers import (
    cluster_coordinator_epochs,
    cluster_fsync,
    cluster_holes,
    cluster_replicas,
    cluster_sequences,
)
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.history import Fault, History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog, Synced
from tests.unit.robustness.checkers.made_history import assert_broken, assert_unknown
from tests.worlds.robustness.cluster.seen import answer, data, judged, log, marker, replica


class TestSequences:
    @pytest.mark.parametrize(
        "batches",
        [
            (data(0, 7, 0, 0, count=3), data(3, 7, 0, 3), marker(4, 7, 0), data(5, 7, 0, 4)),
            (data(0, 7, 0, 0), data(1, 7, 1, 0), data(2, 7, 1, 1)),
            (data(0, 7, 0, 0), marker(1, 7, 1), data(2, 7, 1, 0)),
            (data(0, 7, 0, 0), data(1, 8, 0, 5, leader_epoch=2), data(2, 7, 0, 1)),
            (data(1, 7, 0, 2**31 - 2, count=2), data(3, 7, 0, 0)),
            (data(1, 7, 0, 2**31 - 1, count=3), data(4, 7, 0, 2)),
            (data(0, 7, 0, -1), marker(1, 7, 0), data(2, 7, 0, -1)),
            (marker(0, 7, 3), data(1, 7, 3, 0)),
        ],
    )
    def test_gapless(self, batches: tuple[BatchSeen, ...]) -> None:
        seen = Observations(logs=[log(*batches)])
        checked = [answer(cluster_sequences.check_sequences, seen)]
        only_unsequenced = batches[0].base_sequence < 0 and not batches[0].is_control
        assert checked == [Answer.UNKNOWN if only_unsequenced else Answer.OK]

    @pytest.mark.parametrize(
        "batches",
        [
            (data(0, 7, 0, 0), data(1, 7, 0, 2)),
            (data(0, 7, 0, 0), data(1, 7, 0, 0)),
            (data(0, 7, 0, 1),),
            (data(0, 7, 0, 0), data(1, 8, 0, 5)),
            (data(1, 7, 0, 5, count=2), marker(3, 7, 0), data(4, 7, 0, 5)),
            (data(0, 7, 0, 0), data(1, 7, 1, 1)),
            (data(0, 7, 0, 0), marker(1, 7, 1), data(2, 7, 1, 1)),
            (data(1, 7, 0, 2**31 - 1), data(2, 7, 0, 1)),
            (marker(0, 7, 3), data(1, 7, 3, 2)),
        ],
    )
    def test_broken(self, batches: tuple[BatchSeen, ...]) -> None:
        assert_broken(
            judged(cluster_sequences.check_sequences, Observations(logs=[log(*batches)])),
            f"at {batches[-1].base_offset};",
        )

    def test_what_retention_took_is_not_missed(self) -> None:
        seen = Observations(logs=[log(marker(9, 7, 3), data(10, 7, 3, 40), start=9)])
        assert answer(cluster_sequences.check_sequences, seen) is Answer.OK

    def test_compaction_makes_gaps_but_no_repetitions(self) -> None:
        gap = log(data(0, 7, 0, 0), data(5, 7, 0, 5), compacted=True)
        again = log(data(0, 7, 0, 0), data(5, 7, 0, 5), data(6, 7, 0, 5), compacted=True)
        checker = cluster_sequences.check_sequences
        assert answer(checker, Observations(logs=[gap])) is Answer.OK
        assert answer(checker, Observations(logs=[again])) is Answer.BROKEN

    def test_behind_a_damaged_batch_nothing_is_expected(self) -> None:
        damaged = replace(data(1, 7, 0, 1), is_sound=False)
        seen = log(data(0, 7, 0, 0), damaged, data(2, 7, 0, 2), data(3, 8, 0, 5))
        checker = cluster_sequences.check_sequences
        assert answer(checker, Observations(logs=[seen])) is Answer.OK


class TestHoles:
    def test_offsets_follow_each_other(self) -> None:
        seen = log(data(4, count=3), data(7), start=5)
        assert answer(cluster_holes.check, Observations(logs=[seen])) is Answer.OK

    def test_a_hole(self) -> None:
        assert_broken(
            judged(cluster_holes.check, Observations(logs=[log(data(0), data(2), node_id=3)])),
            "on node 3: behind the batch 0..0 stands one at 2",
        )

    def test_compaction_makes_holes_in_all_copies(self) -> None:
        copied = log(data(0), data(2), node_id=2)
        cleaned = log(data(0), data(2), node_id=1, compacted=True)
        assert_unknown(
            judged(cluster_holes.check, Observations(logs=[copied, cleaned])),
            "orders-0 is compacted",
        )


class TestProducerEpochs:
    def test_growing(self) -> None:
        seen = log(data(0, 7, 0), marker(1, 7, 1), data(2, 7, 1), data(3, 8, 0))
        checker = cluster_sequences.check_producer_epochs
        assert answer(checker, Observations(logs=[seen])) is Answer.OK

    @pytest.mark.parametrize("late", [data(2, 7, 0), marker(2, 7, 0)])
    def test_a_zombie(self, late: BatchSeen) -> None:
        seen = Observations(logs=[log(data(0, 7, 0), marker(1, 7, 1), late)])
        assert_broken(
            judged(cluster_sequences.check_producer_epochs, seen),
            "epoch 0 at 2, behind epoch 1 at 1",
        )


class TestCoordinatorEpochs:
    def test_growing(self) -> None:
        logs = [
            log(marker(0, 7, 0), marker(1, 8, 0, coordinator_epoch=4), marker(2, 7, 0)),
            log(
                data(0, 900, 0, plain=True), data(1, 901, 2, plain=True), topic="__consumer_offsets"
            ),
        ]
        assert answer(cluster_coordinator_epochs.check, Observations(logs=logs)) is Answer.OK

    def test_a_marker_of_an_old_coordinator(self) -> None:
        seen = log(marker(0, 7, 0, coordinator_epoch=2), marker(1, 7, 0, coordinator_epoch=1))
        assert_broken(
            judged(cluster_coordinator_epochs.check, Observations(logs=[seen])), "the one at 1 of 1"
        )

    def test_an_old_coordinator_that_wrote_to_its_shard(self) -> None:
        seen = log(
            data(0, 901, 2, plain=True), data(1, 900, 1, plain=True), topic="__transaction_state"
        )
        assert_broken(
            judged(cluster_coordinator_epochs.check, Observations(logs=[seen])),
            "a coordinator of epoch 1 wrote at 1",
        )

    def test_clients_in_a_shard_of_groups_are_no_coordinators(self) -> None:
        seen = log(
            data(0, 901, 2, plain=True),
            data(1, 7, 0, -1),
            data(2, 901, 2, 1, plain=True),
            topic="__consumer_offsets",
        )
        assert answer(cluster_coordinator_epochs.check, Observations(logs=[seen])) is Answer.OK


BATCHES = (data(0, 7, 0, 0, count=3), marker(3, 7, 0), data(4, 8, 0, 0))


class TestReplicas:
    def logs(self, *others: ReplicaLog) -> list[ReplicaLog]:
        return [log(*BATCHES, node_id=1), *others]

    @pytest.mark.parametrize(
        "other",
        [
            log(*BATCHES, node_id=2),
            log(*BATCHES[1:], node_id=2, start=3),
            log(*BATCHES, data(5, 9, 0), node_id=2, high=5),
            log(*BATCHES[1:], node_id=2, compacted=True),
        ],
        ids=["equal", "retention", "an uncommitted tail", "compaction"],
    )
    @pytest.mark.parametrize("is_healed", [False, True])
    def test_equal(self, other: ReplicaLog, is_healed: bool) -> None:
        seen = Observations(logs=self.logs(other), is_healed=is_healed)
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.OK
        expected = Answer.UNKNOWN if other.is_compacted else Answer.OK
        assert answer(cluster_replicas.check_same_bytes, seen) is expected

    def test_one_that_is_behind_is_broken_only_after_healing(self) -> None:
        behind = self.logs(log(BATCHES[0], node_id=2))
        checker = cluster_replicas.check_same_batches
        assert answer(checker, Observations(logs=behind)) is Answer.OK
        assert_broken(
            judged(checker, Observations(logs=behind, is_healed=True)),
            "the log of node 2 ends at 3",
        )

    @pytest.mark.parametrize(
        "other",
        [
            log(BATCHES[0], BATCHES[2], node_id=2),
            log(BATCHES[0], marker(3, 7, 0, "abort"), BATCHES[2], node_id=2),
            log(BATCHES[0], BATCHES[1], data(4, 8, 0, 0, leader_epoch=1), node_id=2),
            log(data(0, 7, 0, 0), data(1, 7, 0, 1, count=2), *BATCHES[1:], node_id=2),
        ],
        ids=["a batch is missing", "another marker", "another leader's batch", "other batches"],
    )
    def test_different(self, other: ReplicaLog) -> None:
        assert_broken(
            judged(cluster_replicas.check_same_batches, Observations(logs=self.logs(other))),
            "node 2",
        )

    def test_the_newest_log_of_a_node_counts(self) -> None:
        before = log(data(0, 9, 0), node_id=2, at_ms=1)
        seen = Observations(logs=[*self.logs(log(*BATCHES, node_id=2, at_ms=5)), before])
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.OK

    def test_the_end_of_a_log_is_no_log(self) -> None:
        end = replace(log(BATCHES[2], node_id=2, at_ms=9), is_part=True)
        seen = Observations(logs=[*self.logs(log(*BATCHES, node_id=2)), end], is_healed=True)
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.OK
        seen.logs[-1] = replace(end, is_part=False)
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.BROKEN

    def test_one_copy_alone_is_unknown(self) -> None:
        assert_unknown(
            judged(cluster_replicas.check_same_bytes, Observations(logs=self.logs())),
            "one node only",
        )

    def test_the_minority_is_named(self) -> None:
        flipped = (replace(BATCHES[0], checksum=9), *BATCHES[1:])
        logs = self.logs(log(*flipped, node_id=2), log(*BATCHES, node_id=3))
        seen = Observations(logs=logs)
        assert_broken(judged(cluster_replicas.check_same_bytes, seen), "(node 2 against 2)")
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.OK

    def test_a_copy_that_fails_its_crc_is_named_even_alone(self) -> None:
        damaged = replace(BATCHES[1], checksum=9, marker="", is_sound=False)
        seen = Observations(logs=[log(BATCHES[0], damaged, BATCHES[2], node_id=2)])
        assert_broken(
            judged(cluster_replicas.check_same_bytes, seen),
            "on node 2: the batch at 3 fails its CRC",
        )
        seen.logs += [log(*BATCHES, node_id=1), log(*BATCHES, node_id=3)]
        assert answer(cluster_replicas.check_same_batches, seen) is Answer.OK


class TestFsync:
    def test_it_is_there(self) -> None:
        seen = Observations(
            logs=[log(data(0), data(1), data(2), at_ms=9)],
            synced=[Synced(3, 1, "orders", 0, 2), Synced(9, 1, "orders", 0, 3)],
        )
        assert answer(cluster_fsync.check, seen) is Answer.OK

    def test_what_was_synced_later_or_elsewhere_is_not_asked_for(self) -> None:
        seen = Observations(
            logs=[log(data(0), at_ms=9)],
            synced=[Synced(10, 1, "orders", 0, 2), Synced(3, 2, "orders", 0, 2)],
        )
        assert answer(cluster_fsync.check, seen) is Answer.UNKNOWN

    def test_it_is_gone(self) -> None:
        seen = Observations(
            logs=[log(data(0), at_ms=9), log(data(0), data(1), at_ms=20)],
            synced=[Synced(3, 1, "orders", 0, 2)],
        )
        assert_broken(judged(cluster_fsync.check, seen), "at 9 ms the log ends at 1")

    def test_what_is_gone_from_its_middle_is_gone(self) -> None:
        promise = Synced(9, 1, "orders", 0, 4)
        torn = log(data(0), data(1), data(3), at_ms=9)
        damaged = log(data(0), replace(data(1), is_sound=False), data(2), data(3), at_ms=9)
        at_the_end = log(data(0), data(1), data(2), data(3), at_ms=20)
        for part, whole_until in ((torn.end_alone(), 2), (damaged.end_alone(), 1)):
            seen = Observations(logs=[part, at_the_end], synced=[promise])
            assert_broken(judged(cluster_fsync.check, seen), f"missing or damaged at {whole_until}")

    def test_a_whole_part_and_holes_of_a_compacted_log_are_fine(self) -> None:
        promise = Synced(9, 1, "orders", 0, 4)
        torn = log(data(0), data(1), data(3), at_ms=9).end_alone()
        compacted = log(data(0), data(3), at_ms=20, compacted=True)
        deleted_later = [torn]
        for logs in ([torn, compacted], deleted_later):
            seen = Observations(logs=logs, synced=[promise])
            assert answer(cluster_fsync.check, seen) is Answer.OK
        whole = log(data(2, count=2), data(4), start=3, at_ms=9)
        seen = Observations(logs=[whole.end_alone(), whole], synced=[promise])
        assert answer(cluster_fsync.check, seen) is Answer.OK

    def test_what_was_emptied_since_may_end_earlier(self) -> None:
        promise = Synced(3, 1, "orders", 0, 4)
        copied_again = log(data(0), at_ms=9).end_alone()
        emptied = replica(leads=False, high=0, end=1, at_ms=5, start_over_count=1)
        seen = Observations([emptied], [copied_again], synced=[promise])
        assert answer(cluster_fsync.check, seen) is Answer.UNKNOWN
        seen = Observations([replace(emptied, at_ms=2)], [copied_again], synced=[promise])
        assert answer(cluster_fsync.check, seen) is Answer.BROKEN

    def test_bits_that_turned_over_are_no_lie(self) -> None:
        fault = Fault(
            client="fault-plan",
            invoked_ms=1,
            completed_ms=2,
            kind=FaultKind.BIT_FLIP.value,
            target="storage-1",
        )
        seen = Observations(
            logs=[log(data(0), at_ms=9).end_alone()], synced=[Synced(9, 1, "orders", 0, 2)]
        )
        assert cluster_fsync.check(History(operations=[fault]), seen).answer is Answer.UNKNOWN
        assert cluster_fsync.check(History(), seen).answer is Answer.BROKEN
