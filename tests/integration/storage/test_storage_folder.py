"""The data folder: who may use it, what it survives, what is deleted from it."""

import asyncio
import os
import shutil
import subprocess
import sys

import pytest
from tests.integration.storage.storage_node import Node, batch, running, topic, txn_batch, until

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Partition
from oncelog_storage.core.checkpoint_files import decode_checkpoint, encode_checkpoint
from oncelog_storage.log_directory import LogDirectory

RANDOM_ID = bytes.fromhex("5f1d3c0aa2b94e6f8f7be0c4d2a91375")


def test_a_second_process_is_refused_too(tmp_path):
    first = LogDirectory(tmp_path)
    first.open("c", 1)
    code = (
        "import sys; from pathlib import Path; from oncelog_storage.log_directory import LogDirectory\n"
        "from oncelog.errors import OncelogError\n"
        "try: LogDirectory(Path(sys.argv[1])).open('c', 1)\n"
        "except OncelogError as error: sys.exit(str(error))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    first.close()
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "in use by another process" in ended.stderr


@pytest.mark.parametrize(("cluster_id", "node_id"), [("other", 1), ("c", 2)])
def test_a_foreign_folder_is_refused_by_name(tmp_path, cluster_id, node_id):
    first = LogDirectory(tmp_path)
    first.open("c", 1)
    first.close()
    with pytest.raises(
        OncelogError, match=r"belongs to (cluster.id=c, not other|node.id=1, not 2)"
    ):
        LogDirectory(tmp_path).open(cluster_id, node_id)
    LogDirectory(tmp_path).open("c", 1)


def test_a_folder_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OncelogError, match=r"cannot use the data folder .*; make it writable"):
        LogDirectory(tmp_path / "file" / "data").open("c", 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_says_why(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OncelogError, match=r"make it writable"):
        LogDirectory(tmp_path).open("c", 1)


def test_checkpoint_files_are_kafkas_text():
    numbers = {Partition("orders", 0): 17, Partition("a-b", 3): 0}
    text = encode_checkpoint(numbers).decode()
    *kafkas, checksum = text.splitlines(keepends=True)
    assert "".join(kafkas) == "0\n3\norders 0 17\na-b 3 0\n"
    assert checksum.startswith("/checksum 0 "), "a partition of a topic that cannot be"
    assert decode_checkpoint(text) == numbers
    assert decode_checkpoint("0\n2\norders 0 17\na-b 3 0\n") == numbers, "as older ones wrote it"


def test_a_flipped_bit_in_a_checkpoint_file_changes_no_number(tmp_path):
    numbers = {Partition("orders", 0): 17, Partition("orders", 1): 5}
    data = encode_checkpoint(numbers)
    for place in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        try:
            found = decode_checkpoint(flipped.decode())
        except ValueError:
            continue
        assert found.items() >= numbers.items(), "only the checksum's own name"


def test_a_damaged_checkpoint_stops_the_start_and_names_itself(tmp_path):
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 1\n")
    with pytest.raises(
        OncelogError, match=r"recovery-point-offset-checkpoint is damaged; restore it"
    ):
        LogDirectory(tmp_path).open("c", 1)


@pytest.mark.parametrize("content", [b"", bytes(20), b"0\n2\norders 0 1\n", b"0\n1\norders"])
@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "coordinator-epoch-checkpoint"])
def test_an_unsynced_file_that_was_torn_does_not_stop_the_start(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    directory = LogDirectory(tmp_path)
    directory.open("c", 1)
    assert directory.high_watermarks == directory.coordinator_epochs == {}
    directory.close()


async def test_what_was_answered_survives_a_kill(tmp_path):
    topics = [topic("orders", 2)]
    async with running(tmp_path / "a", *topics) as node:
        for sequence in range(3):
            await node.produce("orders", txn_batch(9, sequence), transactional_id="pay")
        await node.produce("orders", batch(5), partition=1)
        before = await node.fetch("orders", 0)
        # The folder as a kill would leave it right now.
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with running(tmp_path / "b", *topics) as node:
        after = await node.fetch("orders", 0)
        assert (after.records, after.last_stable_offset) == (before.records, 0)
        assert (await node.describe("orders", 1)).log_end_offset == 5
        again = await node.produce("orders", txn_batch(9, 2), transactional_id="pay")
        assert again.base_offset == 2, "a retry across the crash is still a duplicate"
        assert await node.mark("orders", (9, 1, True, 0, 2)) == [0]
        assert (await node.describe("orders")).last_stable_offset == 4


async def test_a_clean_stop_leaves_nothing_to_scan(tmp_path):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(4))
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    points = decode_checkpoint((tmp_path / "recovery-point-offset-checkpoint").read_text())
    assert points == {Partition("orders", 0): 4}
    async with running(tmp_path, topic("orders")) as node:
        assert not (tmp_path / ".kafka_cleanshutdown").exists(), (
            "a kill from here on is no clean shutdown"
        )
        assert (await node.describe("orders")).log_end_offset == 4


