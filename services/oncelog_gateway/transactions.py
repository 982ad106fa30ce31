"""Transactions as REST shows them, and the three ways to end one."""

from collections.abc import Awaitable, Callable, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from oncelog.api.v1 import coordinator_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    Millis,
    Offset,
    Partition,
    ProducerEpoch,
)
from oncelog.runtime.clock import Clock
from oncelog.wording import counted
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.hanging import (
    OPEN_STATES,
    CoordinatedTransaction,
    OpenTransaction,
    named_by,
    still_open,
)
from oncelog_gateway.core.id_pattern import as_regular_expression
from oncelog_gateway.core.interlock import (
    AbortMarker,
    AbortTarget,
    Refusal,
    find_target,
    plan_abort,
)
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.core.prepared import OLD_MS, prepared_text, why_not_completed
from oncelog_gateway.held_partitions import held_by
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import (
    AbortRequest,
    AbortResult,
    CompleteRequest,
    CompleteResult,
    PreparedPage,
    PreparedTransaction,
    TerminateRequest,
    TerminateResult,
    Transaction,
    TransactionDetail,
    TransactionPage,
    failure_of,
    known_or_none,
    paged,
    resource_of,
)
from oncelog_gateway.role_answers import coordinated, is_two_phase, opened_in, partitions_of
from oncelog_gateway.roles import Listing, Roles

T = TypeVar("T", OpenTransaction, AbortMarker)
TransactionT = TypeVar("TransactionT", bound=Transaction)
WouldReadOn = Callable[[Sequence[Partition], int], Awaitable[str]]
"""Given partitions and a producer id: returns in words which groups wait for that producer (`waiting_groups.py`)."""
NAMES_MAX: Final = 5


class TransactionsFound(NamedTuple):
    rows: list[Transaction]
    total: int
    """Number of all transactions that match."""
    failures: tuple[KafkaError, ...]
    """Failures of coordinators that did not answer."""


class TransactionsOpen(NamedTuple):
    rows: list[Transaction]
    """The oldest open transactions."""
    total: int
    overdue: list[Transaction]
    """The oldest of the late transactions, and of the two-phase ones that are open for too long."""
    overdue_count: int
    failures: tuple[KafkaError, ...]


