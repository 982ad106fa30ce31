"""The state of a producer's transactions, as Kafka's client has it, for both protocols.

```
UNINITIALIZED ─▶ INITIALIZING ─▶ READY ─▶ IN_TRANSACTION ─▶ COMMITTING ─▶ READY
                      ▲                        │  └─▶ ABORTABLE_ERROR ─▶ ABORTING ─▶ READY
                      └──── an epoch to raise ─┴──────────▶ FATAL_ERROR
IN_TRANSACTION ─▶ PREPARING ─▶ PREPARED ─▶ COMMITTING or ABORTING     INITIALIZING ─▶ PREPARED
```

TV2 (KIP-890): the leader adds a partition, the group coordinator adds a group, and every end raises the epoch. TV1:
both are added by calls of their own, and the epoch is raised after an abort that left something unknown (KIP-360).

A prepared transaction is committed or aborted as another system says (KIP-939). A new producer with its transactional
id finds it still prepared.

One call to a coordinator is under way at a time. `next_call` returns the call to make now, `answered` gets its answer.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from oncelog.client.core.backoff import backoff_ms
from oncelog.client.core.operation import Operation
from oncelog.client.core.prepared import Completion, PreparedTransaction
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.sequences import NOBODY, Identity, Sequences
from oncelog.client.core.transaction_calls import (
    AddOffsets,
    AddPartitions,
    Answer,
    Call,
    CommitOffsets,
    EndTxn,
    GroupMember,
    InitProducerId,
    OffsetToCommit,
)
from oncelog.client.core.transaction_refusals import ABORTABLE, NOT_ALLOWED, refusal
from oncelog.client.errors import (
    AbortableError,
    ClientError,
    FatalError,
    IllegalStateError,
    UnsupportedError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


class State(Enum):
    UNINITIALIZED = "not initialised"
    INITIALIZING = "initialising"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    PREPARING = "preparing a transaction"
    PREPARED = "in a prepared transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FATAL_ERROR = "over"


_NOT_ANSWERED: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
_DELIVERS: Final = frozenset({State.IN_TRANSACTION, State.PREPARING, State.COMMITTING})
"""The states in which records and offsets of the transaction go out."""


class Transactions:
    """The transaction state of a producer, and its calls to coordinators. An idempotent producer without transactions
    uses it only for its producer id."""

    def __init__(
        self, settings: ProducerSettings, sequences: Sequences, draw: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._sequences = sequences
        self._draw = draw
        self.state = State.UNINITIALIZED
        self.error: ClientError | None = None
        """The error that put the producer into an error state."""
        self.has_tv2 = True
        """True if the cluster speaks TV2, as the shell has learnt it. A transaction keeps the value of its begin."""
        self._is_tv2 = True
        self._added: set[Partition] = set()
        self._new: dict[Partition, None] = {}
        self._is_started = False
        """True if a coordinator may know of this transaction."""
        self._needs_new_epoch = False
        """True if sequences were left unknown: after the abort the epoch must be raised (TV1;
        in TV2 every end does it)."""
        self._group_calls: deque[tuple[Call, Operation]] = deque()
        self._init: Operation | None = None
        self._end: Operation | None = None
        self._under_way: tuple[Call, Operation | None] | None = None
        self._attempts = 0
        self._retry_at_ms = 0.0
        self.refusal: ErrorCode | None = None
        """The coordinator's error because of which the call is repeated; None: there was no such error."""
        self._is_end_open = False
        """True if a try of EndTxn was not answered: it may have decided the transaction."""
        self.prepared: PreparedTransaction | None = None
        """The transaction that waits for its decision.
        In READY: None unless this producer has just looked for one, and found none."""

    # ---------------------------------------------------------------------------------------------- a program's calls

    def initialize(self) -> Operation:
        """Get a producer id for the transactional id, which fences the producers that had it before. It is called again
        after an ACL refused it (S2-73, ADR 0044).

        With two-phase commit an open transaction stays: `prepared` names it.
        """
        if self.state is State.INITIALIZING and self._init is not None:
            return self._init
        if self.state is not State.UNINITIALIZED:
            raise self._illegal("init_transactions()", "it is called once, and first")
        self.state, self.error = State.INITIALIZING, None
        self._init = Operation()
        return self._init

    def begin(self) -> None:
        self._raise_if_over()
        if self.state is State.UNINITIALIZED:
            raise self._illegal("begin()", "init_transactions() comes first")
        if self.state in (State.PREPARING, State.PREPARED):
            raise self._illegal("begin()", "complete it first")
        if self.state is not State.READY:
            raise self._illegal("begin()", "end the open transaction first")
        self.prepared = None
        self.state = State.IN_TRANSACTION
        self._is_end_open = False
        self._is_tv2 = self.has_tv2
        self._is_started = False
        self._added.clear()
        self._new.clear()

    def check_may_send(self) -> None:
        """Raise the error of the present state, unless records and offsets may be sent in it."""
        if self.state is State.IN_TRANSACTION:
            return
        self._raise_if_over()
        if self.state is State.ABORTABLE_ERROR:
            assert self.error is not None
            raise AbortableError(
                f"the transaction can only be aborted: {self.error}", self.error.error_code
            )
        if self.state in (State.PREPARING, State.PREPARED):
            raise self._illegal("send()", "nothing is added to what is prepared, complete it")
        raise self._illegal(
            "send()", "a producer with a transactional.id sends inside a transaction: begin() first"
        )

    def wants(self, partition: Partition) -> None:
        """Register that a record waits for this partition: in TV1 the coordinator must be told of the partition
        first."""
        if not self._is_tv2 and partition not in self._added:
            self._new[partition] = None

    def send_offsets(
        self, member: GroupMember, offsets: Mapping[Partition, OffsetToCommit]
    ) -> Operation:
        self.check_may_send()
        operation = Operation()
        commit = CommitOffsets(self._sequences.identity, member, dict(offsets))
        if not self._is_tv2:
            # Nobody waits for this call alone: a refusal makes the transaction abortable.
            self._group_calls.append((AddOffsets(self._sequences.identity, member), Operation()))
        self._group_calls.append((commit, operation))
        return operation

    def commit(self) -> Operation:
        if self.state is State.COMMITTING and self._end is not None:
            return self._end
        self._raise_if_over()
        if self.state is State.ABORTABLE_ERROR:
            assert self.error is not None
            raise AbortableError(
                f"this transaction cannot be committed, abort it: {self.error}",
                self.error.error_code,
            )
        if self.state not in (State.IN_TRANSACTION, State.PREPARED):
            raise self._illegal("commit()", "begin() comes first")
        self.state = State.COMMITTING
        self._end = Operation()
        return self._end

    def abort(self) -> Operation:
        """Begin to abort the transaction, also after an error. Offsets that were to be committed for a group are
        dropped."""
        if self.state is State.ABORTING and self._end is not None:
            return self._end
        self._raise_if_over()
        if not self.is_open and self.state is not State.PREPARED:
            raise self._illegal("abort()", "there is no open transaction")
        self.state = State.ABORTING
        dropped = AbortableError("the transaction is aborted")
        self._drop_calls(dropped)
        self._new.clear()
        self._end = Operation()
        return self._end

    def prepare(self) -> Operation:
        """Deliver all records; afterwards `prepared` is the identity to store. Then only commit, abort and complete are
        allowed."""
        if self.state is State.PREPARING and self._end is not None:
            return self._end
        self.check_may_send()
        if not self._settings.transaction_two_phase_commit_enable:
            raise self._illegal("prepare()", "give transaction.two.phase.commit.enable=true")
        if not self._is_tv2:
            raise UnsupportedError(
                "prepare() needs the cluster's transaction.version 2: below it two transactions have one identity"
            )
        self.state = State.PREPARING
        self._end = Operation()
        return self._end

    def complete(self, stored: PreparedTransaction) -> tuple[Operation | None, Completion]:
        """Commit the prepared transaction if its identity is `stored`, else abort it. Return the operation to wait for
        (None where no transaction is open), and what is done."""
        if self.state is State.READY and self.prepared is not None:
            return None, Completion.NOTHING
        if self.prepared is not None and self._end is not None:
            is_commit = self.state is State.COMMITTING
            return self._end, Completion.COMMITTED if is_commit else Completion.ABORTED
        if self.state is not State.PREPARED:
            self._raise_if_over()
            raise self._illegal("complete()", "prepare() comes first")
        if stored == self.prepared:
            return self.commit(), Completion.COMMITTED
        return self.abort(), Completion.ABORTED

    # ---------------------------------------------------------------------------------------------- batches

    @property
    def is_completing(self) -> bool:
        return self.state in (State.COMMITTING, State.ABORTING, State.PREPARING)

    @property
    def is_open(self) -> bool:
        return self.state in (State.IN_TRANSACTION, State.PREPARING, State.ABORTABLE_ERROR)

    def may_drain(self, partition: Partition) -> bool:
        """True if records may be sent to the partition now. In TV1 the coordinator must know it; after an error or
        abort nothing new is sent."""
        if self.state not in _DELIVERS:
            return False
        return self._is_tv2 or partition in self._added

    @property
    def is_tv2(self) -> bool:
        """True if the open transaction uses TV2."""
        return self._is_tv2

    def drained(self) -> None:
        self._is_started = True

    def left_unknown(self) -> None:
        """Require a new epoch after the abort, because a batch was given up or refused by its sequence: its outcome is
        unknown."""
        self._needs_new_epoch = True

    def failed(self, error: ClientError) -> None:
        """Make the open transaction abortable only (or end the producer, by the error's class): a record or a call of
        it failed."""
        if isinstance(error, FatalError):
            self.over(error)
        elif self.state in _DELIVERS or self.state is State.ABORTABLE_ERROR:
            if self.state is not State.ABORTABLE_ERROR:
                self.error = error
            self.state = State.ABORTABLE_ERROR
            abortable = AbortableError(f"abort the transaction: {error}", error.error_code)
            self._drop_calls(abortable)

    def over(self, error: FatalError) -> None:
        """End the producer for good, after a fatal error: the calls that wait and every later one raise this error."""
        if self.state is State.FATAL_ERROR:
            return
        self.state, self.error = State.FATAL_ERROR, error
        self._drop_calls(error)
        if self._init is not None:
            self._init.fail(error)

    def _drop_calls(self, error: ClientError) -> None:
        for _, operation in self._group_calls:
            operation.fail(error)
        self._group_calls.clear()
        if self._end is not None:
            self._end.fail(error)
            self._end = None

    # ---------------------------------------------------------------------------------------------- calls

    def next_call(self, now_ms: float, has_unfinished_batches: bool) -> Call | None:
        """Return the call to a coordinator to make now. None: there is none, or not yet: `retry_at_ms` says when to ask
        again."""
        if self._under_way is not None or now_ms < self._retry_at_ms:
            return None
        found = self._choose(has_unfinished_batches)
        if found is not None:
            self._under_way = found
            if not isinstance(found[0], InitProducerId):
                self._is_started = True
            return found[0]
        return None

    @property
    def retry_at_ms(self) -> float:
        return self._retry_at_ms

    def _choose(self, has_unfinished_batches: bool) -> tuple[Call, Operation | None] | None:
        identity = self._sequences.identity
        if self.state is State.INITIALIZING:
            keeps = self._settings.transaction_two_phase_commit_enable and not identity.is_known
            return InitProducerId(identity, keeps), self._init
        if self.state in _DELIVERS:
            if self._new:
                return AddPartitions(identity, tuple(self._new)), None
            if self._group_calls:
                return self._group_calls.popleft()
        if self.is_completing and not has_unfinished_batches:
            assert self._end is not None
            if self.state is State.PREPARING:
                self._is_prepared()
            elif self._is_started:
                return EndTxn(identity, self.state is State.COMMITTING), self._end
            else:
                self._ended(None)
        return None

    def _is_prepared(self) -> None:
        """Enter the state PREPARED: everything is delivered. A transaction without records gets an empty identity, so
        that nothing is stored."""
        end, self._end = self._end, None
        self.state = State.PREPARED
        self.prepared = PreparedTransaction(
            *(self._sequences.identity if self._is_started else NOBODY)
        )
        if end is not None:
            end.succeed()

    def answered(self, answer: Answer, now_ms: float) -> None:
        """Handle the answer to the call that `next_call` returned last, and change state accordingly."""
        assert self._under_way is not None
        call, operation = self._under_way
        self._under_way = None
        if self.state is State.FATAL_ERROR:
            if operation is not None and self.error is not None:
                operation.fail(self.error)
            return
        if isinstance(call, EndTxn) and answer.error.is_retriable:
            # It may follow a decision that was written. COORDINATOR_NOT_AVAILABLE is what a coordinator says when its
            # replicas do not answer in time. A listener of oncelog asks again before it answers, and tells the last
            # refusal alone.
            self._is_end_open = True
        if answer.error.is_retriable and not answer.refused:
            self.refusal = None if answer.error in _NOT_ANSWERED else answer.error
            self._again(call, operation, now_ms)
            return
        self._attempts, self._retry_at_ms, self.refusal = 0, 0.0, None
        match call:
            case InitProducerId():
                self._initialized(answer)
            case AddPartitions():
                self._partitions_added(call, answer)
            case EndTxn():
                self._end_answered(answer)
            case AddOffsets() | CommitOffsets():
                assert operation is not None
                self._offsets_answered(call, operation, answer)

    def _again(self, call: Call, operation: Operation | None, now_ms: float) -> None:
        settings = self._settings
        pause_ms = backoff_ms(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, self._attempts, self._draw()
        )
        self._attempts += 1
        self._retry_at_ms = now_ms + pause_ms
        if isinstance(call, AddOffsets | CommitOffsets) and operation is not None:
            if self.state in _DELIVERS:
                self._group_calls.appendleft((call, operation))
            else:
                operation.fail(AbortableError("the transaction is aborted"))

    def _initialized(self, answer: Answer) -> None:
        operation, self._init = self._init, None
        if answer.error is ErrorCode.NONE:
            assert answer.identity is not None
            self._sequences.start(answer.identity)
            self.state, self.error = State.READY, None
            if self._settings.transaction_two_phase_commit_enable:
                self.prepared = PreparedTransaction(*(answer.kept or NOBODY))
            if answer.kept is not None:
                self.state, self._is_started, self._is_tv2 = State.PREPARED, True, True
                self._is_end_open = False
            self._needs_new_epoch = False
            if operation is not None:
                operation.succeed()
            return
        error = refusal(self._settings, "InitProducerId", answer)
        if answer.error in NOT_ALLOWED:
            # An ACL may be added: the same producer tries again (S2-73).
            self.state, self.error = State.UNINITIALIZED, error
        else:
            self.over(
                error if isinstance(error, FatalError) else FatalError(str(error), error.error_code)
            )
        if operation is not None:
            operation.fail(error)

    def _partitions_added(self, call: AddPartitions, answer: Answer) -> None:
        if answer.error is ErrorCode.NONE and not answer.refused:
            for partition in call.partitions:
                self._new.pop(partition, None)
                self._added.add(partition)
            return
        final = [one for one in answer.refused if one[1] is not ErrorCode.OPERATION_NOT_ATTEMPTED]
        partition, code = final[0] if final else (call.partitions[0], answer.error)
        error = refusal(
            self._settings, f"AddPartitionsToTxn of {partition}", Answer(code, answer.message)
        )
        if code in ABORTABLE:
            self.left_unknown()
        self._new.clear()
        self.failed(error)

    def _offsets_answered(
        self, call: AddOffsets | CommitOffsets, operation: Operation, answer: Answer
    ) -> None:
        code = answer.error
        if answer.refused:
            code = answer.refused[0][1]
        if code is ErrorCode.NONE:
            operation.succeed()
            return
        what = "AddOffsetsToTxn" if isinstance(call, AddOffsets) else "TxnOffsetCommit"
        error = refusal(
            self._settings,
            f"{what} of group {call.member.group_id!r}",
            Answer(code, answer.message),
        )
        operation.fail(error)
        self.failed(error)

    def _end_answered(self, answer: Answer) -> None:
        if answer.error is ErrorCode.NONE:
            self._ended(answer.identity)
            return
        error = refusal(self._settings, "EndTxn", answer)
        # TV1 has one code for several causes; INVALID_TXN_STATE says that this epoch's transaction was aborted.
        error.may_be_done = self._is_end_open and answer.error is not ErrorCode.INVALID_TXN_STATE
        end, self._end = self._end, None
        if end is not None:
            end.fail(error)
        if isinstance(error, FatalError):
            self.over(error)
        elif self.prepared is not None:
            # Another system has decided it: this producer must not abort it, and a next one may complete it.
            self.over(FatalError(f"{error}; start another producer and complete it", answer.error))
        else:
            self.left_unknown()
            self.error, self.state = error, State.ABORTABLE_ERROR

    def _ended(self, identity: Identity | None) -> None:
        end, self._end = self._end, None
        was_abort = self.state is State.ABORTING
        self.prepared = None
        self._added.clear()
        self._new.clear()
        self.error = None
        if identity is not None and identity.is_known:
            self._sequences.start(identity)
            self._needs_new_epoch = False
        if self._needs_new_epoch and was_abort and self._is_started:
            # The producer goes on with an epoch of its own, once it is answered; the abort is done when that is.
            self.state, self._init = State.INITIALIZING, end
            return
        self.state = State.READY
        if end is not None:
            end.succeed()

    # ---------------------------------------------------------------------------------------------- refusals

    def _raise_if_over(self) -> None:
        if self.state is State.FATAL_ERROR:
            assert self.error is not None
            raise self.error

    def _illegal(self, call: str, way_out: str) -> IllegalStateError:
        return IllegalStateError(f"{call} while the producer is {self.state.value}: {way_out}")
