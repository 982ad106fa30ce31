"""`examples/lakehouse`: each order is in the table and in the topic once, wherever the driver is killed."""

import os

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from tests.spark.lakehouse import ROWS_OF_A_BATCH, Killer, Lakehouse

KILLS = int(os.environ.get("ONCELOG_TEST_LAKE_KILLS", "4"))
SEED = int(os.environ.get("ONCELOG_TEST_LAKE_SEED", "1"))
NEVER_THERE = ("newest is None or newest < batch_id", "True")
"""The example without its look at what the table has."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
def lake(tmp_path):
    lake = Lakehouse(tmp_path)
    lake.start()
    yield lake
    lake.close()


def test_kills_anywhere_lose_and_double_nothing(lake):
    killer = Killer(lake, SEED)
    try:
        for _ in range(KILLS):
            killer.kill()
        lake.finish()
        lake.wait_decided()
        wanted = list(range(lake.sent))
        assert lake.in_table() == wanted
        assert lake.in_topic() == wanted
    except AssertionError as error:
        error.add_note(f"seed {SEED}: {killer.told}")
        raise
    assert sum(hit for _, _, hit in killer.told) >= KILLS // 2
    print(killer.told, f"{killer.repeated} batches were in the table and not in the checkpoint")


def test_the_table_takes_a_batch_from_one_of_two_drivers(tmp_path):
    """Both have looked, and seen that it is not there."""
    rows = pa.table({"id": [1, 2]})
    DeltaTable.create(str(tmp_path), rows.schema)
    drivers = [DeltaTable(str(tmp_path)) for _ in range(2)]
    assert [one.transaction_version("a") for one in drivers] == [None, None]
    key = CommitProperties(app_transactions=[Transaction("a", 7)])
    write_deltalake(drivers[0], rows, mode="append", commit_properties=key)
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        write_deltalake(drivers[1], rows, mode="append", commit_properties=key)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].to_pylist() == [1, 2]


def test_without_the_look_at_the_table_a_kill_doubles(lake):
    """What the key is for: the same kill, and a job that does not say which batch it writes."""
    assert NEVER_THERE[0] in lake.source
    lake.source = lake.source.replace(*NEVER_THERE)
    tries = 0
    while not lake.has_batch_to_repeat():
        tries += 1
        assert tries < 6, "no kill came between the table's commit and the checkpoint's"
        lake.send(2 * ROWS_OF_A_BATCH)
        lake.kill_at("in the table", 1, 0)
    lake.finish()
    table = lake.in_table()
    assert len(table) > len(set(table)) == lake.sent
