"""Every bound is a typed answer, every bad argument is named, and nothing that is refused appends a record."""

from dataclasses import replace

import pytest
from tests.worlds.sink.sink_shell import SinkShell, nonce

from oncelog.errors import ErrorCode
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.markers import (
    SINK_MACHINE,
    DecisionKey,
    DeliveryOutcome,
    MarkersDelivered,
)
from oncelog_coordinator.core.sink import SinkMachine
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    AttemptTimedOut,
    CommitBatch,
    JoinAttempt,
    MarkersOverdue,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_limits import DEFAULT_LIMITS

OPEN = OpenAttempt(1, "pay", nonce(1), 0)
JOIN = JoinAttempt(1, "pay", nonce(1), "q", "r", 0, 0, 0)
SEAL = SealBranch(1, "pay", nonce(1), 100, 0, (), 1, 1)
COMMIT = CommitBatch(1, "pay", 0, ())
ABORT = AbortAttempt(1, "pay", (nonce(1),))


@pytest.mark.parametrize(
    ("event", "named"),
    [
        *((replace(event, sink=""), "transactionalId") for event in (OPEN, JOIN, SEAL, COMMIT, ABORT)),
        (replace(OPEN, sink="x" * 1001), "1001 bytes"),
        (replace(OPEN, nonce=b"short"), "5 bytes"),
        (replace(JOIN, nonce=b""), "0 bytes"),
        (replace(SEAL, nonce=b"x" * 17), "17 bytes"),
        (replace(ABORT, nonces=(nonce(1), b"x")), "1 bytes"),
        (replace(JOIN, query_id=""), "jobId"),
        (replace(JOIN, query_id="é" * 501), "1002 bytes"),
        (replace(JOIN, run_id="x" * 1001), "run id"),
        (replace(JOIN, batch_id=-1), "batch id -1"),
        (replace(JOIN, task_partition=-2), "task partition -2"),
        (replace(JOIN, task_attempt_id=-3), "task attempt id -3"),
        (replace(SEAL, row_count=-4), "row count -4"),
        (replace(SEAL, crc32c=2**32), "crc32c 4294967296"),
        (replace(SEAL, row_checksum=-2), "row checksum -2"),
        (replace(COMMIT, batch_id=2**63), "batch id 9223372036854775808"),
    ],
)  # fmt: skip
def test_bad_argument_is_refused_by_name(shell, event, named):
    answer = shell.submit(event)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert named in answer.error_message
    assert shell.log == []


@pytest.mark.parametrize("timeout_ms", [-1, 86_400_001])
def test_timeout_out_of_bounds_is_refused(timeout_ms):
    answer = SinkShell().open(1, timeout_ms=timeout_ms)
    assert answer.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert str(timeout_ms) in answer.error_message


def test_undelivered_attempts_of_a_sink_are_bounded():
    shell = SinkShell(replace(DEFAULT_LIMITS, attempts_max=3))
    for number in range(3):
        shell.committed(number + 1, number)
    answer = shell.open(9)
    assert answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert answer.error_code.is_retriable
    shell.deliver()
    assert shell.open(9).error_code is ErrorCode.NONE


def test_branches_of_an_attempt_are_bounded():
    shell = SinkShell(replace(DEFAULT_LIMITS, branches_max=2))
    shell.open(1)
    shell.join(1, 0, 0)
    joined = shell.join(1, 0, 1)
    assert shell.join(1, 0, 2).error_code is ErrorCode.POLICY_VIOLATION
    assert shell.join(1, 0, 1) == joined


def test_partitions_of_a_branch_are_bounded():
    shell = SinkShell(replace(DEFAULT_LIMITS, partitions_max=2))
    shell.open(1)
    producer_id = shell.join(1, 0).producer_id
    shell.add(producer_id, "orders-0", "orders-1")
    assert shell.add(producer_id, "orders-2").error_code is ErrorCode.POLICY_VIOLATION
    answer = shell.seal(1, producer_id, names=("orders-0", "orders-1", "orders-2"))
    assert answer.error_code is ErrorCode.INVALID_REQUEST


def test_adoptions_are_bounded():
    shell = SinkShell(replace(DEFAULT_LIMITS, retired_queries_max=2))
    for number in range(4):
        shell.open(number)
        answer = shell.join(number, 0, query_id=f"q{number}", adopt_query=True)
    assert answer.error_code is ErrorCode.POLICY_VIOLATION
    assert shell.describe().query_id == "q2"


def test_remembered_runs_are_bounded():
    shell = SinkShell(replace(DEFAULT_LIMITS, superseded_runs_max=2))
    for number in range(5):
        shell.open(number)
        shell.join(number, 0, run_id=f"r{number}")
    shell.open(9)
    assert shell.join(9, 0, run_id="r3").answer is SinkAnswer.FENCED
    assert shell.join(9, 0, run_id="r0").answer is SinkAnswer.OK


def test_window_remembers_the_newest_batches():
    shell = SinkShell(replace(DEFAULT_LIMITS, attempts_max=4, batches_max=5))
    shell.committed(1, 0)
    held = dict(shell.outbox)
    shell.outbox = {}
    for batch_id in range(1, 9):
        shell.committed(batch_id + 1, batch_id)
        shell.deliver()
    shell.outbox = held
    shell.deliver()
    shell.restart()
    assert [d.batch_id for d in shell.describe().decisions] == [4, 5, 6, 7, 8]


def test_window_must_outlast_the_decisions_under_way():
    with pytest.raises(AssertionError):
        SinkMachine(replace(DEFAULT_LIMITS, attempts_max=20, batches_max=20))


@pytest.mark.parametrize(
    "event",
    [
        AttemptTimedOut("nowhere", nonce(1)),
        MarkersOverdue("nowhere", nonce(1)),
        MarkersDelivered(DecisionKey(SINK_MACHINE, "nowhere", 1), DeliveryOutcome.DELIVERED),
        MarkersDelivered(DecisionKey(SINK_MACHINE, "pay", 99), DeliveryOutcome.DELIVERED),
        MarkersDelivered(DecisionKey(SINK_MACHINE, "pay", 1), DeliveryOutcome.DELIVERED),
        MarkersOverdue("pay", nonce(1)),
    ],
)
def test_late_or_stray_timers_and_deliveries_change_nothing(shell, event):
    shell.open(1)
    before = len(shell.log)
    assert shell.submit(event) is None
    assert len(shell.log) == before
