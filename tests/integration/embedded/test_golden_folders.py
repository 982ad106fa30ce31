"""Data folders of earlier versions are opened by this one, with all in them (`make golden`, docs/upgrades.md)."""

import json
import tarfile
from pathlib import Path

import pytest
from tests import kept_data

import oncelog
from oncelog_server.backup import MANIFEST, restore
from oncelog_server.cli.rest import Rest
from oncelog_storage.core.checkpoint_files import decode_checkpoint

GOLDEN = Path(__file__).parents[2] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if (path / "up.json").exists())
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "coordinator-epoch-checkpoint",
)


@pytest.fixture(params=VERSIONS)
def version(request):
    return GOLDEN / request.param


@pytest.fixture
def expected(version):
    return json.loads((version / "up.json").read_text())


def check(log, expected):
    found = {name: Rest(log.rest_url).get(f"/v1/transactions/{name}") for name in ("pay", "open")}
    for name, then in expected["transactions"].items():
        now = {key: found[name][key] for key in then}
        # One that was open has timed out since.
        assert now in (then, then | {"state": "CompleteAbort"} if name == "open" else then)
    offsets = {(topic, number): offset for topic, number, offset in expected["offsets"]}
    assert kept_data.offsets(log.bootstrap_servers, expected["group"], offsets) == offsets
    key = (expected["compacted"], 0)
    for group, offset in expected["group_offsets"].items():
        assert kept_data.offsets(log.bootstrap_servers, group, [key]) == {key: offset}
    kept_data.commit(kept_data.transactional(log.bootstrap_servers, "open"), "now")
    kept_data.commit(kept_data.transactional(log.bootstrap_servers, "pay"), "and now")
    assert kept_data.read(log.bootstrap_servers, expected["topic"]) == [
        *expected["values"],
        "now",
        "and now",
    ]
    pairs = kept_data.read(log.bootstrap_servers, expected["compacted"])
    assert dict(pair.split("=") for pair in pairs) == expected["balances"]
    assert len(pairs) < 2 * len(expected["balances"]) + 2, "it was cleaned"


def test_a_folder_of_an_earlier_version_has_everything(version, expected, tmp_path):
    with tarfile.open(version / "up.tar.gz") as tar:
        assert tar.getmember(MANIFEST).isreg()
        tar.extractall(tmp_path / "data", filter="data")
    logs = tmp_path / "data" / "logs"
    # As on another machine.
    (logs / "boot-id").write_text("another\n")
    for name in CHECKPOINTS:
        assert decode_checkpoint((logs / name).read_text()), name
    with oncelog.running(data=tmp_path / "data") as log:
        check(log, expected)
    # And once more, by what this version has written.
    with oncelog.running(data=tmp_path / "data") as log:
        values = kept_data.read(log.bootstrap_servers, expected["topic"])
        assert values[-2:] == ["now", "and now"]
    assert not list(logs.glob("**/*.cut")), "nothing was given up"
    assert not list(logs.glob("**/*.torn"))


def test_a_backup_of_an_earlier_version_is_restored(version, expected, tmp_path):
    restore(version / "up.tar.gz", tmp_path / "data")
    with oncelog.running(data=tmp_path / "data") as log:
        check(log, expected)
