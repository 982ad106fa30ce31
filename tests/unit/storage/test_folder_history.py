"""The two files in which a storage node's folder remembers its cluster (ADR 0027)."""

import asyncio
import os

import pytest

from oncelog.errors import OncelogError
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog_storage.folder_history import METADATA_SEEN, NODE_HISTORY, FolderHistory, node_folder
from oncelog_storage.log_directory import META_PROPERTIES


def opened(folder, incarnation_id):
    history = FolderHistory(folder)
    history.begin(incarnation_id)
    return history


def registrations(history):
    return list(history.message().incarnation_ids)


def test_each_start_tells_all_registrations_since_the_last(tmp_path):
    assert registrations(opened(tmp_path, "a")) == []
    opened(tmp_path, "b").registered()
    # Two that were killed before their answer.
    assert registrations(opened(tmp_path, "c")) == ["b"]
    assert registrations(opened(tmp_path, "d")) == ["b", "c"]
    opened(tmp_path, "e").registered()
    assert registrations(opened(tmp_path, "f")) == ["e"]


def see(folder, offset):
    async def seen():
        history = opened(folder, "one")
        follower = MetadataFollower(1, None)
        follower.image = MetadataImage(offset, "cluster", 1, 4, "controller")
        history.follow(follower)
        history.close()

    asyncio.run(seen())


def test_metadata_that_a_power_cut_took_is_no_damage(tmp_path):
    see(tmp_path, 17)
    message_then = opened(tmp_path, "two").message()
    assert (message_then.metadata_offset, message_then.controller_epoch) == (17, 4)
    for left in (b"", b"\0" * 40, b'{"metadata_offset":'):
        (tmp_path / METADATA_SEEN).write_bytes(left)
        assert opened(tmp_path, "three").message().controller_incarnation_id == ""
    assert "one" in registrations(opened(tmp_path, "four"))


def test_a_folder_without_the_file_is_judged_once_registered(tmp_path):
    (tmp_path / META_PROPERTIES).write_text("node.id=1\n")
    history = opened(tmp_path, "a")
    assert history.message() is None
    history.registered()
    assert registrations(opened(tmp_path, "b")) == ["a"]


def test_damage_and_a_folder_that_cannot_be_written_are_named(tmp_path):
    opened(tmp_path, "a").registered()
    (tmp_path / NODE_HISTORY).write_bytes(b"")
    with pytest.raises(OncelogError, match="node-history is damaged; restore it from a backup"):
        opened(tmp_path, "b")
    with pytest.raises(OncelogError, match="if it was lost, make it first"):
        node_folder(tmp_path / "none")
    # A file in the place of the folder: nothing can be made below it.
    (tmp_path / "file").touch()
    with pytest.raises(OncelogError, match="cannot"):
        opened(tmp_path / "file" / "folder", "a")


def test_a_living_node_that_registers_again_writes_nothing(tmp_path):
    history = opened(tmp_path, "a")
    history.registered()
    os.unlink(tmp_path / NODE_HISTORY)
    history.registered()
    assert not (tmp_path / NODE_HISTORY).exists()


def test_an_accepted_loss_is_told_once(tmp_path):
    opened(tmp_path, "a").registered()
    FolderHistory(tmp_path).accept_loss()
    history = opened(tmp_path, "b")
    assert history.message().accepts_loss
    history.registered()
    assert not opened(tmp_path, "c").message().accepts_loss


def test_no_bit_of_the_files_passes_for_another(tmp_path):
    """Metadata that nobody saw would keep the node out for ever, an incarnation it never had out of its ISRs."""
    see(tmp_path, 17)
    for name in (METADATA_SEEN, NODE_HISTORY):
        path = tmp_path / name
        whole = path.read_bytes()
        for bit in range(8 * len(whole)):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            history = FolderHistory(tmp_path)
            if name == METADATA_SEEN:
                history._read()
                assert history.message().controller_incarnation_id == "", bit
            else:
                with pytest.raises(OncelogError, match="is damaged; restore it from a backup"):
                    history._read()
        path.write_bytes(whole)
