"""Storage's recovery under kills and power cuts in every moment, judged by what was answered."""

import pytest
from tests.simulation.small_world import in_small_world
from tests.simulation.storage_storm import Storm

LIVES = 5


def storm(seed, *, is_powered, lives=LIVES):
    return in_small_world(seed, lambda small: Storm(small, is_powered=is_powered).run(lives))


@pytest.mark.parametrize("seed", range(6))
def test_kills_lose_nothing_that_was_answered(seed):
    answered, _ = storm(seed, is_powered=False)
    assert answered


@pytest.mark.parametrize("seed", range(14))
def test_power_cuts_lose_nothing_synced_before_its_answer(seed):
    answered, _ = storm(seed, is_powered=True)
    assert answered


def test_a_storm_is_the_same_when_it_is_run_again():
    assert storm(3, is_powered=True) == storm(3, is_powered=True)
    assert storm(3, is_powered=True) != storm(4, is_powered=True)