class Transactions:
    """Reads transactions from coordinators, and ends them through the roles. Every attempt to end one is audited."""

    def __init__(self, roles: Roles, audit: AuditLog, clock: Clock, trace_url: str = "") -> None:
        self._roles = roles
        self._audit = audit
        self._clock = clock
        self._trace_url = trace_url

    async def page(
        self,
        *,
        states: Sequence[str],
        producer_ids: Sequence[int],
        min_duration_ms: int | None,
        id_pattern: str,
        coordinator: int | None = None,
        paging: PageRequest,
    ) -> TransactionPage:
        """Return a page of transactions by id, of one coordinator if it is given. With `min_duration_ms` only open ones
        are returned; Kafka's own filter would let each Empty one pass. Raises KafkaError.
        """
        listing = await self._roles.list_transactions(
            states=states,
            producer_ids=producer_ids,
            min_duration_ms=-1 if min_duration_ms is None else min_duration_ms,
            id_pattern=as_regular_expression(id_pattern),
        )
        _raise_if_nobody_answered(listing)
        found = [
            one
            for one in listing.transactions
            if (min_duration_ms is None or one.state in OPEN_STATES)
            and coordinator in (None, one.coordinator)
        ]
        rows, about = paged(
            found, lambda one: (one.transactional_id, one.producer_id), paging, listing.failures
        )
        now = self._clock.now()
        return TransactionPage(
            transactions=[_shown(Transaction, row, now) for row in rows], **about
        )

    async def everything(self) -> tuple[list[Transaction], tuple[KafkaError, ...]]:
        """Return all transactions that coordinators answered with, and the failures of the other coordinators."""
        listing = await self._roles.list_transactions()
        now = self._clock.now()
        return [_shown(Transaction, one, now) for one in listing.transactions], listing.failures

    async def urgent(
        self,
        rows_max: int,
        *,
        skipped: int = 0,
        states: Sequence[str] = (),
        id_pattern: str = "",
        late_only: bool = False,
        two_phase_only: bool = False,
    ) -> TransactionsFound:
        """Return the most urgent transactions after the first `skipped`: open ones, oldest first, then the others,
        newest first. Rows are made only for those, as there may be very many. Raises KafkaError for an invalid pattern.
        """
        is_all = late_only or two_phase_only
        listing = await self._roles.list_transactions(
            states=states,
            id_pattern=as_regular_expression(id_pattern),
            most_urgent=0 if is_all else skipped + rows_max,
        )
        now = self._clock.now()
        found: Sequence[coordinator_pb2.TransactionDescription] = listing.transactions
        if late_only:
            found = [one for one in found if _is_late(one, now)]
        if two_phase_only:
            found = [one for one in found if is_two_phase(one)]
        shown = nsmallest(skipped + rows_max, found, key=_open_first)[skipped:]
        return TransactionsFound(
            [_shown(Transaction, one, now) for one in shown],
            len(found) if is_all else listing.total_count,
            listing.failures,
        )

    async def opened(self, rows_max: int, overdue_max: int) -> TransactionsOpen:
        """Return the oldest open transactions, the oldest that are open for too long, and the counts of both."""
        listing = await self._roles.list_transactions(states=sorted(OPEN_STATES))
        now = self._clock.now()
        overdue = [
            one
            for one in listing.transactions
            if (_is_older(one, OLD_MS, now) if is_two_phase(one) else _is_late(one, now))
        ]
        return TransactionsOpen(
            [
                _shown(Transaction, one, now)
                for one in nsmallest(rows_max, listing.transactions, key=_open_first)
            ],
            len(listing.transactions),
            [
                _shown(Transaction, one, now)
                for one in nsmallest(overdue_max, overdue, key=_open_first)
            ],
            len(overdue),
            listing.failures,
        )

    async def describe(self, transactional_id: str) -> TransactionDetail:
        """Return a transaction with its first offset in each partition whose leader answers. Raises KafkaError."""
        described = await self._described(transactional_id)
        (held,) = await held_by(self._roles, [described])
        return _shown(
            TransactionDetail,
            described,
            self._clock.now(),
            partitions=held.partitions,
            held_back=held.held_back,
            trace_id=described.trace_id or None,
            trace_url=self._trace_url.replace("{trace_id}", described.trace_id)
            if described.trace_id and self._trace_url
            else None,
        )

    async def prepared(self, paging: PageRequest) -> PreparedPage:
        """Return the two-phase transactions that are open, and what each holds back. Raises KafkaError."""
        listing = await self._roles.list_transactions(states=["Ongoing"])
        _raise_if_nobody_answered(listing)
        rows, about = paged(
            [one for one in listing.transactions if is_two_phase(one)],
            lambda one: (one.transaction_start_time_ms, one.transactional_id),
            paging,
            listing.failures,
        )
        now = self._clock.now()
        held = await held_by(self._roles, rows)
        failures = {one.message: failure_of(one) for own in held for one in own.failures}
        about["incomplete"] += failures.values()
        shown = [
            _shown(
                PreparedTransaction,
                row,
                now,
                partitions=own.partitions,
                held_back=own.held_back,
            )
            for row, own in zip(rows, held, strict=True)
        ]
        return PreparedPage(transactions=shown, **about)

    async def _described(self, transactional_id: str) -> coordinator_pb2.TransactionDescription:
        try:
            return await self._roles.describe_transaction(transactional_id)
        except KafkaError as error:
            if error.error_code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            # A branch of a Spark batch lives on its sink's shard, not on the shard of its own name.
            for one in (await self._roles.list_transactions()).transactions:
                if one.transactional_id == transactional_id:
                    return one
            raise

    async def of_producers(
        self, producer_ids: Sequence[int]
    ) -> tuple[tuple[CoordinatedTransaction, ...], tuple[KafkaError, ...]]:
        """Return what coordinators know of these producer ids, and the failures of coordinators that did not answer."""
        if not producer_ids:
            return (), ()
        listing = await self._roles.list_transactions(producer_ids=sorted(set(producer_ids)))
        return tuple(coordinated(one) for one in listing.transactions), listing.failures

    # ---------------------------------------------------------------------------------------------------- ending

    async def terminate(
        self,
        operator: Operator,
        transactional_id: str,
        request: TerminateRequest,
        would_read_on: WouldReadOn,
    ) -> TerminateResult:
        """Let the coordinator fence the producer and abort its transaction. Raises KafkaError, also if the open
        transaction is not the one that a dry run showed.
        """
        dry_run = request.dry_run
        target = {"transactional_id": transactional_id, **request.model_dump(exclude_none=True)}
        async with self._audit.attempt(operator, "terminate", target) as attempt:
            before = await self._roles.describe_transaction(transactional_id)
            start_time_ms = _open_since(before)
            if request.start_time_ms not in (None, start_time_ms):
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction of {transactional_id!r} that was looked at has ended meanwhile; the id is "
                    f"{before.state} now, and nothing was changed",
                )
            if dry_run:
                attempt.outcome = "dry_run"
                attempt.detail = await _would_end(before, would_read_on)
            else:
                await self._roles.terminate(transactional_id, request.start_time_ms)
                attempt.detail = (
                    f"{transactional_id!r} was {before.state}; its producer is fenced, "
                    "an open transaction is aborted"
                )
        return TerminateResult(
            dry_run=dry_run,
            terminated=not dry_run,
            transactional_id=transactional_id,
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            state_before=before.state,
            start_time_ms=start_time_ms,
            audit_id=attempt.audit_id,
            detail=attempt.detail,
        )

    async def complete(
        self,
        operator: Operator,
        transactional_id: str,
        request: CompleteRequest,
        would_read_on: WouldReadOn,
    ) -> CompleteResult:
        """Commit or abort the two-phase transaction that `prepared` names. Raises KafkaError with the reason of a
        refusal.
        """
        prepared, outcome = request.prepared, request.outcome
        target = {"transactional_id": transactional_id, **request.model_dump()}
        async with self._audit.attempt(operator, "complete", target) as attempt:
            before = await self._roles.describe_transaction(transactional_id)
            refused = why_not_completed(coordinated(before), prepared)
            if refused is not None:
                raise KafkaError(refused.error_code, refused.detail)
            if request.dry_run:
                attempt.outcome = "dry_run"
            else:
                await self._roles.complete_prepared(
                    transactional_id,
                    before.producer_id,
                    before.producer_epoch,
                    is_commit=outcome == "commit",
                )
            attempt.detail = (
                f"transaction {prepared} of {transactional_id!r}, in {counted(len(before.partitions), 'partition')}, "
                f"{'would be' if request.dry_run else 'is'} "
                f"{'committed' if outcome == 'commit' else 'aborted'}, and its producer fenced"
            )
            if request.dry_run:
                attempt.detail += await would_read_on(partitions_of(before), before.producer_id)
        return CompleteResult(
            dry_run=request.dry_run,
            completed=not request.dry_run,
            transactional_id=transactional_id,
            prepared=prepared,
            outcome=outcome,
            audit_id=attempt.audit_id,
            detail=attempt.detail,
        )

    async def abort(
        self, operator: Operator, request: AbortRequest, would_read_on: WouldReadOn
    ) -> AbortResult:
        """Write an abort marker for a transaction that no coordinator owns. Raises KafkaError if that is refused."""
        async with self._audit.attempt(operator, "abort", request.model_dump()) as attempt:
            opened, marker, known = await self._checked(request)
            if request.dry_run:
                attempt.outcome = "dry_run"
            else:
                await self._roles.write_abort_marker(marker)
            attempt.detail = (
                f"an abort marker of producer {marker.producer_id}, epoch {marker.producer_epoch}, "
                f"{'would be' if request.dry_run else 'was'} written to {marker.partition}"
            )
            if request.dry_run:
                attempt.detail += await would_read_on([marker.partition], marker.producer_id)
        named = named_by(opened, known)
        return AbortResult(
            dry_run=request.dry_run,
            aborted=not request.dry_run,
            topic=request.topic,
            partition=request.partition,
            start_offset=request.start_offset,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transactional_id=named.transactional_id if named else None,
            coordinator_state=named.state if named else None,
            audit_id=attempt.audit_id,
            detail=attempt.detail,
        )

    async def _checked(
        self, request: AbortRequest
    ) -> tuple[OpenTransaction, AbortMarker, tuple[CoordinatedTransaction, ...]]:
        """Return the transaction that an abort would end, its marker, and what coordinators know of its producer. It
        reads partition, coordinators and partition again (`core.hanging` says why), and raises if any of them forbids
        it.
        """
        epoch = request.producer_epoch
        target = AbortTarget(
            Partition(request.topic, request.partition),
            Offset(request.start_offset),
            None if epoch is None else ProducerEpoch(epoch),
        )
        found = _granted(find_target(target, await self._opened(target.partition)))
        known, failures = await self.of_producers([found.producer_id])
        if failures:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "whether a coordinator owns this transaction is not known "
                f"({failures[0].error_code.name}); nothing is written before all coordinators answer",
            )
        marker = _granted(plan_abort(found, known))
        if not still_open([found], await self._opened(target.partition)):
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"the transaction at start offset {found.start_offset} of {found.partition} has just ended by itself",
            )
        return found, marker, known

    async def _opened(self, partition: Partition) -> list[OpenTransaction]:
        producers = await self._roles.describe_producers([partition])
        answer = producers[partition]
        if isinstance(answer, KafkaError):
            raise answer
        return opened_in(producers)


