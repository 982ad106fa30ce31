"""Branches are joined, get partitions, are sealed and are shown: one test a row of their tables."""

import pytest
from tests.worlds.sink.sink_shell import (
    SINK,
    TIMEOUT_MS,
    nonce,
    opened,
    partition,
)

from oncelog.errors import ErrorCode
from oncelog.ids import (
    branch_transactional_id,
    is_job_sink,
    is_reserved_name,
    job_sink_name,
    shard_name_of,
)
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.txn_state import TxnState

BRANCH = branch_transactional_id(SINK, 3, 2)

# ---------------------------------------------------------------------------------------------------------------- join


def test_join_gives_a_fresh_producer_id_in_the_sinks_shard():
    shell = opened()
    answer = shell.join(1, 12, 3)
    assert (answer.producer_id, answer.producer_epoch) == (100, 0)
    assert answer.transactional_id == "__oncelog/branch/12/3/pay"
    assert shard_name_of(answer.transactional_id) == SINK
    assert shell.join(1, 12, 4).producer_id == 101


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("pay", "pay"),
        ("pay/1", "pay/1"),
        ("/1/2", "/1/2"),
        ("a/b/c", "a/b/c"),
        ("orders/1/2", "orders/1/2"),
        ("orders/1/2/3/4", "orders/1/2/3/4"),
        (branch_transactional_id("a/1/2", 3, 4), "a/1/2"),
        (branch_transactional_id("a/b", 0, 0), "a/b"),
        (branch_transactional_id(job_sink_name("a", "x/y"), 0, 0), job_sink_name("a", "x/y")),
        (job_sink_name("a", "1"), job_sink_name("a", "1")),
        ("__oncelog/branch/", ""),
    ],
)
def test_branch_is_hashed_by_its_sink_and_others_by_themselves(name, hashed):
    assert shard_name_of(name) == hashed


def test_no_two_jobs_and_no_stream_share_a_sink():
    ids = ["a", "a/b", "a%2Fb", "b", "a/b/c"]
    names = [job_sink_name(one, job) for one in ids for job in [None, *ids, "unnamed-jobs"]]
    assert len(set(names)) == len(names)
    assert all(is_reserved_name(name) and is_job_sink(name) for name in names)


def test_repeated_join_of_a_task_attempt_gets_the_same_id():
    shell = opened()
    first = shell.join(1, 0, 0)
    before = len(shell.log)
    assert shell.join(1, 0, 0) == first
    assert len(shell.log) == before


def test_producer_id_is_wanted_only_where_a_branch_would_be_made(shell):
    shell.committed(1, 0)
    shell.open(2)
    shell.join(2, 1, 0)
    wants = shell.machine.wants_producer_id
    with_id = shell.join_event(2, 1, 1)
    assert with_id.producer_id is not None
    assert not wants(with_id)
    for event in (
        shell.join_event(2, 1, 0),
        shell.join_event(2, 0, 1),
        shell.join_event(1, 1, 1),
        shell.join_event(2, 1, 1, query_id="query-2"),
        shell.join_event(2, -1, 1),
        shell.commit_event(1),
    ):
        assert not wants(event), event


def test_join_without_a_producer_id_at_hand_is_retriable():
    shell = opened()
    shell.machine.wants_producer_id = lambda _event: False
    answer = shell.join(1, 0)
    assert answer.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.error_code.is_retriable


def test_join_of_an_unknown_sink_or_nonce_is_fenced(shell):
    assert shell.join(1, 0).answer is SinkAnswer.FENCED
    shell.open(1)
    assert shell.join(2, 0).answer is SinkAnswer.FENCED


def test_one_nonce_is_one_batch():
    shell = opened()
    shell.join(1, 0)
    assert shell.join(1, 1, 1).answer is SinkAnswer.FENCED


def test_run_that_was_superseded_is_refused():
    shell = opened(1)
    shell.join(1, 0, run_id="run-a")
    shell.open(2)
    shell.join(2, 0, run_id="run-b")
    shell.open(3)
    assert shell.join(3, 0, run_id="run-a").answer is SinkAnswer.FENCED
    shell.restart()
    assert shell.join(3, 0, run_id="run-a").answer is SinkAnswer.FENCED
    assert shell.join(3, 0, run_id="run-b").answer is SinkAnswer.OK


def test_jobs_without_a_run_id_are_never_superseded():
    shell = opened(1)
    shell.join(1, 0, run_id="")
    shell.open(2)
    assert shell.join(2, 0, run_id="run-b").answer is SinkAnswer.OK
    shell.open(3)
    assert shell.join(3, 0, run_id="").answer is SinkAnswer.OK


# ------------------------------------------------------------------------------------------------------ add partitions


def test_added_partitions_get_their_markers():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    assert shell.add(producer_id, "orders-3", "orders-1").error_code is ErrorCode.NONE
    shell.abort(1)
    ((marker,),) = [wanted.markers for wanted in shell.outbox.values()]
    assert marker.partitions == (partition("orders-1"), partition("orders-3"))


def test_adding_again_appends_nothing():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    shell.add(producer_id, "orders-1")
    before = len(shell.log)
    assert shell.add(producer_id, "orders-1").error_code is ErrorCode.NONE
    assert len(shell.log) == before


