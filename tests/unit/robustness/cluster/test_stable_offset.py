"""The LSO and markers that the high watermark has not passed."""

import pytest
from oncelog_robustness.checkers import cluster_stable_offset
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.observations import Observations
from tests.unit.robustness.checkers.made_history import assert_broken
from tests.worlds.robustness.cluster.seen import answer, data, judged, log, marker, replica

LOG = log(data(0, 7), data(1), data(2, 8), marker(3, 8, 0, "abort"), marker(4, 7, 0))


@pytest.mark.parametrize(("stable", "high"), [(1, 5), (3, 5), (5, 5)])
def test_behind_a_committed_marker_is_right(stable: int, high: int) -> None:
    assert (
        answer(
            cluster_stable_offset.check, Observations([replica(stable=stable, high=high)], [LOG])
        )
        is Answer.OK
    )


@pytest.mark.parametrize(
    ("stable", "high"), [(1, 1), (2, 4), (4, 4)], ids=["nothing", "no marker", "its marker"]
)
def test_before_the_marker_is_committed_is_wrong(stable: int, high: int) -> None:
    assert_broken(
        judged(
            cluster_stable_offset.check, Observations([replica(stable=stable, high=high)], [LOG])
        ),
        "producer 7 that begins at 0 ends at 4",
    )


def test_a_transaction_without_end_is_never_passed() -> None:
    assert_broken(
        judged(
            cluster_stable_offset.check,
            Observations([replica(stable=2, high=3)], [log(data(0, 7), data(1))]),
        ),
        "never ends",
    )


def test_incomplete_logs_are_not_judged() -> None:
    follower = replica(leads=False, high=4)
    deleted = replica(start=1, stable=2, high=4)
    assert (
        answer(cluster_stable_offset.check, Observations([follower, deleted], [LOG]))
        is Answer.UNKNOWN
    )
    compacted = log(*LOG.batches, compacted=True)
    assert (
        answer(cluster_stable_offset.check, Observations([replica(stable=2, high=4)], [compacted]))
        is Answer.UNKNOWN
    )
