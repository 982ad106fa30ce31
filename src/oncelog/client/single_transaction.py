"""One transaction under a producer epoch of its own: opening it fences all earlier ones of its transactional.id.

`opened` asks for a producer id (InitProducerId). The answer comes when an earlier transaction of this transactional.id
has ended, with all of its markers written. So what it committed can be read from then on, and nothing is added later.

An epoch serves one transaction, so no answer can be taken for that of another one. A commit whose answer is lost is not
asked for again: `CommitUnknownError`. A caller who needs to know opens the next transaction, and reads what is
committed.
"""

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from oncelog.client.cluster import SPOKEN, TRANSACTION, Cluster
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of

TV2: Final = 2
"""The level of the feature `transaction.version` from which a broker raises the epoch with each end (KIP-890)."""

_OVER: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_LOST: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


class TransactionOverError(OncelogError):
    """A newer producer has opened this transactional.id, or the coordinator has ended the transaction."""


class CommitUnknownError(OncelogError):
    """The commit was requested, and no answer came. It may have happened, and may still happen until the next producer
    gets a new epoch."""


@dataclass(frozen=True, slots=True)
class SingleTransaction:
    cluster: Cluster
    transactional_id: str
    producer_id: int
    producer_epoch: int

    @classmethod
    def opened(
        cls, cluster: Cluster, transactional_id: str, timeout_ms: int
    ) -> "SingleTransaction":
        """Open a transaction under a new epoch, and return it. The coordinator aborts it `timeout_ms` after its first
        batch.

        Raises TransactionOverError where two open at once, OncelogError for a time-out that the broker does not allow,
        and KafkaError.
        """
        types = schema_of(versions.INIT_PRODUCER_ID, SPOKEN[versions.INIT_PRODUCER_ID])
        request = types.request_types.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
        )

        def attempt() -> "SingleTransaction":
            response = cluster.ask_coordinator(
                TRANSACTION, transactional_id, versions.INIT_PRODUCER_ID, request
            )
            code = error_code_of(response.error_code.value)
            if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise OncelogError(
                    f"a transaction of {timeout_ms} ms is not allowed here: give a shorter one, or raise the broker's "
                    "transaction.max.timeout.ms"
                )
            _check(code, transactional_id, "opening")
            return cls(cluster, transactional_id, response.producer_id, response.producer_epoch)

        return cluster.retrying(attempt)

    def commit(self) -> None:
        """Commit, and return once the coordinator has decided it; the markers follow.

        Raises CommitUnknownError, TransactionOverError, KafkaError.
        """

        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                self._end(is_commit=True)
            except KafkaError as error:
                if error.error_code in _LOST:
                    raise CommitUnknownError(
                        f"the commit of {self.transactional_id!r} is not answered: {error}"
                    ) from error
                raise
            except TransactionOverError as error:
                if tries > 1:
                    # An earlier try may have been done although it was refused: a coordinator can move meanwhile.
                    raise CommitUnknownError(
                        f"the commit of {self.transactional_id!r} was repeated, and then refused: {error}"
                    ) from error
                raise

        self.cluster.retrying(attempt)

    def abort(self) -> None:
        """Try once to abort, so that readers need not wait for the time-out. It never undoes a commit."""
        with contextlib.suppress(OncelogError):
            self._end(is_commit=False)

    def _end(self, is_commit: bool) -> None:
        types = schema_of(versions.END_TXN, SPOKEN[versions.END_TXN]).request_types
        request = types.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        response = self.cluster.ask_coordinator(
            TRANSACTION, self.transactional_id, versions.END_TXN, request
        )
        what = "committing" if is_commit else "aborting"
        _check(error_code_of(response.error_code.value), self.transactional_id, what)


def _check(code: ErrorCode, transactional_id: str, what: str) -> None:
    if code in _OVER:
        raise TransactionOverError(
            f"{what} a transaction of {transactional_id!r} was answered {code.name}: a newer producer has this "
            "transactional.id, or the transaction took longer than its time-out"
        )
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"{what} a transaction of {transactional_id!r}")