def test_verifying_changes_nothing():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    shell.add(producer_id, "orders-1")
    before = len(shell.log)
    answer = shell.add(producer_id, "orders-1", "orders-2", verify_only=True)
    assert (answer.error_code, answer.missing) == (ErrorCode.NONE, (partition("orders-2"),))
    assert len(shell.log) == before


@pytest.mark.parametrize("verify_only", [False, True])
def test_unknown_producer_id_or_epoch_is_refused(verify_only):
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    unknown = shell.add(999, "orders-0", verify_only=verify_only)
    assert unknown.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for producer_epoch in (-1, 1):
        answer = shell.add(
            producer_id, "orders-0", producer_epoch=producer_epoch, verify_only=verify_only
        )
        assert answer.error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("how", ["committed", "aborted", "superseded"])
def test_decided_branch_is_fenced_and_later_unknown(how):
    shell = opened()
    won = shell.task(1, 0)
    match how:
        case "committed":
            shell.commit(0, won)
        case "aborted":
            shell.abort(1)
        case "superseded":
            shell.open(2)
    assert shell.add(won.producer_id, "orders-0").error_code is ErrorCode.PRODUCER_FENCED
    bumped = shell.add(won.producer_id, "orders-0", producer_epoch=1)
    assert bumped.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.deliver()
    answer = shell.add(won.producer_id, "orders-0")
    assert answer.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert not shell.machine.owns_producer(won.producer_id)


def test_sealed_branch_takes_no_new_partition():
    shell = opened()
    won = shell.task(1, 0, names=("orders-0",))
    assert shell.add(won.producer_id, "orders-0").error_code is ErrorCode.NONE
    assert shell.add(won.producer_id, "orders-1").error_code is ErrorCode.INVALID_TXN_STATE


# ---------------------------------------------------------------------------------------------------------------- seal


def test_seal_is_idempotent():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    assert shell.seal(1, producer_id).answer is SinkAnswer.OK
    before = len(shell.log)
    assert shell.seal(1, producer_id).answer is SinkAnswer.OK
    assert len(shell.log) == before


def test_seal_with_other_contents_is_fenced():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    shell.seal(1, producer_id, row_count=10)
    assert shell.seal(1, producer_id, row_count=11).answer is SinkAnswer.FENCED
    assert shell.seal(1, producer_id, crc32c=1).answer is SinkAnswer.FENCED


def test_seal_of_an_unknown_branch_or_epoch_is_fenced():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    assert shell.seal(1, 999).answer is SinkAnswer.FENCED
    assert shell.seal(2, producer_id).answer is SinkAnswer.FENCED
    assert shell.seal(1, producer_id, epoch_sealed=1).answer is SinkAnswer.FENCED


def test_partition_that_only_the_seal_knows_gets_its_marker():
    shell = opened()
    producer_id = shell.join(1, 0).producer_id
    shell.seal(1, producer_id, names=("orders-4",))
    shell.abort(1)
    ((marker,),) = [wanted.markers for wanted in shell.outbox.values()]
    assert marker.partitions == (partition("orders-4"),)


# --------------------------------------------------------------------------------------------------------------- reads


def test_branches_are_shown_as_transactions():
    shell = opened()
    shell.now += 5
    won = shell.task(1, 3, 2)
    lost = shell.task(1, 3, 2, task_attempt_id=9)
    ongoing = shell.machine.transaction_views()[0].transaction
    assert (ongoing.transactional_id, ongoing.state) == (BRANCH, TxnState.ONGOING)
    assert (ongoing.producer_id, ongoing.producer_epoch) == (won.producer_id, 0)
    assert (ongoing.start_timestamp, ongoing.timeout_ms) == (1_000_005, TIMEOUT_MS)
    assert ongoing.partitions == (partition("orders-0"),)
    shell.commit(3, won)
    shown = [view.transaction for view in shell.machine.transaction_views()]
    assert {one.producer_id: (one.state, one.producer_epoch) for one in shown} == {
        won.producer_id: (TxnState.PREPARE_COMMIT, 1),
        lost.producer_id: (TxnState.PREPARE_ABORT, 1),
    }
    shell.deliver()
    assert shell.machine.transaction_views() == ()


def test_description_shows_attempts_branches_and_decisions(shell):
    shell.committed(1, 0)
    shell.deliver()
    shell.committed(2, 1)
    shell.open(3)
    assert shell.machine.oldest_open_attempt_ms() == shell.now
    shell.task(3, 2)
    described = shell.describe()
    assert [(d.batch_id, d.nonce, d.branch_count, d.row_count) for d in described.decisions] == [
        (0, nonce(1), 2, 20),
        (1, nonce(2), 2, 20),
    ]
    assert [(a.state, a.batch_id, len(a.branches)) for a in described.attempts] == [
        ("Committing", 1, 2),
        ("Open", 2, 1),
    ]
    assert [a.deadline_ms for a in described.attempts] == [-1, shell.now + TIMEOUT_MS]
    (branch,) = described.attempts[1].branches
    assert (branch.sealed, branch.row_count, branch.task_partition) == (True, 10, 0)
