"""`oncelog storage repair`: what a damaged folder would lose, and giving that up."""

import asyncio
import json
import os
import shutil

import pytest
from tests.integration.storage.partition_log_at import flip
from tests.integration.storage.storage_node import Node, batch, running, topic, until

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_server.cli import run
from oncelog_storage.core.checkpoint_files import decode_checkpoint
from oncelog_storage.log_directory import LogDirectory

TOPICS = (topic("orders", segment_bytes=1024), topic("fine"))


async def killed(path, count=12):
    """A node with that many records in `orders`, ended by a kill before its first checkpoint."""
    node = Node(path, TOPICS)
    await node.role.start()
    await node.fill("orders", count, batch(value=b"v" * 200))
    await node.produce("fine", batch(3))
    starts = path / "log-start-offset-checkpoint"
    await until(lambda: starts.exists() and "orders 0 0" in starts.read_text())
    await node.role.kill()


def logs(path):
    return sorted((path / "orders-0").glob("*.log"))


def files(path):
    return {
        each: each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and each.name != ".lock"
    }


async def end_of(path, name="orders"):
    async with running(path, *TOPICS) as node:
        found = await node.describe(name)
        return found.error_code or found.log_end_offset


DAMAGES = {
    "flipped": (lambda path: flip(logs(path)[1], 100), 3, 9),
    "cut": (lambda path: os.truncate(logs(path)[0], 300), 1, 9),
    "segment removed": (lambda path: logs(path)[1].unlink(), 3, 6),
    "newest segment removed": (lambda path: logs(path)[-1].unlink(), 9, 0),
    "folder removed": (lambda path: shutil.rmtree(path / "orders-0"), 0, 0),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_loss_is_shown_first_and_taken_when_accepted(tmp_path, capsys, how):
    damage, kept, readable_behind = DAMAGES[how]
    asyncio.run(killed(tmp_path))
    assert len(logs(tmp_path)) == 4
    damage(tmp_path)
    assert asyncio.run(end_of(tmp_path)) == ErrorCode.KAFKA_STORAGE_ERROR
    before = files(tmp_path)
    capsys.readouterr()
    assert run(["storage", "repair", str(tmp_path), "--output", "json"]) == 1
    (shown,) = json.loads(capsys.readouterr().out)["damaged"]
    assert (shown["topic"], shown["kept_end_offset"]) == ("orders", kept)
    assert shown["readable_records_behind"] == (8 if how == "flipped" else readable_behind)
    assert files(tmp_path) == before, "nothing was changed"
    assert run(["storage", "repair", str(tmp_path), "--accept-loss", "--yes"]) == 0
    assert asyncio.run(end_of(tmp_path)) == kept
    assert asyncio.run(end_of(tmp_path, "fine")) == 3
    assert run(["storage", "repair", str(tmp_path)]) == 0
    assert bool(list(tmp_path.glob("orders-0/*.cut"))) == bool(readable_behind)


def test_the_last_batch_of_a_kill_is_no_damage(tmp_path):
    asyncio.run(killed(tmp_path))
    with open(logs(tmp_path)[-1], "ab") as file:
        file.write(batch(3)[:50])
    assert run(["storage", "repair", str(tmp_path)]) == 0
    assert asyncio.run(end_of(tmp_path)) == 12


def test_the_first_segment_may_be_given_up_without_the_others(tmp_path):
    asyncio.run(killed(tmp_path))
    logs(tmp_path)[0].unlink()
    (tmp_path / "orders-0" / "00000000000000000000.index").unlink()
    assert asyncio.run(end_of(tmp_path)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert run(["storage", "repair", str(tmp_path), "--accept-loss", "--yes"]) == 0
    assert asyncio.run(end_of(tmp_path)) == 12
    starts = decode_checkpoint((tmp_path / "log-start-offset-checkpoint").read_text())
    assert starts[Partition("orders", 0)] == 3


def test_a_folder_in_use_and_one_of_something_else_are_refused(tmp_path, capsys):
    asyncio.run(killed(tmp_path))
    owner = LogDirectory(tmp_path)
    owner.open("test-cluster", 1)
    assert run(["storage", "repair", str(tmp_path)]) == 1
    assert "in use by another process" in capsys.readouterr().err
    owner.close()
    assert run(["storage", "repair", str(tmp_path / "orders-0")]) == 1
    assert "is no data folder" in capsys.readouterr().err
    assert run(["storage", "repair", str(tmp_path / "elsewhere")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named_and_nothing_given_up(tmp_path, capsys):
    asyncio.run(killed(tmp_path))
    flip(logs(tmp_path)[1], 100)
    flip(tmp_path / "log-start-offset-checkpoint", 20)
    before = files(tmp_path)
    assert run(["storage", "repair", str(tmp_path), "--accept-loss", "--yes"]) == 1
    assert "log-start-offset-checkpoint is damaged" in capsys.readouterr().err
    assert files(tmp_path) == before
