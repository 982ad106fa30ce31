"""The demo's proof: compares the records that an independent reader found on the topics with what the input says must
be there. Pure.

It shares no code with the pipeline or the producer. The right answer comes from the seed or the file; what was found
comes record by record through `add`. Every row is counted by its number, so a duplicate cannot hide a loss. Money is
summed per account, so an error cannot hide in a total.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypedDict

from oncelog_server.demo.input_rows import Table
from oncelog_server.demo.payments import Payment

RowNumber = Callable[[bytes | None], int]
COUNT_MAX = 255
FLOAT_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the demo's proof: what was checked, what was expected and found, and whether it holds."""

    what: str
    expected: str
    found: str
    holds: bool


class Proof(Protocol):
    """Is given every committed record of the input and output topics, then tells which checks hold."""

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None: ...
    def checks(self) -> list[Check]: ...


class RowTally:
    """Counts how often each row of the demo's input was found among the records of the output, by the row's number.

    The argument `expected` of its methods has a byte for each row: 1 if the row must be found, else 0.
    """

    def __init__(self, row_count: int) -> None:
        self._counts = bytearray(row_count)
        self.found = 0
        self.unknown = 0

    def add(self, row: int) -> None:
        self.found += 1
        if not 0 <= row < len(self._counts):
            self.unknown += 1
        elif self._counts[row] < COUNT_MAX:
            self._counts[row] += 1

    def duplicates(self) -> int:
        """Return how many records are too many: a row found three times counts as two."""
        return sum(count - 1 for count in self._counts if count > 1)

    def missing(self, expected: bytearray) -> int:
        """Return how many rows that `expected` marks were never found."""
        return sum(1 for mark, count in zip(expected, self._counts, strict=True) if mark > count)

    def misplaced(self, expected: bytearray) -> int:
        """Return how many rows were found that `expected` does not mark, or that were never sent at all."""
        return self.unknown + sum(
            1 for mark, count in zip(expected, self._counts, strict=True) if count and not mark
        )


def _row_checks(what: str, tally: RowTally, expected: bytearray) -> list[Check]:
    duplicates, missing = tally.duplicates(), tally.missing(expected)
    misplaced = tally.misplaced(expected)
    return [
        _equal(f"{what}", sum(expected), tally.found),
        _equal(f"{what}: duplicates", 0, duplicates),
        _equal(f"{what}: missing", 0, missing),
        _equal(f"{what}: rows that do not belong", 0, misplaced),
    ]


def _equal(what: str, expected: int, found: int) -> Check:
    return Check(what, f"{expected:,}", f"{found:,}", expected == found)


class _Entry(TypedDict):
    """The JSON of a ledger entry: the payments to one merchant that one chunk summed up."""

    merchant: str
    net_cents: int
    count: int
    payments: list[tuple[int, str, int]]
    """Each payment's id, account and signed cents."""


class PaymentsProof:
    """Proves that every payment is on the ledger or rejected, once, and every refund on its topic. The sums per account
    must match, too.
    """

    def __init__(self, row_count: int, payments: Iterable[Payment], row_number: RowNumber) -> None:
        self._row_number = row_number
        self._is_good = bytearray(row_count)
        self._is_spoiled = bytearray(row_count)
        self._is_refund = bytearray(row_count)
        self._due_by_account: dict[str, int] = {}
        self._due_by_merchant: dict[str, int] = {}
        self._due_refund_cents = 0
        for payment in payments:
            self._expect(payment)
        self._input = RowTally(row_count)
        self._booked = RowTally(row_count)
        self._refunded = RowTally(row_count)
        self._rejected = RowTally(row_count)
        self._by_account: dict[str, int] = {}
        self._by_merchant: dict[str, int] = {}
        self._refund_cents = 0
        self._entries_that_do_not_add_up = 0

    def _expect(self, payment: Payment) -> None:
        if payment.fault is not None:
            self._is_spoiled[payment.payment_id] = 1
            return
        self._is_good[payment.payment_id] = 1
        self._is_refund[payment.payment_id] = payment.is_refund
        _add(self._due_by_account, payment.account, payment.signed_cents)
        _add(self._due_by_merchant, payment.merchant, payment.signed_cents)
        if payment.is_refund:
            self._due_refund_cents += payment.amount_cents

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        match topic:
            case "payments":
                self._input.add(self._row_number(value))
            case "ledger":
                self._add_entry(json.loads(value or b"null"))
            case "refunds":
                refund = json.loads(value or b"null")
                self._refunded.add(refund["payment_id"])
                self._refund_cents += refund["amount_cents"]
            case "rejected":
                payment = json.loads(value or b"null")["payment"]
                self._rejected.add(self._row_number(payment.encode()))
            case _:
                raise AssertionError(f"nobody writes to topic {topic}")

    def _add_entry(self, entry: _Entry) -> None:
        net_cents = 0
        for payment_id, account, signed_cents in entry["payments"]:
            self._booked.add(payment_id)
            _add(self._by_account, account, signed_cents)
            net_cents += signed_cents
        _add(self._by_merchant, entry["merchant"], entry["net_cents"])
        if net_cents != entry["net_cents"] or len(entry["payments"]) != entry["count"]:
            self._entries_that_do_not_add_up += 1

    def checks(self) -> list[Check]:
        everything = bytearray(b"\x01" * len(self._is_good))
        return [
            *_row_checks("payments sent", self._input, everything),
            *_row_checks("payments booked on the ledger", self._booked, self._is_good),
            *_row_checks("payments rejected", self._rejected, self._is_spoiled),
            *_row_checks("refunds", self._refunded, self._is_refund),
            _equal(
                "cents in total",
                sum(self._due_by_account.values()),
                sum(self._by_merchant.values()),
            ),
            _equal("cents refunded", self._due_refund_cents, self._refund_cents),
            _equal("accounts", len(self._due_by_account), len(self._by_account)),
            _equal(
                "accounts whose cents differ", 0, _differing(self._due_by_account, self._by_account)
            ),
            _equal(
                "merchants whose cents differ",
                0,
                _differing(self._due_by_merchant, self._by_merchant),
            ),
            _equal("ledger entries that do not add up", 0, self._entries_that_do_not_add_up),
        ]


