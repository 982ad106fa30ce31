"""Checkers that hold logs against what the coordinators recorded."""

from dataclasses import replace

import pytest
from oncelog_robustness.checkers import (
    cluster_open_transactions,
    cluster_outcomes,
    cluster_producer_ids,
    cluster_transitions,
)
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.observations import (
    BatchSeen,
    Observations,
    ProducerIdsGiven,
    ReplicaLog,
    StateRecorded,
)
from tests.unit.robustness.checkers.made_history import assert_broken, assert_unknown
from tests.worlds.robustness.cluster.seen import (
    answer,
    data,
    judged,
    log,
    marker,
    replica,
    shard_log,
    states,
)

TWO_OF_TV1 = (
    ("Empty", 0),
    ("Ongoing", 0),
    ("PrepareCommit", 0),
    ("CompleteCommit", 0),
    ("Ongoing", 0),
    ("PrepareAbort", 0),
    ("CompleteAbort", 0),
)
TWO_OF_TV2 = (
    ("Empty", 0),
    ("Ongoing", 0),
    ("PrepareCommit", 1),
    ("CompleteCommit", 1),
    ("Ongoing", 1),
    ("PrepareAbort", 2),
    ("CompleteAbort", 2),
)


class TestTransitions:
    def seen(self, recorded: list[StateRecorded], *, compacted: bool = False) -> Observations:
        return Observations(states=recorded, logs=[shard_log(len(recorded), compacted=compacted)])

    @pytest.mark.parametrize(
        "given",
        [
            TWO_OF_TV1,
            TWO_OF_TV2,
            (("Empty", 0), ("Empty", 1), ("Ongoing", 1), ("Ongoing", 1), ("PrepareAbort", 2)),
            (("Empty", 0), ("PrepareAbort", 1), ("CompleteAbort", 1), ("Empty", 2), ("Dead", -1)),
            (("Empty", 0), ("Dead", -1), ("Empty", 0)),
        ],
    )
    def test_legal(self, given: tuple[tuple[str, int], ...]) -> None:
        recorded = [
            replace(one, producer_id=-1) if one.state == "Dead" else one for one in states(*given)
        ]
        if given[1] == ("PrepareAbort", 1):
            recorded[1] = replace(recorded[1], partitions=())
        assert answer(cluster_transitions.check, self.seen(recorded)) is Answer.OK

    @pytest.mark.parametrize(
        "given",
        [
            (("Ongoing", 0),),
            (("Empty", 0), ("PrepareCommit", 0)),
            (("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("PrepareAbort", 0)),
            (("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("CompleteAbort", 0)),
            (("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("PrepareCommit", 0)),
            (("Empty", 0), ("Ongoing", 0), ("Empty", 1)),
            (("Empty", 0), ("Ongoing", 0), ("Dead", -1)),
            (("Empty", 1), ("Empty", 0)),
            (("Empty", 0), ("Empty", 2)),
            (("Empty", 0), ("Ongoing", 1)),
            (("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("CompleteCommit", 1)),
            (("Empty", 0), ("Nowhere", 0)),
        ],
    )
    def test_illegal(self, given: tuple[tuple[str, int], ...]) -> None:
        assert_broken(
            judged(cluster_transitions.check, self.seen(states(*given))),
            f"{given[-1][0]} of producer 7 epoch {given[-1][1]}",
        )

    def test_a_decision_about_other_partitions(self) -> None:
        recorded = states(("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0))
        recorded[2] = replace(recorded[2], partitions=(("orders", 0), ("orders", 1)))
        assert answer(cluster_transitions.check, self.seen(recorded)) is Answer.BROKEN

    def test_a_transaction_that_loses_a_partition(self) -> None:
        recorded = states(("Empty", 0), ("Ongoing", 0), ("Ongoing", 0))
        recorded[2] = replace(recorded[2], partitions=(("orders", 1),))
        assert answer(cluster_transitions.check, self.seen(recorded)) is Answer.BROKEN

    def test_another_producer_id_only_between_transactions(self) -> None:
        recorded = states(("Empty", 0), ("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0))
        recorded[1] = replace(recorded[1], producer_id=6)
        recorded[0] = replace(recorded[0], producer_id=5)
        recorded[2] = replace(recorded[2], producer_id=6)
        assert answer(cluster_transitions.check, self.seen(recorded[:3])) is Answer.OK
        assert answer(cluster_transitions.check, self.seen(recorded)) is Answer.BROKEN

    def kept(self, *owners: tuple[int, int] | None) -> list[StateRecorded]:
        """Each record's second identity, behind Empty and the first Ongoing; it ends as the last one says."""
        told = [("Empty", 5), ("Ongoing", 5), *[("Ongoing", 5)] * (len(owners) - 1)]
        recorded = states(*told, ("PrepareCommit", 6), ("CompleteCommit", 6))
        for at, owner in enumerate(owners, start=2):
            recorded[at] = replace(recorded[at], next_owner=owner)
        return recorded

    def handed_on(self, recorded: list[StateRecorded], owner: tuple[int, int]) -> Answer:
        done = replace(recorded[-1], producer_id=owner[0], producer_epoch=owner[1])
        return answer(cluster_transitions.check, self.seen([*recorded[:-1], done]))

    def test_a_kept_transaction_ends_with_its_newest_owner(self) -> None:
        assert self.handed_on(self.kept((7, 6), (7, 7), (7, 8)), (7, 8)) is Answer.OK
        assert self.handed_on(self.kept((7, 6), (9, 0), (9, 1)), (9, 1)) is Answer.OK

    @pytest.mark.parametrize(
        ("owners", "last"),
        [
            (((7, 6), (7, 6), (7, 7)), (7, 7)),
            (((7, 6), (7, 5), (7, 6)), (7, 6)),
            (((7, 6), (9, 3), (9, 4)), (9, 4)),
            (((7, 6), None, (7, 7)), (7, 7)),
            (((7, 6), (7, 6)), (7, 6)),
            (((7, 6), (7, 7)), (7, 8)),
            (((7, 6), None), (7, 6)),
        ],
    )
    def test_an_owner_that_is_not_new_or_not_followed(self, owners, last) -> None:
        assert self.handed_on(self.kept(*owners), last) is Answer.BROKEN

    def test_after_compaction_an_id_may_begin_anywhere(self) -> None:
        recorded = states(("PrepareCommit", 0), ("CompleteCommit", 0))
        seen = self.seen(recorded, compacted=True)
        assert answer(cluster_transitions.check, seen) is Answer.OK
        assert answer(cluster_transitions.check, self.seen(recorded)) is Answer.BROKEN

    def test_what_compaction_took_in_between_is_not_missed(self) -> None:
        """As of a shard of which the newest records of a cleaned part stand before a part that was never cleaned."""
        left = states(("CompleteCommit", 25))[0]
        kept = [
            replace(one, offset=one.offset + 281)
            for one in states(("Ongoing", 58), ("PrepareCommit", 59), ("CompleteCommit", 59))
        ]
        check = cluster_transitions.check
        assert answer(check, self.seen([left, *kept], compacted=True)) is Answer.OK
        assert answer(check, self.seen([left, *kept])) is Answer.BROKEN
        torn = [left, kept[0], replace(kept[2], offset=kept[1].offset)]
        assert answer(check, self.seen(torn, compacted=True)) is Answer.BROKEN

    def test_over_a_hole_that_compaction_made_nothing_is_said(self) -> None:
        recorded = states(("CompleteCommit", 0), ("Empty", 9), ("Ongoing", 9))
        apart = [recorded[0], *(replace(one, offset=one.offset + 40) for one in recorded[1:])]
        assert answer(cluster_transitions.check, self.seen(apart, compacted=True)) is Answer.OK
        seen = self.seen(recorded, compacted=True)
        assert answer(cluster_transitions.check, seen) is Answer.BROKEN


class TestOutcomes:
    def seen(
        self, recorded: list[StateRecorded], *logs: ReplicaLog, compacted: bool = False
    ) -> Observations:
        shard = shard_log(len(recorded), compacted=compacted)
        return Observations(states=recorded, logs=[shard, *logs])

    @pytest.mark.parametrize(
        ("given", "batches"),
        [
            (
                TWO_OF_TV1,
                (data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0, "abort")),
            ),
            (
                TWO_OF_TV2,
                (data(0, 7), marker(1, 7, 1), data(2, 7, 1), marker(3, 7, 2, "abort")),
            ),
            (TWO_OF_TV1, (marker(0, 7, 0), marker(1, 7, 0), marker(2, 7, 0, "abort"))),
            (
                TWO_OF_TV1,
                (data(0, 7), marker(1, 7, 0), marker(2, 7, 0), marker(3, 7, 0, "abort")),
            ),
            (TWO_OF_TV1[:3], (data(0, 7),)),
            (TWO_OF_TV1[:3], (data(0, 7), marker(1, 7, 0))),
        ],
        ids=["TV1", "TV2", "no data", "a marker twice", "not written yet", "not completed yet"],
    )
    def test_one_outcome(
        self, given: tuple[tuple[str, int], ...], batches: tuple[BatchSeen, ...]
    ) -> None:
        seen = self.seen(states(*given), log(*batches))
        assert answer(cluster_outcomes.check, seen) is Answer.OK

    @pytest.mark.parametrize(
        ("given", "batches", "about"),
        [
            (TWO_OF_TV1[:4], (data(0, 7), marker(1, 7, 0, "abort")), "abort marker"),
            (TWO_OF_TV2[:4], (data(0, 7), marker(1, 7, 0)), "epoch 0 ends records"),
            (
                TWO_OF_TV1[:4],
                (data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0)),
                "at 3: a commit marker",
            ),
            (
                TWO_OF_TV1,
                (data(0, 7), marker(1, 7, 0, "abort"), data(2, 7, 0, 1), marker(3, 7, 0)),
                "at 1: a abort marker",
            ),
            (TWO_OF_TV1[:4], (data(0, 7),), "no marker for pay's PrepareCommit"),
            (TWO_OF_TV1, (data(0, 7), marker(1, 7, 0)), "no marker for pay's PrepareAbort"),
            (TWO_OF_TV1[:2], (data(0, 7), marker(1, 7, 0)), "commit marker"),
            (TWO_OF_TV1, (data(0, 7), marker(1, 7, 0, "abort")), "at 1: a abort marker"),
        ],
        ids=[
            "the other outcome",
            "another epoch",
            "data ended by a late marker",
            "the other order",
            "no marker",
            "no second marker",
            "a marker without a decision",
            "the first decision passed over",
        ],
    )
    def test_two_outcomes(
        self, given: tuple[tuple[str, int], ...], batches: tuple[BatchSeen, ...], about: str
    ) -> None:
        assert_broken(
            judged(cluster_outcomes.check, self.seen(states(*given), log(*batches))), about
        )

    def test_partitions_that_disagree(self) -> None:
        both = (("orders", 0), ("orders", 1))
        recorded = states(*TWO_OF_TV2[:4], partitions=both)
        good = log(data(0, 7), marker(1, 7, 1))
        bad = log(data(0, 7), marker(1, 7, 1, "abort"), partition=1)
        same = replace(good, partition=1)
        assert answer(cluster_outcomes.check, self.seen(recorded, good, same)) is Answer.OK
        assert_broken(
            judged(cluster_outcomes.check, self.seen(recorded, good, bad)), "orders-1 at 1"
        )

    def test_a_log_without_its_beginning_may_lack_markers(self) -> None:
        rest = log(data(2, 7, 0, 1), marker(3, 7, 0, "abort"), start=2)
        assert answer(cluster_outcomes.check, self.seen(states(*TWO_OF_TV1), rest)) is Answer.OK

    def test_a_compacted_log_may_lack_markers_anywhere(self) -> None:
        rest = log(data(0, 7), marker(1, 7, 0), data(5, 8, 0), compacted=True)
        seen = self.seen(states(*TWO_OF_TV1), rest)
        assert answer(cluster_outcomes.check, seen) is Answer.OK
        seen.logs[-1] = replace(rest, is_compacted=False)
        assert answer(cluster_outcomes.check, seen) is Answer.BROKEN

    def test_a_shard_of_groups_may_lack_markers_but_has_no_others(self) -> None:
        offsets = (("__consumer_offsets", 0),)
        recorded = states(*TWO_OF_TV1, partitions=offsets)
        empty = log(topic="__consumer_offsets")
        wrong = log(data(0, 7, 0, -1), marker(1, 7, 3), topic="__consumer_offsets")
        assert answer(cluster_outcomes.check, self.seen(recorded, empty)) is Answer.OK
        assert answer(cluster_outcomes.check, self.seen(recorded, wrong)) is Answer.BROKEN

    def test_states_without_their_beginning_explain_the_end(self) -> None:
        recorded = states(*TWO_OF_TV1[4:])
        both = log(data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0, "abort"))
        wrong = log(data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0, "commit"))
        check = cluster_outcomes.check
        assert answer(check, self.seen(recorded, both, compacted=True)) is Answer.OK
        assert answer(check, self.seen(recorded, both)) is Answer.BROKEN
        assert answer(check, self.seen(recorded, wrong, compacted=True)) is Answer.BROKEN

    def test_a_late_marker_may_be_of_a_decision_that_compaction_took(self) -> None:
        commit = (("Ongoing", 0), ("PrepareCommit", 0), ("CompleteCommit", 0))
        recorded = states(*commit, *commit)
        first, last = (data(0, 7), marker(1, 7, 0)), (data(4, 7, 0, 2), marker(5, 7, 0))
        late = log(*first, marker(2, 7, 0, "abort"), *last)
        ends_data = log(*first, data(2, 7, 0, 1), marker(3, 7, 0, "abort"), *last)
        check = cluster_outcomes.check
        assert answer(check, self.seen(recorded, late, compacted=True)) is Answer.OK
        assert answer(check, self.seen(recorded, late)) is Answer.BROKEN
        assert answer(check, self.seen(recorded, ends_data, compacted=True)) is Answer.BROKEN

    def test_a_producer_that_began_again_had_transactions_before(self) -> None:
        again = (("Empty", 1), ("Ongoing", 1), ("PrepareCommit", 1), ("CompleteCommit", 1))
        seen = log(data(0, 7), marker(1, 7, 0, "abort"), data(2, 7, 1), marker(3, 7, 1))
        for given in (again, (("CompleteAbort", 0), *again)):
            recorded = states(*given)
            compacted = self.seen(recorded, seen, compacted=True)
            assert answer(cluster_outcomes.check, compacted) is Answer.OK
            assert answer(cluster_outcomes.check, self.seen(recorded, seen)) is Answer.BROKEN

    def test_states_with_a_hole_explain_what_is_on_both_sides_of_it(self) -> None:
        first, last = states(*TWO_OF_TV1[:4]), states(*TWO_OF_TV1[4:])
        recorded = [*first, *(replace(one, offset=one.offset + 40) for one in last)]
        written = (data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0))
        end = (data(4, 7, 0, 2), marker(5, 7, 0, "abort"))
        good = self.seen(recorded, log(*written, *end), compacted=True)
        assert answer(cluster_outcomes.check, good) is Answer.OK
        assert answer(cluster_outcomes.check, self.seen(recorded, log(*written, *end))) is (
            Answer.BROKEN
        )
        wrong = (data(4, 7, 0, 2), marker(5, 7, 0, "commit"))
        bad = self.seen(recorded, log(*written, *wrong), compacted=True)
        assert answer(cluster_outcomes.check, bad) is Answer.BROKEN

    def test_partitions_that_disagree_about_what_compaction_took(self) -> None:
        both = (("orders", 0), ("orders", 1))
        later = states(("Ongoing", 4), ("PrepareCommit", 5), ("CompleteCommit", 5), partitions=both)
        rest = (data(4, 7, 4), marker(5, 7, 5))
        one = log(data(0, 7), marker(1, 7, 1), data(2, 8), data(3, 8, 0, 1), *rest)
        same = replace(one, partition=1)
        aborted = (data(0, 7), marker(1, 7, 1, "abort"), data(2, 8), data(3, 8, 0, 1))
        other = log(*aborted, *rest, partition=1)
        assert answer(cluster_outcomes.check, self.seen(later, one, same, compacted=True)) is (
            Answer.OK
        )
        assert_broken(
            judged(cluster_outcomes.check, self.seen(later, one, other, compacted=True)),
            "producer 7 wrote in epoch 0 was ended twice",
            "abort in orders-1 at 1, commit in orders-0 at 1",
        )

    def test_transactions_of_one_epoch_may_end_differently(self) -> None:
        ended = (("Ongoing", 0), ("PrepareAbort", 0), ("CompleteAbort", 0))
        one = log(data(0, 7), marker(1, 7, 0), data(2, 7, 0, 1), marker(3, 7, 0, "abort"))
        assert answer(cluster_outcomes.check, self.seen(states(*ended), one, compacted=True)) is (
            Answer.OK
        )

    def test_branches_of_a_sink_agree(self) -> None:
        recorded = states(("Empty", 0))
        one = log(data(0, 50), marker(1, 50, 1))
        same = log(data(0, 50), marker(1, 50, 1), partition=1)
        other = log(data(0, 50), marker(1, 50, 1, "abort"), partition=1)
        assert answer(cluster_outcomes.check, self.seen(recorded, one, same)) is Answer.OK
        assert_broken(
            judged(cluster_outcomes.check, self.seen(recorded, one, other)),
            "abort in orders-1 at 1, commit in orders-0 at 1",
        )


class TestOpenTransactions:
    def test_nothing_is_open(self) -> None:
        seen = Observations(
            replicas=[replica(stable=1, high=2), replica(stable=2, high=2, end=2)],
            logs=[log(data(0, 7), marker(1, 7, 1))],
            states=states(*TWO_OF_TV2[:4]),
            is_healed=True,
        )
        assert answer(cluster_open_transactions.check, seen) is Answer.OK

    def test_before_healing_nobody_knows(self) -> None:
        seen = Observations(logs=[log(data(0, 7))], states=states(*TWO_OF_TV2[:4]))
        assert_unknown(judged(cluster_open_transactions.check, seen), "not healed")

    @pytest.mark.parametrize(
        ("seen", "about"),
        [
            (
                Observations(logs=[log(data(0, 7))], states=states(*TWO_OF_TV2[:4])),
                "open since offset 0; its coordinator says pay is CompleteCommit",
            ),
            (
                Observations(logs=[log(data(0, 7), marker(1, 7, 1), data(2, 7, 1))]),
                "open since offset 2; no coordinator",
            ),
            (Observations(states=states(*TWO_OF_TV2[:3])), "pay is still PrepareCommit"),
            (
                Observations(replicas=[replica(stable=1, high=2)], logs=[log(data(0))]),
                "LSO 1 below HW 2",
            ),
        ],
        ids=["in a partition", "data behind its end", "at its coordinator", "the LSO"],
    )
    def test_stuck(self, seen: Observations, about: str) -> None:
        seen.is_healed = True
        assert_broken(judged(cluster_open_transactions.check, seen), about)

    def test_an_old_leaders_last_words_do_not_count(self) -> None:
        seen = Observations(
            replicas=[replica(2, epoch=1, high=2), replica(1, epoch=0, stable=1, high=2)],
            logs=[log(data(0))],
            is_healed=True,
        )
        assert answer(cluster_open_transactions.check, seen) is Answer.OK

    def test_a_topic_that_was_deleted_is_not_stuck(self) -> None:
        seen = Observations(
            replicas=[replica(stable=1, high=2)],
            logs=[log(data(0), partition=1)],
            is_healed=True,
        )
        assert answer(cluster_open_transactions.check, seen) is Answer.OK


class TestProducerIds:
    def block(self, first: int, count: int = 10) -> ProducerIdsGiven:
        return ProducerIdsGiven(4, 1, first, count)

    def test_each_once(self) -> None:
        seen = Observations(
            blocks=[self.block(900), self.block(0)],
            states=states(("Empty", 0)),
            logs=[log(data(0, 7), data(1, 8, plain=True)), shard_log(2)],
        )
        assert answer(cluster_producer_ids.check, seen) is Answer.OK

    def test_blocks_that_overlap(self) -> None:
        seen = Observations(blocks=[self.block(0), self.block(9)])
        assert_broken(judged(cluster_producer_ids.check, seen), "0..9", "9..18")

    def test_two_transactional_ids(self) -> None:
        other = replace(states(("Empty", 0))[0], transactional_id="refund", offset=1)
        assert_broken(
            judged(cluster_producer_ids.check, Observations(states=[*states(("Empty", 0)), other])),
            "transactional id pay",
            "transactional id refund",
        )

    @pytest.mark.parametrize(
        "other",
        [log(data(0, 7, plain=True)), log(data(0, 7, plain=True), topic="__consumer_offsets")],
        ids=["an idempotent producer", "a coordinator"],
    )
    def test_a_transactional_id_and(self, other: ReplicaLog) -> None:
        seen = Observations(states=states(("Empty", 0)), logs=[other])
        assert answer(cluster_producer_ids.check, seen) is Answer.BROKEN

    def test_an_id_from_no_block(self) -> None:
        seen = Observations(blocks=[self.block(0, 5), self.block(20)], states=states(("Empty", 0)))
        assert_broken(judged(cluster_producer_ids.check, seen), "in no block")
