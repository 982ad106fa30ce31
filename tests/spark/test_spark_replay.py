"""A checkpoint that lost its newest entries, or is an older copy: no row is lost without an error, none is doubled."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.call_proxy import Fault

ROWS = [f"row-{number:04}" for number in range(60)]


def lose_newest(checkpoint):
    """Remove the newest batch from Spark's two logs, as a lost disk block or an old snapshot does."""
    for log in ("offsets", "commits"):
        folder = Path(checkpoint) / log
        newest = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        (folder / str(newest)).unlink()
        (folder / f".{newest}.crc").unlink(missing_ok=True)


def test_batch_with_other_rows_after_a_lost_entry_is_refused(lab):
    lab.fill(ROWS[:20])
    lab.copy()
    lab.fill(ROWS[20:40])
    lab.copy()
    lose_newest(lab.checkpoint)
    lab.fill(ROWS[40:])
    lab.proxy.reset()
    with pytest.raises(
        StreamingQueryException,
        match=r"REPLAY_REFUSED.*batch 1 was committed with 20 rows and has 40 now.*"
        r"older checkpoint.*verifyReplay=false.*new transactionalId",
    ):
        lab.copy()
    assert lab.proxy.calls["Produce"] == 0
    assert lab.visible_settled() == ROWS[:40]
    # The user takes the loss, which the error named, and goes on.
    lab.copy(verifyReplay="false")
    lab.fill(["later"])
    lab.copy()
    assert lab.visible_settled() == ["later", *ROWS[:40]]


@pytest.mark.slow
def test_batches_with_the_same_rows_again_are_skipped(lab):
    lab.fill(ROWS[:40])
    lab.copy(limit=20)
    lose_newest(lab.checkpoint)
    lose_newest(lab.checkpoint)
    lab.proxy.reset()
    lab.copy(limit=20)
    assert lab.proxy.calls["Produce"] == 0
    lab.fill(ROWS[40:])
    lab.copy(limit=20)
    assert lab.visible_settled() == ROWS


@pytest.mark.slow
def test_older_checkpoint_is_refused_where_rows_are_other(lab):
    lab.fill(ROWS[:20])
    lab.copy()
    shutil.copytree(lab.checkpoint, lab.folder / "older")
    lab.fill(ROWS[20:])
    lab.copy(limit=20)
    assert lab.describe().last_committed_batch_id > 1
    shutil.rmtree(lab.checkpoint)
    shutil.copytree(lab.folder / "older", lab.checkpoint)
    with pytest.raises(StreamingQueryException, match="REPLAY_REFUSED"):
        lab.copy(limit=30)
    assert lab.visible_settled() == ROWS


def renaming(batches):
    import uuid

    import pyarrow as pa

    for batch in batches:
        values = pa.array([uuid.uuid4().bytes.hex().encode() for _ in range(batch.num_rows)])
        yield batch.set_column(1, "value", values)


@pytest.mark.slow
def test_query_of_random_rows_says_so_and_is_accepted_on_demand(lab):
    lab.fill(ROWS)
    lab.proxy.plan("CommitBatch", Fault.REFUSE_AFTER)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        lab.copy(renaming)
    with pytest.raises(StreamingQueryException, match=r"60 rows .*but not the same"):
        lab.copy(renaming)
    lab.copy(renaming, verifyReplay="false")
    assert len(lab.visible_settled()) == len(ROWS)
