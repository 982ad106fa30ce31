"""The generator of the demo: the same for ever, seekable, and honest about what it spoiled."""

import json

from oncelog_server.demo.netting import REJECTED, net_payments
from oncelog_server.demo.payments import BLOCK_ROWS, payment_block, payments
from oncelog_server.demo.scenario import PaymentsScenario


def test_same_seed_makes_the_same_payments():
    assert list(payments(3_000, 7)) == list(payments(3_000, 7))
    assert list(payments(3_000, 7)) != list(payments(3_000, 8))


def test_a_block_can_be_made_without_those_before_it():
    everything = list(payments(2 * BLOCK_ROWS + 5, 1))
    assert payment_block(1, 2 * BLOCK_ROWS + 5, 1) == everything[BLOCK_ROWS : 2 * BLOCK_ROWS]
    assert payment_block(2, 2 * BLOCK_ROWS + 5, 1) == everything[2 * BLOCK_ROWS :]


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    assert list(payments(100, 1)) == list(payments(BLOCK_ROWS + 1, 1))[:100]


def test_payment_ids_count_from_zero_without_gaps():
    assert [payment.payment_id for payment in payments(BLOCK_ROWS + 3, 2)] == list(
        range(BLOCK_ROWS + 3)
    )


def test_accounts_are_skewed_and_all_kinds_of_rows_occur():
    rows = list(payments(20_000, 1))
    by_account = {}
    for row in rows:
        by_account[row.account] = by_account.get(row.account, 0) + 1
    busiest = sorted(by_account.values(), reverse=True)
    assert sum(busiest[:50]) > len(rows) // 4
    assert {row.fault for row in rows} == {None, "amount", "currency", "merchant", "torn"}
    assert 0.02 < sum(row.is_refund for row in rows) / len(rows) < 0.06


def test_values_are_about_150_bytes_of_json():
    sizes = [len(row.value()) for row in payments(2_000, 1) if row.fault != "torn"]
    assert 130 < sum(sizes) / len(sizes) < 170
    good = next(row for row in payments(2_000, 1) if row.fault is None)
    assert json.loads(good.value())["payment_id"] == good.payment_id


def test_exactly_the_spoiled_rows_are_rejected_by_the_pipeline():
    scenario = PaymentsScenario(5_000, 3)
    outputs = net_payments((row.key(), row.value()) for row in payments(5_000, 3))
    rejected = [
        scenario.row_number(json.loads(output.value)["payment"].encode())
        for output in outputs
        if output.topic == REJECTED
    ]
    assert rejected == [row.payment_id for row in payments(5_000, 3) if row.fault is not None]


def test_rows_can_be_had_from_any_row_on():
    scenario = PaymentsScenario(BLOCK_ROWS + 50, 1)
    everything = list(scenario.rows_from(0))
    assert len(everything) == BLOCK_ROWS + 50
    assert list(scenario.rows_from(BLOCK_ROWS + 20)) == everything[BLOCK_ROWS + 20 :]
    assert list(scenario.rows_from(9_990))[:20] == everything[9_990:10_010]
