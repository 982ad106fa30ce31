"""The proof has to fail when something is wrong: losses, doubles and altered amounts are planted here, one by one."""

import json

import pytest

from oncelog_server.demo.input_rows import Table
from oncelog_server.demo.netting import LEDGER, REFUNDS, REJECTED, net_payments, net_rows
from oncelog_server.demo.payments import payments
from oncelog_server.demo.scenario import PaymentsScenario, TableScenario

ROWS, SEED, CHUNK = 2_000, 5, 300


def run_payments():
    """Every record an undisturbed run leaves, as (topic, key, value)."""
    sent = [(row.key(), row.value()) for row in payments(ROWS, SEED)]
    records = [("payments", key, value) for key, value in sent]
    for start in range(0, ROWS, CHUNK):
        records.extend(net_payments(sent[start : start + CHUNK]))
    return records


def verdicts(scenario, records):
    proof = scenario.proof()
    for topic, key, value in records:
        proof.add(topic, key, value)
    return {check.what: check.holds for check in proof.checks()}


def failing(records):
    return {
        what for what, holds in verdicts(PaymentsScenario(ROWS, SEED), records).items() if not holds
    }


def position(records, topic):
    return next(i for i, record in enumerate(records) if record[0] == topic)


def altered(records, topic, change):
    """`records` with the first value of `topic` changed."""
    index = position(records, topic)
    content = json.loads(records[index][2])
    change(content)
    return [
        *records[:index],
        (topic, records[index][1], json.dumps(content).encode()),
        *records[index + 1 :],
    ]


def test_an_undisturbed_run_is_proven():
    assert failing(run_payments()) == set()


@pytest.mark.parametrize("topic", ["payments", LEDGER, REFUNDS, REJECTED])
def test_a_lost_record_fails_the_proof(topic):
    records = run_payments()
    del records[position(records, topic)]
    assert any("missing" in what for what in failing(records))


@pytest.mark.parametrize("topic", ["payments", LEDGER, REFUNDS, REJECTED])
def test_a_doubled_record_fails_the_proof(topic):
    records = run_payments()
    records.append(records[position(records, topic)])
    assert any("duplicates" in what for what in failing(records))


def test_a_loss_is_not_hidden_by_a_double():
    records = run_payments()
    first = position(records, REFUNDS)
    second = next(i for i in range(first + 1, len(records)) if records[i][0] == REFUNDS)
    records[first] = records[second]
    assert {"refunds: duplicates", "refunds: missing"} <= failing(records)
    assert "refunds" not in failing(records)


def test_an_altered_net_amount_fails_the_proof():
    def change(entry):
        entry["net_cents"] += 1

    assert "cents in total" in failing(altered(run_payments(), LEDGER, change))


def test_an_altered_line_fails_the_proof_of_its_account():
    def change(entry):
        entry["payments"][0][2] += 1

    wrong = failing(altered(run_payments(), LEDGER, change))
    assert {"accounts whose cents differ", "ledger entries that do not add up"} <= wrong


def test_money_moved_between_accounts_fails_the_proof():
    def change(entry):
        entry["payments"][0][2] += 100
        entry["payments"][1][2] -= 100

    wrong = failing(altered(run_payments(), LEDGER, change))
    assert "accounts whose cents differ" in wrong
    assert "cents in total" not in wrong


def test_money_moved_between_merchants_fails_the_proof():
    def change(entry):
        entry["merchant"] = "M9999"

    assert failing(altered(run_payments(), LEDGER, change)) == {"merchants whose cents differ"}


def test_an_altered_refund_fails_the_proof():
    def change(refund):
        refund["amount_cents"] += 1

    assert failing(altered(run_payments(), REFUNDS, change)) == {"cents refunded"}


def test_a_good_payment_among_the_rejected_fails_the_proof():
    good = next(row for row in payments(ROWS, SEED) if row.fault is None)
    rejection = json.dumps({"reason": "mood", "payment": good.value().decode()}).encode()
    wrong = failing([*run_payments(), (REJECTED, good.key(), rejection)])
    assert "payments rejected: rows that do not belong" in wrong


def test_a_payment_nobody_sent_fails_the_proof():
    wrong = failing([*run_payments(), ("payments", b"AC1", b'{"payment_id":999999}')])
    assert "payments sent: rows that do not belong" in wrong


TABLE = Table(
    {
        "city": ["A", "B", "A", "C", "B", "A"],
        "count": [1, 2, 3, None, 5, 6],
        "miles": [0.1, 0.2, 0.3, 0.4, None, 0.6],
    },
    "city",
)


def run_rows():
    scenario = TableScenario(TABLE, "cities")
    sent = list(scenario.rows_from(0))
    records = [("rows", key, value) for key, value in sent]
    for chunk in (sent[:2], sent[2:5], sent[5:]):
        records.extend(net_rows(chunk, scenario.numeric_columns))
    return scenario, records


def test_rows_of_a_file_are_proven():
    scenario, records = run_rows()
    assert all(verdicts(scenario, records).values())


@pytest.mark.parametrize("topic", ["rows", LEDGER])
def test_a_lost_or_doubled_row_record_fails_the_proof(topic):
    scenario, records = run_rows()
    index = position(records, topic)
    assert not all(verdicts(scenario, records[:index] + records[index + 1 :]).values())
    assert not all(verdicts(scenario, [*records, records[index]]).values())


@pytest.mark.parametrize("column", ["count", "miles"])
def test_an_altered_sum_fails_the_proof_of_its_column(column):
    scenario, records = run_rows()

    def change(entry):
        entry["sums"][column] += 1

    verdict = verdicts(scenario, altered(records, LEDGER, change))
    assert not verdict[f"sum of {column}"]
    assert not verdict[f"keys whose sum of {column} differs"]


def test_a_row_counted_under_another_key_fails_the_proof():
    scenario, records = run_rows()

    def change(entry):
        entry["key"] = "B"

    assert not verdicts(scenario, altered(records, LEDGER, change))["rows under a wrong key"]
