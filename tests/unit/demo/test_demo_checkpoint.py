"""Progress comes from Spark's checkpoint files, so that it survives the driver."""

import json

from oncelog_server.demo.checkpoint import read_progress


def write_batch(folder, batch, offsets, *, is_committed=True):
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({"payments": offsets})]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    if is_committed:
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_no_checkpoint_is_no_progress(tmp_path):
    progress = read_progress(tmp_path / "none", "payments")
    assert (progress.batches_done, progress.offsets_done, progress.batch_under_way) == (0, 0, None)
    assert not progress.has_reached({0: 1})


def test_the_newest_commit_counts(tmp_path):
    write_batch(tmp_path, 0, {"0": 5, "1": 7})
    write_batch(tmp_path, 1, {"0": 10, "1": 12})
    progress = read_progress(tmp_path, "payments")
    assert (progress.batches_done, progress.done, progress.batch_under_way) == (
        2,
        {0: 10, 1: 12},
        None,
    )
    assert progress.has_reached({0: 10, 1: 12})
    assert not progress.has_reached({0: 10, 1: 13})


def test_offsets_without_commit_are_a_batch_under_way(tmp_path):
    write_batch(tmp_path, 0, {"0": 5})
    write_batch(tmp_path, 1, {"0": 10}, is_committed=False)
    progress = read_progress(tmp_path, "payments")
    assert (progress.done, progress.batch_under_way) == ({0: 5}, 1)


def test_names_that_are_no_numbers_are_not_batches(tmp_path):
    write_batch(tmp_path, 0, {"0": 5})
    (tmp_path / "offsets" / ".1.tmp").write_text("")
    assert read_progress(tmp_path, "payments").batch_under_way is None