class RowsProof:
    """Proves that every row of the file is counted under its key, once, and that each key's sums are those of the
    file.
    """

    def __init__(self, table: Table, row_number: RowNumber) -> None:
        self._table = table
        self._row_number = row_number
        self._input = RowTally(table.row_count)
        self._counted = RowTally(table.row_count)
        self._rows_under_wrong_key = 0
        self._entries_that_do_not_add_up = 0
        self._sums: dict[str, dict[str, list[int | float]]] = {}

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        if topic == "rows":
            self._input.add(self._row_number(value))
            return
        assert topic == "ledger", f"nobody writes to topic {topic}"
        entry = json.loads(value or b"null")
        for row in entry["rows"]:
            self._counted.add(row)
            is_known = 0 <= row < self._table.row_count
            self._rows_under_wrong_key += is_known and self._table.key(row) != entry["key"]
        self._entries_that_do_not_add_up += len(entry["rows"]) != entry["count"]
        sums = self._sums.setdefault(entry["key"], {})
        for column, number in entry["sums"].items():
            sums.setdefault(column, []).append(number)

    def checks(self) -> list[Check]:
        everything = bytearray(b"\x01" * self._table.row_count)
        due = self._due()
        checks = [
            *_row_checks("rows sent", self._input, everything),
            *_row_checks("rows counted", self._counted, everything),
            _equal("keys", len(due), len(self._sums)),
            _equal("rows under a wrong key", 0, self._rows_under_wrong_key),
            _equal("entries that do not add up", 0, self._entries_that_do_not_add_up),
        ]
        for column in self._table.numeric_columns:
            checks.extend(self._column_checks(column, due))
        return checks

    def _due(self) -> dict[str, dict[str, list[int | float]]]:
        due: dict[str, dict[str, list[int | float]]] = {}
        columns = {name: self._table.columns[name] for name in self._table.numeric_columns}
        for row in range(self._table.row_count):
            by_column = due.setdefault(self._table.key(row), {})
            for name, cells in columns.items():
                cell = cells[row]
                if isinstance(cell, int | float):
                    by_column.setdefault(name, []).append(cell)
        return due

    def _column_checks(
        self, column: str, due: dict[str, dict[str, list[int | float]]]
    ) -> list[Check]:
        nothing: dict[str, list[int | float]] = {}
        differing = sum(
            not _same(due.get(key, nothing).get(column, []), sums.get(column, []))
            for key, sums in self._sums.items()
        ) + sum(bool(sums.get(column)) for key, sums in due.items() if key not in self._sums)
        expected = [n for sums in due.values() for n in sums.get(column, [])]
        found = [n for sums in self._sums.values() for n in sums.get(column, [])]
        return [
            Check(
                f"sum of {column}",
                f"{_sum(expected):,}",
                f"{_sum(found):,}",
                _same(expected, found),
            ),
            _equal(f"keys whose sum of {column} differs", 0, differing),
        ]


def _add(sums: dict[str, int], name: str, amount: int) -> None:
    sums[name] = sums.get(name, 0) + amount


def _differing(due: dict[str, int], found: dict[str, int]) -> int:
    return sum(1 for name in {**due, **found} if due.get(name) != found.get(name))


def _sum(numbers: list[int | float]) -> int | float:
    return math.fsum(numbers) if any(isinstance(n, float) for n in numbers) else sum(numbers)


def _same(expected: list[int | float], found: list[int | float]) -> bool:
    """True if both lists have the same sum. Integers must match exactly. Floats may differ by what another order of
    adding changes.
    """
    due, got = _sum(expected), _sum(found)
    if isinstance(due, int) and isinstance(got, int):
        return due == got
    return abs(due - got) <= FLOAT_TOLERANCE * math.fsum(map(abs, expected))
