"""Card payments drawn from a seed: the input of the demo when the user gives no file.

Blocks of 10,000 rows are drawn one by one, each from a generator seeded with (seed, block). So any block can be made
again without the ones before it. A producer can go on after a crash though it has stored nothing, and the proof can
compute the right answer without reading the log.

As in reality a few accounts are very busy. Some rows are refunds, and a few are invalid on purpose. Each of these must
turn up among the rejected, and no other row may.
"""

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

BLOCK_ROWS = 10_000
ACCOUNTS = 5_000
MERCHANTS = 200
ACCOUNT_SKEW = 0.9
REFUND_SHARE = 0.04
SPOILED_SHARE = 0.005
FIRST_AT_MS = 1_740_000_000_000
PAYMENT_ID_PREFIX = b'{"payment_id":'

_ACCOUNT_NAMES = [f"AC{number:06d}" for number in range(ACCOUNTS)]
_ACCOUNT_WEIGHTS = list(accumulate(1 / (rank + 1) ** ACCOUNT_SKEW for rank in range(ACCOUNTS)))
_MERCHANT_NAMES = [f"M{number:04d}" for number in range(MERCHANTS)]
_MERCHANT_WEIGHTS = list(accumulate(1 / (rank + 5) ** 0.5 for rank in range(MERCHANTS)))
_FAULTS = ("amount", "currency", "merchant", "torn")


class Payment(NamedTuple):
    """One payment. `amount_cents` is what was sent, and positive for refunds too; `fault` says what was made invalid,
    and is None for a good row.
    """

    payment_id: int
    account: str
    merchant: str
    is_refund: bool
    amount_cents: int
    at_ms: int
    fault: str | None

    @property
    def signed_cents(self) -> int:
        """The cents that the account spends; negative for a refund."""
        return -self.amount_cents if self.is_refund else self.amount_cents

    def key(self) -> bytes:
        return self.account.encode()

    def value(self) -> bytes:
        """Return the payment as about 150 bytes of JSON, as it is sent. A row with the fault of being torn ends in the
        middle.
        """
        kind = "refund" if self.is_refund else "payment"
        currency = "XXX" if self.fault == "currency" else "EUR"
        text = (
            f'{{"payment_id":{self.payment_id},"account":"{self.account}",'
            f'"merchant":"{self.merchant}","kind":"{kind}","amount_cents":{self.amount_cents},'
            f'"currency":"{currency}","at_ms":{self.at_ms},"channel":"card"}}'
        )
        if self.fault == "torn":
            text = text[: text.index('"kind"')]
        return text.encode()


def payments(rows: int, seed: int) -> Iterator[Payment]:
    """Yield all payments of (rows, seed), in order of payment_id, which counts from 0."""
    for block in range(-(-rows // BLOCK_ROWS)):
        yield from payment_block(block, rows, seed)


def payment_block(block: int, rows: int, seed: int) -> list[Payment]:
    """Return rows [block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS), cut at `rows`. The same arguments always give the
    same rows.
    """
    first = block * BLOCK_ROWS
    count = min(BLOCK_ROWS, rows - first)
    assert count > 0, (block, rows)
    draw = random.Random(f"oncelog payments {seed} {block}")
    accounts = draw.choices(_ACCOUNT_NAMES, cum_weights=_ACCOUNT_WEIGHTS, k=BLOCK_ROWS)
    merchants = draw.choices(_MERCHANT_NAMES, cum_weights=_MERCHANT_WEIGHTS, k=BLOCK_ROWS)
    refunds = draw.choices((True, False), weights=(REFUND_SHARE, 1 - REFUND_SHARE), k=BLOCK_ROWS)
    spoiled = draw.choices((True, False), weights=(SPOILED_SHARE, 1 - SPOILED_SHARE), k=BLOCK_ROWS)
    amounts = [int(draw.lognormvariate(7.3, 1.1)) + 1 for _ in range(BLOCK_ROWS)]
    block_rows = []
    for index in range(count):
        payment_id = first + index
        fault = draw.choice(_FAULTS) if spoiled[index] else None
        block_rows.append(
            Payment(
                payment_id=payment_id,
                account=accounts[index],
                merchant="" if fault == "merchant" else merchants[index],
                is_refund=refunds[index],
                amount_cents=-amounts[index] if fault == "amount" else amounts[index],
                at_ms=FIRST_AT_MS + payment_id * 37,
                fault=fault,
            )
        )
    return block_rows
