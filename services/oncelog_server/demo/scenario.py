"""The input of a demo run, as one object: payments made from a seed, or the rows of a file.

The producer takes the rows from it, and the pipeline what to do with them. The proof takes the right answer, which is
computed from the seed or the file alone.
"""

import re
from collections.abc import Iterator
from typing import Protocol

from oncelog_server.demo import payments
from oncelog_server.demo.input_rows import ROW_PREFIX, Table
from oncelog_server.demo.netting import LEDGER, REFUNDS, REJECTED
from oncelog_server.demo.proof import PaymentsProof, Proof, RowsProof

TRANSACTION_ROWS_MAX = 10_000
TRANSACTIONS_TARGET = 50
BATCHES_TARGET = 20


class Scenario(Protocol):
    """One input of the demo, how it is transformed, and what must be on the topics in the end."""

    @property
    def title(self) -> str: ...
    @property
    def input_topic(self) -> str: ...
    @property
    def output_topics(self) -> tuple[str, ...]: ...
    @property
    def row_count(self) -> int: ...
    @property
    def numeric_columns(self) -> tuple[str, ...] | None:
        """Columns that the pipeline sums per key; None when the rows are payments."""
        ...

    def rows_from(self, row: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) of every row from number `row` on."""
        ...

    def row_number(self, value: bytes | None) -> int:
        """Return the number of the row that a record's value was made from. It is -1 for a value that this scenario did
        not make.
        """
        ...

    def proof(self) -> Proof: ...


class PaymentsScenario:
    """The demo's input of generated payments, as many as `rows`, from a seed. The result is a sum per merchant."""

    input_topic = "payments"
    output_topics = (LEDGER, REFUNDS, REJECTED)
    numeric_columns = None

    def __init__(self, rows: int, seed: int) -> None:
        self.row_count = rows
        self.seed = seed
        self.title = f"{rows:,} card payments (seed {seed})"
        self._number = _number_after(payments.PAYMENT_ID_PREFIX)

    def rows_from(self, row: int) -> Iterator[tuple[bytes, bytes]]:
        block, skip = divmod(row, payments.BLOCK_ROWS)
        for number in range(block, -(-self.row_count // payments.BLOCK_ROWS)):
            for payment in payments.payment_block(number, self.row_count, self.seed)[skip:]:
                yield payment.key(), payment.value()
            skip = 0

    def row_number(self, value: bytes | None) -> int:
        return _row_number(self._number, value)

    def proof(self) -> Proof:
        return PaymentsProof(
            self.row_count, payments.payments(self.row_count, self.seed), self.row_number
        )


class TableScenario:
    """The demo's input from a user's file. The result is a count of its rows, and sums of its columns, per key."""

    input_topic = "rows"
    output_topics = (LEDGER,)

    def __init__(self, table: Table, name: str) -> None:
        self.table = table
        self.row_count = table.row_count
        self.title = f"{table.row_count:,} rows of {name}, by {table.key_column}"
        self.numeric_columns: tuple[str, ...] | None = table.numeric_columns
        self._number = _number_after(ROW_PREFIX)

    def rows_from(self, row: int) -> Iterator[tuple[bytes, bytes]]:
        for number in range(row, self.row_count):
            yield self.table.key(number).encode(), self.table.value(number)

    def row_number(self, value: bytes | None) -> int:
        return _row_number(self._number, value)

    def proof(self) -> Proof:
        return RowsProof(self.table, self.row_number)


def transaction_rows(row_count: int) -> int:
    """Return how many rows the producer sends in one transaction. It is small enough that some kills fall within
    transactions and some between them.
    """
    return max(1, min(TRANSACTION_ROWS_MAX, row_count // TRANSACTIONS_TARGET))


def offsets_per_trigger(row_count: int) -> int:
    """Return how many offsets Spark reads in one micro-batch. It is small enough that some kills fall within
    micro-batches and some between them.
    """
    return max(1, row_count // BATCHES_TARGET)


def _number_after(prefix: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(prefix) + rb"(\d+)")


def _row_number(pattern: re.Pattern[bytes], value: bytes | None) -> int:
    match = pattern.match(value or b"")
    return int(match[1]) if match else -1