def _shown(
    kind: type[TransactionT],
    one: coordinator_pb2.TransactionDescription,
    now: Millis,
    **given: object,
) -> TransactionT:
    opened = _open_since(one)
    is_ongoing, is_kept = one.state == "Ongoing", one.HasField("owner_producer_id")
    owner = (
        (one.owner_producer_id, one.owner_producer_epoch)
        if is_kept
        else (one.producer_id, one.producer_epoch)
        if is_ongoing
        else (None, None)
    )
    return resource_of(
        kind,
        one,
        age_ms=None if opened is None else max(now - opened, 0),
        timeout_ms=one.transaction_timeout_ms,
        is_two_phase=is_two_phase(one),
        prepared=prepared_text(one.producer_id, one.producer_epoch)
        if is_ongoing and is_two_phase(one)
        else None,
        is_kept=is_kept,
        owner_producer_id=owner[0],
        owner_producer_epoch=owner[1],
        is_late=_is_late(one, now),
        start_time_ms=known_or_none(one.transaction_start_time_ms),
        partition_count=len(one.partitions),
        transaction_version=one.client_transaction_version,
        **given,
    )


async def _would_end(
    before: coordinator_pb2.TransactionDescription, would_read_on: WouldReadOn
) -> str:
    producer = f"its producer {before.producer_id}, epoch {before.producer_epoch},"
    if _open_since(before) is None:
        return (
            f"{before.transactional_id!r} is {before.state}: no transaction is open, and {producer} "
            "would be fenced"
        )
    if before.state != "Ongoing":
        return (
            f"{before.transactional_id!r} is {before.state}: its end is decided already, and its "
            "markers are on their way"
        )
    partitions = partitions_of(before)
    return (
        f"{producer} would be fenced, {counted(len(partitions), 'partition')} would get an abort marker"
        f"{_in_brackets(partitions)}{await would_read_on(partitions, before.producer_id)}"
    )


