"""A query that is fenced starts again and loses nothing; another failure ends it, and so does being fenced for ever."""

import threading

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.call_proxy import Fault

from oncelog.errors import OncelogError
from oncelog.spark.attempt import AttemptName, new_nonce, open_attempt
from oncelog.spark.supervise import supervise

ROWS = [f"row-{number:04}" for number in range(40)]


def fence(lab, held):
    """As another driver does: it opens an attempt while the first one's tasks are about to seal."""
    assert held.happened.wait(150), "no task came to its seal"
    open_attempt(lab.cluster, AttemptName(lab.sink_id, new_nonce()), 60_000)
    held.released.set()


def fenced_once(lab):
    held = lab.proxy.plan("SealBranch", Fault.HOLD)
    rival = threading.Thread(target=fence, args=(lab, held))
    rival.start()
    return rival


def test_a_fenced_query_starts_again_and_writes_each_row_once(lab):
    lab.fill(ROWS)
    starts = []

    def start_query():
        starts.append(lab.start_copy(limit=20))
        return starts[-1]

    rival = fenced_once(lab)
    supervise(start_query)
    rival.join()
    assert len(starts) == 2
    assert lab.visible_settled() == ROWS


def test_a_query_that_is_fenced_too_often_ends_so(lab):
    lab.fill(ROWS)
    rival = fenced_once(lab)
    with pytest.raises(StreamingQueryException, match="FENCED: sink"):
        supervise(lab.start_copy, restarts_max=0)
    rival.join()
    lab.copy()
    assert lab.visible_settled() == ROWS


def test_another_failure_is_raised_at_once(lab):
    lab.fill(ROWS)
    starts = []

    def start_query():
        starts.append(lab.start_copy())
        return starts[-1]

    lab.proxy.plan("CommitBatch", Fault.REFUSE)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        supervise(start_query)
    assert len(starts) == 1


def test_numbers_below_zero_are_refused():
    with pytest.raises(OncelogError, match="restarts_max is -1"):
        supervise(lambda: None, restarts_max=-1)