async def test_checkpoints_follow_the_bytes_appended(tmp_path):
    async with running(tmp_path, topic("orders"), checkpoint_bytes=2000) as node:
        point = tmp_path / "recovery-point-offset-checkpoint"
        await node.fill("orders", 5, batch(value=b"x" * 1000))
        await until(
            lambda: (
                point.exists() and decode_checkpoint(point.read_text())[Partition("orders", 0)] >= 2
            )
        )


async def test_checkpoints_follow_the_clock_too(tmp_path):
    async with running(tmp_path, topic("orders"), checkpoint_interval_ms=20) as node:
        await node.produce("orders", batch())
        await until((tmp_path / "recovery-point-offset-checkpoint").exists)


async def test_a_deleted_topic_leaves_the_disk_and_frees_its_name(tmp_path):
    async with running(tmp_path, topic("orders", topic_id=b"1" * 16)) as node:
        await node.produce("orders", batch(3))
        node.delta(removed_topics=["orders"])
        assert (
            await node.produce("orders", batch())
        ).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await until(lambda: not list(tmp_path.glob("orders-0*")))
        node.delta(topics=[topic("orders", topic_id=b"2" * 16)])
        assert (await node.produce("orders", batch())).base_offset == 0


async def test_a_topic_made_again_meanwhile_does_not_inherit(tmp_path):
    async with running(tmp_path, topic("orders", topic_id=b"1" * 16), topic("gone")) as node:
        await node.produce("orders", batch(3))
        await node.produce("gone", batch(3))
    async with running(tmp_path, topic("orders", topic_id=b"2" * 16)) as node:
        assert (await node.describe("orders")).log_end_offset == 0
        assert (await node.produce("orders", batch())).base_offset == 0
    # Lost metadata looks the same as a deletion: the data is set aside, not removed.
    assert sorted(path.name.partition(".")[0] for path in tmp_path.glob("*-stray")) == [
        "gone-0",
        "orders-0",
    ]
    async with running(tmp_path, topic("orders", topic_id=b"2" * 16)) as node:
        assert (await node.describe("orders")).log_end_offset == 1


@pytest.mark.parametrize("kept_bytes", [0, 10, 30, 43])
async def test_a_torn_topic_id_does_not_set_the_data_aside(tmp_path, kept_bytes):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(3))
    metadata = tmp_path / "orders-0" / "partition.metadata"
    metadata.write_bytes(metadata.read_bytes()[:kept_bytes])
    async with running(tmp_path, topic("orders")) as node:
        assert (await node.describe("orders")).log_end_offset == 3
    assert not list(tmp_path.glob("*-stray"))


@pytest.mark.parametrize("ended", ["in order", "killed"])
async def test_a_partition_whose_folder_was_lost_is_offline(tmp_path, caplog, ended):
    node = Node(tmp_path, [topic("orders", 2)])
    await node.role.start()
    await node.produce("orders", batch(3))
    starts = tmp_path / "log-start-offset-checkpoint"
    await until(lambda: starts.exists() and "orders 0 0" in starts.read_text())
    await (node.role.stop() if ended == "in order" else node.role.kill())
    shutil.rmtree(tmp_path / "orders-0")
    for _ in range(2):
        async with running(tmp_path, topic("orders", 2)) as node:
            for answer in (
                await node.fetch("orders", 0),
                await node.produce("orders", batch()),
                await node.list_offset("orders", -1),
            ):
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await node.produce("orders", batch(), partition=1)).error_code == 0
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(lines) == 2, "one each start"
    assert "orders-0 is gone" in lines[0]
    assert "oncelog storage repair" in lines[0]
    # A topic that was deleted leaves nothing to be missed.
    async with running(tmp_path, topic("orders", 2)) as node:
        node.delta(removed_topics=["orders"])
        await until(lambda: "orders 0" not in starts.read_text())


