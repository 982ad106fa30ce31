"""What `make golden` keeps of a version, beside its contracts: `python -m tests.golden_data FOLDER`.

`records.json` has the bytes of every type of record that is kept on a disk, and what they mean. `up.tar.gz` is a data
folder of `oncelog up`, as a backup, and `up.json` says what a client must find in it.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from tests import kept_data, stored_records

import oncelog
from oncelog_server.backup import back_up
from oncelog_server.cli.rest import Rest

SETTINGS = {
    "ONCELOG_STORAGE_CLEANER_INTERVAL_MS": "100",
    "ONCELOG_CONTROLLER_TRANSACTION_SHARD_COUNT": "4",
    "ONCELOG_CONTROLLER_GROUP_SHARD_COUNT": "4",
}
CLEANED_WITHIN_S = 30


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "records.json", list(records()))
    with tempfile.TemporaryDirectory() as made:
        data = Path(made) / "data"
        with oncelog.running(data=data, environment=SETTINGS) as log:
            left = kept_data.write(log.bootstrap_servers)
            kept_data.consume_in_groups(log.bootstrap_servers)
            _await_cleaning(log)
            found = expected(log)
        del left
        (folder / "up.tar.gz").unlink(missing_ok=True)
        back_up(data, folder / "up.tar.gz")
    _write_json(folder / "up.json", found)


def records():
    for kind, name, key, value in stored_records.stored():
        record = stored_records.read(kind, key, value)
        assert record is not None, (kind, name)
        is_text = kind == "metadata"
        yield {
            "kind": kind,
            "type": name,
            "key": key if is_text else key.hex(),
            "value": value if is_text or value is None else value.hex(),
            "means": stored_records.meaning(record),
        }


def expected(log):
    """What must be found in the folder, by name."""
    rest = Rest(log.rest_url)
    return {
        "topic": kept_data.TOPIC,
        "compacted": kept_data.COMPACTED,
        "group": kept_data.GROUP,
        "values": [*kept_data.COMMITTED, *kept_data.IDEMPOTENT],
        "balances": kept_data.BALANCES,
        "offsets": [[*key, offset] for key, offset in kept_data.OFFSETS.items()],
        "group_offsets": dict.fromkeys(kept_data.MEMBERS, kept_data.MEMBERS_OFFSET),
        "transactions": {
            name: {
                key: rest.get(f"/v1/transactions/{name}")[key] for key in ("state", "producer_id")
            }
            for name in ("pay", "open")
        },
    }


def _await_cleaning(log):
    """Of the compacted topic hardly more is left than each key's newest record."""
    deadline = time.monotonic() + CLEANED_WITHIN_S
    most = 2 * len(kept_data.BALANCES) + 2
    while len(kept_data.read(log.bootstrap_servers, kept_data.COMPACTED)) >= most:
        assert time.monotonic() < deadline, "the compacted topic was not cleaned"
        time.sleep(0.1)


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
