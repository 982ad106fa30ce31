"""What controllers write to the metadata journal, term by term."""

import pytest
from oncelog_robustness.checkers.cluster_metadata import check
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.observations import MetadataWritten, Observations
from tests.unit.robustness.checkers.made_history import assert_broken
from tests.worlds.robustness.cluster.seen import judged


def written(epoch: int, first: int, count: int = 1, *, by: int = 1, at: int = 0) -> MetadataWritten:
    return MetadataWritten(at, by, epoch, first, count)


@pytest.mark.parametrize(
    "metadata",
    [
        [written(1, 0, 3), written(1, 3), written(2, 4, by=2), written(4, 5, 2)],
        [written(1, 0, 3), written(2, 7, by=2)],
        # Seen late: it froze behind its append, and another one took over meanwhile.
        [written(2, 3, by=2, at=50), written(1, 0, 3, at=90)],
    ],
    ids=["one after the other", "an answer was lost", "seen late"],
)
def test_one_term_behind_the_other_is_right(metadata: list[MetadataWritten]) -> None:
    verdict = judged(check, Observations(metadata=metadata))
    assert verdict.answer is Answer.OK
    assert verdict.judged == len(metadata) - 1


def test_an_earlier_term_behind_a_newer_one_is_wrong() -> None:
    metadata = [written(1, 0), written(2, 1, 2, by=2), written(1, 3, at=90)]
    verdict = judged(check, Observations(metadata=metadata))
    assert verdict.answer is Answer.BROKEN
    assert verdict.proof == (
        "metadata 3..3 of controller 1 (controller epoch 1, 90 ms) came behind"
        " metadata 1..2 of controller 2 (controller epoch 2, 0 ms)",
    )


@pytest.mark.parametrize("late", [written(1, 2, at=90), written(2, 2, by=3, at=90)])
def test_two_who_did_not_know_of_each_other_are_wrong(late: MetadataWritten) -> None:
    assert_broken(
        judged(check, Observations(metadata=[written(1, 0), written(2, 1, 2, by=2), late])),
        "overlap",
    )
