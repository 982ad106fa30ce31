"""The transformation that the demo's Spark pipeline applies to a chunk of records. Pure: records in, records out, and
nothing is kept between chunks.

Payments are checked, and the good ones of a chunk become one ledger entry for each merchant, with their sum. An entry
lists its payments, so the proof can find every one of them. Refunds also go to a topic of their own. A payment that is
not valid goes to `rejected`, with the reason and its bytes as they came.

Rows of a user's file are counted and summed per key in the same way.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LEDGER = "ledger"
REFUNDS = "refunds"
REJECTED = "rejected"
CURRENCIES = frozenset({"EUR"})
KINDS = frozenset({"payment", "refund"})


class Output(NamedTuple):
    """A record that the demo's pipeline wants written, with its topic."""

    topic: str
    key: bytes
    value: bytes


class InvalidPayment(ValueError):
    """A payment that is not valid, and so goes to `rejected`; the text is the reason."""


def net_payments(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[Output]:
    """Sum up one chunk of payments, given as (key, value). Returns the records to write: a ledger entry per merchant,
    each refund, each rejected payment.
    """
    lines: dict[str, list[tuple[int, str, int]]] = {}
    outputs: list[Output] = []
    for key, value in records:
        try:
            payment_id, account, merchant, signed_cents = _booking(value)
        except InvalidPayment as reason:
            outputs.append(Output(REJECTED, key or b"", _rejection(str(reason), value)))
            continue
        lines.setdefault(merchant, []).append((payment_id, account, signed_cents))
        if signed_cents < 0:
            refund = {"payment_id": payment_id, "account": account, "amount_cents": -signed_cents}
            outputs.append(Output(REFUNDS, account.encode(), _json(refund)))
    outputs.extend(
        Output(LEDGER, merchant.encode(), _payments_entry(merchant, lines[merchant]))
        for merchant in lines
    )
    return outputs


def net_rows(
    records: Iterable[tuple[bytes | None, bytes | None]], numeric_columns: Sequence[str]
) -> list[Output]:
    """Count the rows of one chunk of (key, value) by key, and sum `numeric_columns`. Each value is a JSON object with
    the row's number under `row`. Returns the records to write.
    """
    rows: dict[bytes, list[int]] = {}
    cells: dict[bytes, list[list[int | float]]] = {}
    for key, value in records:
        row = json.loads(value or b"null")
        group = key or b""
        if group not in rows:
            rows[group] = []
            cells[group] = [[] for _ in numeric_columns]
        rows[group].append(row["row"])
        for column, numbers in zip(numeric_columns, cells[group], strict=True):
            if row[column] is not None:
                numbers.append(row[column])
    outputs = []
    for group, numbers_by_column in cells.items():
        entry = {
            "key": group.decode(),
            "count": len(rows[group]),
            "sums": {
                column: total(numbers)
                for column, numbers in zip(numeric_columns, numbers_by_column, strict=True)
            },
            "rows": rows[group],
        }
        outputs.append(Output(LEDGER, group, _json(entry)))
    return outputs


def total(numbers: Sequence[int | float]) -> int | float:
    """Return the sum: exact for integers; for floats the correctly rounded sum, whatever their order."""
    return math.fsum(numbers) if any(isinstance(n, float) for n in numbers) else sum(numbers)


def _booking(value: bytes | None) -> tuple[int, str, str, int]:
    """Return (payment_id, account, merchant, cents) of a payment; the cents of a refund are negative. Raises
    InvalidPayment.
    """
    try:
        payment = json.loads(value or b"")
    except ValueError:
        raise InvalidPayment("not JSON") from None
    if not isinstance(payment, dict):
        raise InvalidPayment("not an object")
    payment_id, amount_cents = payment.get("payment_id"), payment.get("amount_cents")
    account, merchant = payment.get("account"), payment.get("merchant")
    if not isinstance(payment_id, int) or not isinstance(account, str) or not account:
        raise InvalidPayment("no payment id or no account")
    if not isinstance(merchant, str) or not merchant:
        raise InvalidPayment("no merchant")
    if not isinstance(amount_cents, int) or amount_cents <= 0:
        raise InvalidPayment("amount is not a positive number of cents")
    if payment.get("currency") not in CURRENCIES:
        raise InvalidPayment("unknown currency")
    if payment.get("kind") not in KINDS:
        raise InvalidPayment("neither payment nor refund")
    signed_cents = -amount_cents if payment["kind"] == "refund" else amount_cents
    return payment_id, account, merchant, signed_cents


def _payments_entry(merchant: str, lines: Sequence[tuple[int, str, int]]) -> bytes:
    return _json(
        {
            "merchant": merchant,
            "count": len(lines),
            "net_cents": sum(signed_cents for _, _, signed_cents in lines),
            "payments": lines,
        }
    )


def _rejection(reason: str, value: bytes | None) -> bytes:
    return _json({"reason": reason, "payment": (value or b"").decode(errors="replace")})


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