@pytest.mark.parametrize("is_older", [True, False])
async def test_an_index_that_was_left_alone_keeps_no_log_closed(tmp_path, is_older):
    """Before folders had a boot id, retention that emptied a log left the index of a segment without a file."""
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(3))
    folder = tmp_path / "orders-0"
    (folder / "00000000000000000000.log").unlink()
    for suffix in ("index", "timeindex"):
        (folder / f"00000000000000000000.{suffix}").rename(folder / f"{3:020d}.{suffix}")
    starts = encode_checkpoint({Partition("orders", 0): 3})
    (tmp_path / "log-start-offset-checkpoint").write_bytes(starts)
    if is_older:
        (tmp_path / "boot-id").unlink()
        (tmp_path / "meta.properties").unlink()
    async with running(tmp_path, topic("orders")) as node:
        answer = await node.produce("orders", batch())
        assert answer.error_code == (0 if is_older else ErrorCode.KAFKA_STORAGE_ERROR)
        assert answer.base_offset == (3 if is_older else -1)


async def test_no_bit_of_the_topic_id_hides_the_data(tmp_path):
    """One that was turned over set the folder aside as a stray, and the topic read as empty."""
    async with running(tmp_path, topic("orders", topic_id=RANDOM_ID)) as node:
        await node.produce("orders", batch(3))
    metadata = tmp_path / "orders-0" / "partition.metadata"
    sound = metadata.read_bytes()
    for place in range(0, len(sound) * 8, 5):
        flipped = bytearray(sound)
        flipped[place // 8] ^= 1 << place % 8
        metadata.write_bytes(flipped)
        async with running(tmp_path, topic("orders", topic_id=RANDOM_ID)) as node:
            assert (await node.describe("orders")).log_end_offset == 3, place
        assert b"topic_id: " + sound.split()[-1] in metadata.read_bytes()
    assert not list(tmp_path.glob("*-stray"))


@pytest.mark.parametrize("is_lost", [False, True])
async def test_metadata_that_comes_after_the_start_finds_the_data(tmp_path, is_lost):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(3))
    if is_lost:
        shutil.rmtree(tmp_path / "orders-0")
    node = Node(tmp_path, [topic("orders")])
    complete, node.metadata.image = node.metadata.image, type(node.metadata.image)()
    await node.role.start()
    node.metadata.image = complete
    answer = await node.produce("orders", batch())
    assert answer.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if is_lost else 0)
    assert answer.base_offset == (-1 if is_lost else 3)
    await node.role.stop()


async def test_a_damaged_partition_is_offline_and_others_are_served(tmp_path, caplog):
    topics = [topic("orders"), topic("fine")]
    async with running(tmp_path, *topics) as node:
        for name in ("orders", "fine"):
            await node.fill(name, 3, batch())
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    damaged = bytearray(log.read_bytes())
    damaged[65] ^= 1
    log.write_bytes(damaged)
    async with running(tmp_path, *topics) as node:
        for _ in range(2):
            answer = await node.fetch("orders", 0)
            assert (answer.error_code, answer.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (await node.produce("orders", batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await node.mark("orders", (9, 0, True))) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert (await node.produce("fine", batch())).base_offset == 3
    assert log.read_bytes() == damaged, "evidence is left alone"
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "00000000000000000000.log" in line
    assert "restore" in line
    assert "\n" not in line


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    path = tmp_path / "small"
    path.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("mounting a small tmpfs needs root")
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small tmpfs is not allowed: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def grow(path):
    subprocess.run(["mount", "-o", "remount,size=4m", str(path)], check=True)


async def test_a_full_disk_refuses_writes_and_heals(small_disk, caplog):
    async with running(small_disk / "data", topic("orders")) as node:
        records = batch(value=b"x" * 100_000)
        written = 0
        while (answer := await node.produce("orders", records)).error_code == 0:
            written += 1
            assert written < 20
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in answer.error_message
        assert (await node.produce("orders", records)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        log = small_disk / "data" / "orders-0" / "00000000000000000000.log"
        assert log.stat().st_size == written * len(records), "the partial write is cut off"
        assert (await node.describe("orders")).log_end_offset == written
        fetched = await node.fetch("orders", 0, max_bytes=1 << 24)
        assert len(fetched.records) == written * len(records)
        errors = [each for each in caplog.records if each.levelname == "ERROR"]
        assert len(errors) == 1, "one line, however often producers retry"
        await asyncio.to_thread(grow, small_disk)
        assert (await node.produce("orders", records)).base_offset == written
    async with running(small_disk / "data", topic("orders")) as node:
        assert (await node.describe("orders")).log_end_offset == written + 1
