"""Transfers make no money and lose none."""

from oncelog_robustness.checkers.bank import check
from oncelog_robustness.history import Outcome
from oncelog_robustness.workload_facts import BankOpened, BankRead, booking_value
from tests.unit.robustness.checkers.made_history import MadeHistory, assert_broken


def booking(account: str, amount: int, unique: str) -> str:
    return booking_value(account, amount, unique)


DEPOSITS = (booking("alice", 60, "d0"), booking("bob", 40, "d1"))
TRANSFER = (booking("alice", -5, "x0"), booking("bob", 5, "x1"))


def bank(second: bool = True, **final) -> MadeHistory:
    made = MadeHistory()
    made.txn(f"b-0@0 {DEPOSITS[0]}", f"b-1@0 {DEPOSITS[1]}")
    made.note(BankOpened(topic="b", partitions=2, total=100))
    made.txn(f"b-0@2 {TRANSFER[0]}", f"b-1@2 {TRANSFER[1]}", outcome=Outcome.INFO, client="w#9")
    made.final("b-0", f"0 {DEPOSITS[0]}", f"2 {TRANSFER[0]}", **final)
    made.final("b-1", f"0 {DEPOSITS[1]}", *([f"2 {TRANSFER[1]}"] if second else []))
    return made


def read(alice: int, is_consistent: bool = True) -> BankRead:
    return BankRead(
        topic="b", balances=(("alice", alice), ("bob", 40)), is_consistent=is_consistent
    )


def test_whole_transfers_are_fine():
    made = bank()
    made.note(read(60))
    made.assert_ok(check, judged=2)


def test_half_a_transfer_is_named():
    verdict = bank(second=False).judged_by(check)
    assert_broken(verdict, "95 instead of 100", TRANSFER[0], "b-0@2", "w#9", TRANSFER[1])


def test_a_consistent_read_with_another_sum_is_named():
    made = bank()
    made.note(read(55), client="auditor#1")
    made.assert_broken(check, "auditor#1", "95", "alice 55")


def test_a_read_that_may_have_seen_half_is_not_judged():
    made = bank()
    made.note(read(55, is_consistent=False))
    made.assert_ok(check, judged=1)


def test_a_booking_from_nowhere_is_named():
    made = bank()
    made.final("b-1", f"0 {DEPOSITS[1]}", f"2 {TRANSFER[1]}", f"4 {booking('bob', 1, 'z')}")
    made.assert_broken(check, "101 instead of 100", "nobody is known")


def test_a_bank_that_was_not_read_as_a_whole_is_not_judged():
    bank(complete=False).assert_unknown(check, "b-0")
    MadeHistory().assert_unknown(check, "no bank")
