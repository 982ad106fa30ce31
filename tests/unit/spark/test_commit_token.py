"""What follows a token: every row of the table in `commit_token`, and a life of many drivers against a plain model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import OncelogError
from oncelog.spark.attempt import QueryChangedError, ReplayRefusedError
from oncelog.spark.commit_token import (
    BATCHES_MAX,
    RETIRED_QUERIES_MAX,
    BatchToCommit,
    CommittedBatch,
    CommitToken,
    place_of_job,
    place_of_stream,
    token_after,
)

SINK = "copies"
EMPTY = b'{"format":1,"query_id":"q","batches":[],"retired_query_ids":[]}'
LAST = CommitToken("q", (CommittedBatch(5, 10, 111, "n5"), CommittedBatch(7, 20, 222, "n7")))


def batch(batch_id, rows=20, checksum=222, nonce="new", query="q", **more):
    return BatchToCommit(nonce, query, batch_id, rows, checksum, **more)


def test_the_first_batch_of_a_sink_is_written():
    token = token_after(None, batch(0), SINK)
    assert token == CommitToken("q", (CommittedBatch(0, 20, 222, "new"),))


def test_a_later_batch_without_a_token_is_refused_until_adopted():
    with pytest.raises(QueryChangedError, match=r"the query is at batch 3.*onNewQuery=adopt"):
        token_after(None, batch(3), SINK)
    token = token_after(None, batch(3, adopt_query=True), SINK)
    assert token is not None
    assert token.last_batch_id == 3


def test_the_next_batch_is_added_to_what_the_token_knows():
    token = token_after(LAST, batch(9, 1, 5), SINK)
    assert token == CommitToken("q", (*LAST.batches, CommittedBatch(9, 1, 5, "new")))


def test_a_token_knows_the_last_twenty_batches():
    token = None
    for batch_id in range(BATCHES_MAX + 5):
        token = token_after(token, batch(batch_id, nonce=str(batch_id)), SINK)
    assert token is not None
    assert [one.batch_id for one in token.batches] == list(range(5, BATCHES_MAX + 5))


def test_a_batch_of_the_same_try_is_committed_already():
    """Without a look at its rows: a job without a name has no number, and only its nonce tells."""
    assert token_after(LAST, batch(7, rows=1, nonce="n7"), SINK) is None
    assert token_after(LAST, batch(None, nonce="n7"), SINK) is None


def test_a_job_without_a_name_is_found_behind_others():
    """Its commit was not answered, and others of its transactionalId were committed before it looked."""
    token = token_after(None, batch(None, nonce="own"), SINK)
    for number in range(BATCHES_MAX - 1):
        token = token_after(token, batch(None, nonce=f"other {number}"), SINK)
    assert token_after(token, batch(None, nonce="own"), SINK, asked_after=-1) is None
    token = token_after(token, batch(None, nonce="one more"), SINK)
    with pytest.raises(OncelogError, match=r"20 others were committed since.*give it a jobId"):
        token_after(token, batch(None, nonce="own"), SINK, asked_after=-1)
    assert token_after(token, batch(None, nonce="own"), SINK, asked_after=0) is not None


@pytest.mark.parametrize("again", [batch(7), batch(5, 10, 111), batch(6, 0, 0), batch(2, 0, 0)])
def test_a_batch_with_the_same_rows_again_is_committed_already(again):
    assert token_after(LAST, again, SINK) is None


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (batch(7, 21), "batch 7 has 21 rows now, and was committed with 20"),
        (batch(7, 20, 1), "batch 7 has 20 rows now as when it was committed, but not the same"),
        (batch(6), "batch 6 has 20 rows now, and none when it was committed"),
        (batch(4), "is older than the batches 5 to 7"),
    ],
)
def test_a_batch_with_other_rows_is_refused(again, text):
    with pytest.raises(ReplayRefusedError, match=f"REPLAY_REFUSED.*{text}.*verifyReplay=false"):
        token_after(LAST, again, SINK)
    assert token_after(LAST, replace(again, verify_replay=False), SINK) is None


def test_an_unnamed_job_takes_the_next_number():
    token = token_after(LAST, batch(None), SINK)
    assert token is not None
    assert token.last_batch_id == 8


def test_another_query_is_refused_until_it_adopts():
    with pytest.raises(QueryChangedError, match="belongs to query 'q', not to 'r'"):
        token_after(LAST, batch(0, query="r"), SINK)
    adopted = token_after(LAST, batch(0, query="r", adopt_query=True), SINK)
    assert adopted == CommitToken("r", (CommittedBatch(0, 20, 222, "new"),), ("q",))
    with pytest.raises(QueryChangedError, match="belongs to query 'r', not to 'q'"):
        token_after(adopted, batch(8, nonce="x", adopt_query=True), SINK)


def test_a_sink_that_was_adopted_too_often_is_refused():
    retired = tuple(f"q{number}" for number in range(RETIRED_QUERIES_MAX))
    with pytest.raises(QueryChangedError, match="changed its query 32 times"):
        token_after(
            replace(LAST, retired_query_ids=retired), batch(0, query="r", adopt_query=True), SINK
        )


@given(
    st.builds(
        CommitToken,
        st.text(),
        st.lists(
            st.builds(
                CommittedBatch,
                st.integers(0),
                st.integers(0),
                st.integers(0, 2**63 - 1),
                st.text(),
            ),
            min_size=1,
        ).map(tuple),
        st.lists(st.text()).map(tuple),
    )
)
def test_tokens_survive_their_bytes(token):
    assert CommitToken.from_bytes(token.to_bytes(), "here") == token


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b"7", b"\xff", b'{"format":1,"query_id":"q"}', EMPTY]
)
def test_bytes_that_are_no_token_are_refused(value):
    with pytest.raises(OncelogError, match="topic 't' has a record that is no token"):
        CommitToken.from_bytes(value, "topic 't'")


def test_a_token_of_a_newer_version_is_refused():
    with pytest.raises(OncelogError, match="a token of format 2, from a newer oncelog"):
        CommitToken.from_bytes(b'{"format":2}', "topic 't'")


def test_each_sink_has_one_topic_and_one_writer():
    assert place_of_stream("copy").topic == "__oncelog_sink_copy"
    strange = [place_of_stream(name).topic for name in ("a b", "a/b", "x" * 249, "x" * 250)]
    assert len(set(strange)) == 4
    assert max(map(len, strange)) <= 249
    jobs = [place_of_job("copy", job) for job in ("monday", "tuesday", None, "unnamed jobs")]
    assert len({place.key for place in jobs}) == 4
    assert {(place.topic, place.transactional_id) for place in jobs} == {
        ("__oncelog_jobs_copy", "__oncelog/job/copy")
    }


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60))
def test_each_batch_is_written_once_whatever_drivers_do(steps):
    """A driver runs batches in order. After a step it may crash, and forget up to three of them."""
    token, written, at = None, [], 0
    for number, (does_commit, is_lost, forgets) in enumerate(steps):
        found = token_after(token, batch(at, rows=at, checksum=at, nonce=str(number)), SINK)
        if found is None:
            assert at in written
        elif does_commit:
            written.append(at)
            token = found
        else:
            continue
        at = max(0, at - forgets) if is_lost else at + 1
    assert written == sorted(set(written))
