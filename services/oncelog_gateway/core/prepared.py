"""The check before an operator commits or aborts a two-phase transaction: it is exactly the one that the application's
database names.

The application stored the identity of its transaction, `producer id:epoch`, in the database transaction that it then
committed. The operator reads that text there and gives it back. The coordinator compares it once more in the step that
decides (KIP-939, ADR 0043).
"""

from typing import Final

from oncelog.errors import ErrorCode
from oncelog_gateway.core.endings import terminate_command
from oncelog_gateway.core.hanging import CoordinatedTransaction
from oncelog_gateway.core.interlock import Refusal

OLD_MS: Final = 15 * 60_000
"""Age from which an open two-phase transaction is shown on the console and by the alarm. An application that lives
decides in seconds.
"""


def prepared_text(producer_id: int, producer_epoch: int) -> str:
    """Return the identity of a prepared transaction, as the producer's `prepare_transaction()` gives it: `42:7`."""
    return f"{producer_id}:{producer_epoch}"


def why_not_completed(found: CoordinatedTransaction, prepared: str) -> Refusal | None:
    """Return why the operator must not commit or abort the transaction `found` with the identity `prepared`; None:
    nothing forbids it.
    """
    name = found.transactional_id
    if found.state != "Ongoing":
        return Refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"{name!r} is in state {found.state}, and nothing is left to decide; "
            "GET /v1/prepared-transactions lists what is open",
        )
    if not found.is_two_phase:
        return Refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"the transaction of {name!r} is not two-phase: its producer or its time-out ends it, and to end it now: "
            f"{terminate_command(name)}",
        )
    identity = prepared_text(found.producer_id, found.producer_epoch)
    if prepared != identity:
        return Refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"{prepared} is not the open transaction of {name!r}: that is {identity}, and nothing was changed. If the "
            f"application's database holds {prepared}, it never decided {identity}: abort {identity}",
        )
    return None
