"""Pages of records have a share of the time, and a page that comes alone waits for nothing."""

import pytest

from oncelog_gateway.core.work_budget import BURST_S, REST, SHARE, WAIT_MAX_S, WorkBudget


def test_a_page_that_comes_alone_has_its_rests_alone():
    budget, turn = WorkBudget(0.0), BURST_S / 10
    assert [budget.spend(at / 1_000, turn) for at in range(10)] == [turn * REST] * 10
    assert budget.spend(100.0, 0.0) == 0.0


def test_page_upon_page_has_its_share_of_the_time():
    budget, now, worked = WorkBudget(0.0), 0.0, 0.0
    for _ in range(10_000):
        now += 0.002
        worked += 0.002
        now += budget.spend(now, 0.002)
    assert worked == pytest.approx(now * SHARE, rel=0.01)


def test_what_was_not_waited_for_is_owed():
    budget = WorkBudget(0.0)
    budget.spend(0.0, BURST_S + 0.04)
    assert budget.spend(0.0, 0.0) == pytest.approx(0.04 / SHARE)
    assert budget.spend(0.04 / SHARE, 0.0) == pytest.approx(0.0)
    assert budget.spend(1.0, 0.12) == WAIT_MAX_S


def test_an_idle_hour_saves_no_more_than_one_burst():
    budget = WorkBudget(0.0)
    budget.spend(3_600.0, BURST_S + 0.04)
    assert budget.spend(3_600.0, 0.0) == pytest.approx(0.04 / SHARE)
