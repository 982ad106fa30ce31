"""Says in words whether a producer gets a new epoch with each transaction (KIP-890), and what to do if not.

By the producer epoch, a broker can tell a late request of an ended transaction from a request of the next one. Client
and cluster must both support that. With transaction.version 0 or 1, or an older client, many transactions share an
epoch. Then the connection tells most of them apart (docs/architecture/delayed-requests.md).
"""

from typing import Final, NamedTuple

OWN_EPOCHS: Final = 2
"""The transaction version from which on each transaction has an epoch of its own."""
_NOT_BEGUN: Final = ("Empty", "Dead")
"""Transaction states in which the version of the producer's protocol is not known: it has begun no transaction."""


class EpochAdvice(NamedTuple):
    text: str
    command: str
    """The command that `text` recommends; empty: there is none."""


def _is_shared(state: str, transaction_version: int) -> bool:
    return transaction_version < OWN_EPOCHS and state not in _NOT_BEGUN


def epoch_use(state: str, transaction_version: int) -> str:
    """Return in one line whether the producer's epoch changes with each transaction; `–` if that is not known."""
    if transaction_version >= OWN_EPOCHS:
        return "a new one for each transaction (KIP-890)"
    if not _is_shared(state, transaction_version):
        return "–"
    return "the same for many transactions: the client or the cluster's transaction.version is older than KIP-890"


def epoch_advice(state: str, transaction_version: int, level: int) -> EpochAdvice | None:
    """Return advice for a producer whose transactions share one epoch; None: there is nothing to do. `level` is the
    cluster's finalized transaction.version.
    """
    if not _is_shared(state, transaction_version):
        return None
    risk = "so a late request of an ended transaction looks like one of the next, and not all are known"
    if level < OWN_EPOCHS:
        return EpochAdvice(
            f"The cluster's transaction.version is {level}: a producer has one epoch in many transactions, {risk}. "
            "Raise it once every node has this version:",
            f"oncelog features set transaction.version {OWN_EPOCHS}",
        )
    return EpochAdvice(
        f"The client has the same epoch in many transactions, {risk}. A client that knows KIP-890, such as "
        "oncelog.client or Java's from 4.0 on, gets a new epoch for each.",
        "",
    )
