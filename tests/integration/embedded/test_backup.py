"""Backup and restore of `oncelog up`, and every mixture of an older and a newer part of its folder (ADR 0027)."""

import json
import os
import shutil
import signal
from urllib.request import urlopen

import pytest
from tests import kept_data

import oncelog
from oncelog.errors import OncelogError
from oncelog_server.backup import back_up, restore
from oncelog_server.cli import run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def make(folder):
    with oncelog.running(data=folder) as log:
        return kept_data.write(log.bootstrap_servers)


def write_more(folder, value="later"):
    """One more start of the log, with a transaction of a producer that is new. Returns its producer id."""
    with oncelog.running(data=folder) as log:
        kept_data.commit(kept_data.transactional(log.bootstrap_servers, f"id-{value}"), value)
        return producer_id(log, f"id-{value}")


def producer_id(log, transactional_id):
    with urlopen(f"{log.rest_url}/v1/transactions/{transactional_id}") as answer:
        return json.load(answer)["producer_id"]


def test_a_restored_folder_has_all_once_and_repeats_no_id(folder, tmp_path):
    kept = make(folder)
    backup = tmp_path / "backup.tar.gz"
    assert run(["backup", str(folder), str(backup)]) == 0
    latest = write_more(folder)
    shutil.rmtree(folder)
    assert run(["restore", str(backup), str(folder)]) == 0
    with oncelog.running(data=folder) as log:
        kept_data.check(log.bootstrap_servers)
        new = kept_data.transactional(log.bootstrap_servers, "new")
        kept_data.commit(new, "new")
        assert producer_id(log, "new") > latest + 1_000_000
    del kept
    # A restored log is backed up and restored as any other.
    again = tmp_path / "again.tar.gz"
    back_up(folder, again)
    restore(again, tmp_path / "other")
    with oncelog.running(data=tmp_path / "other") as log:
        assert kept_data.read(log.bootstrap_servers)[-1] == "new"


def test_older_metadata_beside_newer_logs_is_refused(folder, tmp_path):
    make(folder)
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    write_more(folder)
    for path in folder.glob("controller.db*"):
        path.unlink()
    for path in older.glob("controller.db*"):
        shutil.copy(path, folder)
    for _ in range(2):
        with (
            pytest.raises(OncelogError, match="the metadata is older than the folder of node 1"),
            oncelog.running(data=folder),
        ):
            pass


def test_older_logs_beside_newer_metadata_are_refused(folder, tmp_path):
    make(folder)
    older = tmp_path / "older"
    shutil.copytree(folder / "logs", older)
    write_more(folder)
    shutil.rmtree(folder / "logs")
    for before, said in ((None, "is empty, and was not"), (older, "is older than the metadata")):
        if before is not None:
            shutil.rmtree(folder / "logs", ignore_errors=True)
            shutil.copytree(before, folder / "logs")
        with (
            pytest.raises(OncelogError, match=f"the folder of node 1 {said}"),
            oncelog.running(data=folder),
        ):
            pass
    assert run(["storage", "accept-loss", str(folder), "--yes"]) == 0
    with oncelog.running(data=folder) as log:
        kept_data.check(log.bootstrap_servers)
    write_more(folder, "again")


def test_kills_at_any_time_are_no_older_folder(folder):
    for _ in range(3):
        with oncelog.running(data=folder) as log:
            os.kill(log.pid, signal.SIGKILL)


def test_a_running_log_and_a_cut_backup_are_refused(folder, tmp_path, capsys):
    backup = tmp_path / "backup.tar.gz"
    with oncelog.running(data=folder) as log:
        kept_data.transactional(log.bootstrap_servers, "one")
        assert run(["backup", str(folder), str(backup)]) == 1
        assert "is in use by process" in capsys.readouterr().err
    assert not list(tmp_path.glob("backup*"))
    back_up(folder, backup)
    assert backup.stat().st_mode & 0o077 == 0
    with pytest.raises(OncelogError, match="is not empty"):
        restore(backup, folder)
    with pytest.raises(OncelogError, match="exists; name a file that does not"):
        back_up(folder, backup)
    with pytest.raises(OncelogError, match="is inside of"):
        back_up(folder, folder / "backup.tar.gz")
    whole = backup.read_bytes()
    gaps = [whole[:at] + whole[at + 1 :] for at in (3000, len(whole) // 2)]
    for damaged in (whole[: len(whole) // 2], whole[:-1000], b"", *gaps):
        backup.write_bytes(damaged)
        with pytest.raises(OncelogError, match="is no whole backup"):
            restore(backup, tmp_path / "new")
        assert not list((tmp_path / "new").iterdir())
    with pytest.raises(OncelogError, match="holds neither"):
        back_up(tmp_path / "new", tmp_path / "b.tar.gz")