def _in_brackets(partitions: Sequence[Partition]) -> str:
    if not partitions:
        return ""
    more = len(partitions) - NAMES_MAX
    listed = ", ".join(map(str, partitions[:NAMES_MAX]))
    return f" ({listed} and {more} more)" if more > 0 else f" ({listed})"


def _open_first(
    one: coordinator_pb2.TransactionDescription,
) -> tuple[bool, int, str]:
    since = _open_since(one)
    if since is not None:
        return (False, since, one.transactional_id)
    return (True, -one.last_update_time_ms, one.transactional_id)


def _is_late(one: coordinator_pb2.TransactionDescription, now: Millis) -> bool:
    return not is_two_phase(one) and _is_older(one, one.transaction_timeout_ms, now)


def _is_older(one: coordinator_pb2.TransactionDescription, age_ms: int, now: Millis) -> bool:
    since = _open_since(one)
    return since is not None and now - since > age_ms


def _open_since(one: coordinator_pb2.TransactionDescription) -> int | None:
    # A completed transaction still carries its start (facts 1.4); it is not open any more.
    return known_or_none(one.transaction_start_time_ms) if one.state in OPEN_STATES else None


def _granted(answer: T | Refusal) -> T:
    if isinstance(answer, Refusal):
        raise KafkaError(answer.error_code, answer.detail)
    return answer


def _raise_if_nobody_answered(listing: Listing) -> None:
    if listing.failures and not listing.transactions:
        raise listing.failures[0]
