"""The transactions of a producer, under both protocols (KIP-890)."""

import pytest
from tests.worlds.client.producer_bench import Bench, view_of

from oncelog.client.core.sequences import Identity
from oncelog.client.errors import (
    AbortableError,
    AuthorizationError,
    FatalError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


def in_transaction(is_tv2=True, **settings):
    bench = Bench(view_of(2), **{"transactional_id": "pay", "linger_ms": 0} | settings)
    bench.core.transactions.initialize()
    bench.step()
    bench.answer_call()
    bench.core.transactions.has_tv2 = is_tv2
    bench.core.transactions.begin()
    return bench


def test_tv2_needs_one_call_a_transaction():
    bench = in_transaction()
    bench.send(b"v", partition=0)
    done = bench.core.transactions.commit()
    assert bench.step().call is None, "the record is delivered first"
    bench.receive()
    assert bench.step().call.is_commit
    bench.answer_call()
    assert done.is_done
    assert done.error is None
    assert bench.core.sequences.identity == Identity(1, 1), "an end raises the epoch"


def test_tv1_adds_a_partition_before_it_writes_there():
    bench = in_transaction(is_tv2=False)
    bench.send(b"v", partition=1)
    step = bench.step()
    assert step.call.partitions == (Partition("payments", 1),)
    assert not step.requests
    bench.answer_call()
    assert bench.step().requests


def test_an_empty_transaction_asks_nobody():
    bench = in_transaction()
    done = bench.core.transactions.commit()
    assert bench.step().call is None
    assert done.is_done


def test_a_failed_record_can_only_be_aborted():
    bench = in_transaction()
    bench.send(partition=0)
    bench.step()
    bench.receive(error=ErrorCode.INVALID_RECORD)
    with pytest.raises(AbortableError, match="INVALID_RECORD"):
        bench.core.transactions.commit()
    with pytest.raises(AbortableError):
        bench.send(partition=0)
    done = bench.core.transactions.abort()
    bench.step()
    assert not bench.answer_call().is_commit
    assert done.is_done
    bench.core.transactions.begin()


def test_an_abort_drops_what_was_not_sent():
    bench = in_transaction()
    bench.reachable = lambda node_id: False
    sent = bench.send(partition=0)
    done = bench.core.transactions.abort()
    bench.step()
    bench.step()
    assert isinstance(sent.exception(), AbortableError)
    assert done.is_done


def test_tv1_raises_its_epoch_after_an_abort_with_loose_ends():
    bench = in_transaction(is_tv2=False)
    bench.send(partition=0)
    bench.step()
    bench.answer_call()
    bench.step()
    bench.break_connection()
    done = bench.core.transactions.abort()
    bench.step()
    bench.answer_call()
    assert not done.is_done
    assert bench.step().call.known == Identity(1, 0)
    bench.answer_call()
    assert done.is_done
    assert bench.core.sequences.identity == Identity(1, 1)


def test_a_fenced_producer_is_over():
    bench = in_transaction()
    bench.send(partition=0)
    bench.step()
    bench.receive()
    done = bench.core.transactions.commit()
    bench.step()
    bench.answer_call(ErrorCode.PRODUCER_FENCED)
    assert isinstance(done.error, FatalError)
    assert not done.error.may_be_done
    with pytest.raises(FatalError, match="a newer producer has the same"):
        bench.core.transactions.begin()


@pytest.mark.parametrize(
    "answer",
    [
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
    ids=lambda one: one.name,
)
def test_a_fence_behind_a_refused_end_leaves_it_open(answer):
    bench = in_transaction()
    bench.send(partition=0)
    bench.step()
    bench.receive()
    done = bench.core.transactions.commit()
    bench.step()
    bench.answer_call(answer)
    bench.step(1_000)
    bench.answer_call(ErrorCode.PRODUCER_FENCED)
    assert done.error.may_be_done


def test_s2_73_a_user_who_was_refused_may_try_again():
    bench = Bench(transactional_id="pay")
    first = bench.core.transactions.initialize()
    bench.step()
    bench.answer_call(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert isinstance(first.error, AuthorizationError)
    again = bench.core.transactions.initialize()
    bench.step()
    bench.answer_call()
    assert again.error is None


def test_who_may_not_write_idempotently_is_told_what_is_missing():
    bench = Bench()
    delivery = bench.send()
    bench.step()
    bench.answer_call(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError, match="needs WRITE on a topic, or IDEMPOTENT_WRITE"):
        delivery.result()


def test_s2_34_a_commit_lets_everything_go():
    bench = in_transaction(linger_ms=1_000)
    bench.send(partition=0)
    assert not bench.step().requests
    bench.core.transactions.commit()
    assert bench.step().requests
