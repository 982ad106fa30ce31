"""A prepared transaction's identity as a text, which an application stores in its other database (two-phase commit,
KIP-939, ADR 0043)."""

import re
from enum import Enum
from typing import Final, NamedTuple

from oncelog.client.errors import ConfigError
from oncelog.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX

_TEXT: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,5})")
_PRODUCER_ID_MAX: Final = 2**63 - 1


class PreparedTransaction(NamedTuple):
    """The identity of a prepared transaction. `str()` gives the text to store, Kafka's `PreparedTxnState`: `42:7`.

    The text is empty if nothing was sent in the transaction: there is nothing to commit.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @classmethod
    def parse(cls, text: str | None) -> "PreparedTransaction":
        """Read a stored text; empty or None means no transaction.
        Raises ConfigError for text that `str()` does not write."""
        if not text:
            return cls()
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ConfigError(f"{text!r} is no prepared transaction: give its text, such as 42:7")
        producer_id, epoch = int(found[1]), int(found[2])
        if producer_id > _PRODUCER_ID_MAX or epoch > PRODUCER_EPOCH_MAX:
            raise ConfigError(
                f"{text!r} is no prepared transaction: a producer id is at most {_PRODUCER_ID_MAX}, an epoch "
                f"at most {PRODUCER_EPOCH_MAX}"
            )
        return cls(producer_id, epoch)

    @property
    def has_transaction(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}" if self.has_transaction else ""


class Completion(Enum):
    """The result of `complete_transaction`: it committed, aborted, or found nothing to do."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    NOTHING = "nothing was open"
