"""One schema, whichever way it came to be; and no migration tool on the way to a start that needs none."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from tests.integration.controller.controller_at import allocate, controller_at, register
from tests.integration.controller.sql_databases import execute

import oncelog_controller
from oncelog.errors import OncelogError
from oncelog_controller.database import Database
from oncelog_controller.schema import NEXT_REVISION, SCHEMA_REVISION, metadata

MIGRATIONS = Path(oncelog_controller.__file__).parent / "migrations"


def alembic_config():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def migrate(url):
    """Bring a database up to date with alembic alone."""
    engine = create_engine(url)
    with engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()


async def opened(url):
    database = Database(url, timeout_ms=5000)
    await database.open()
    await database.close()


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
OTHERS = "SELECT tbl_name, type, name FROM sqlite_master WHERE type <> 'table' ORDER BY 1"
COLUMNS = (
    "SELECT table_name, column_name, data_type, is_nullable, column_default, "
    "character_maximum_length FROM information_schema.columns "
    "WHERE table_schema = 'public' ORDER BY 1, ordinal_position"
)


def described(url):
    """Every table and column of a database, and its revision."""
    if url.startswith("sqlite"):
        columns = [
            (name, *row)
            for (name,) in execute(url, TABLES)
            for row in execute(url, f"PRAGMA table_info({name})")
        ]
        columns += execute(url, OTHERS)
    else:
        columns = execute(url, COLUMNS)
    return [tuple(column) for column in columns], revision_of(url)


def revision_of(url):
    return [revision for (revision,) in execute(url, "SELECT version_num FROM alembic_version")]


async def test_the_fast_path_and_the_migrations_give_one_schema(tmp_path):
    migrated, fast = (f"sqlite:///{tmp_path / name}" for name in ("migrated.db", "fast.db"))
    migrate(migrated)
    await opened(fast)
    assert described(fast) == described(migrated)
    assert described(fast)[1] == [SCHEMA_REVISION]


async def test_the_tables_in_code_are_those_of_the_migrations(postgres_url):
    await opened(postgres_url)
    migrated, revision = described(postgres_url)
    assert revision == [SCHEMA_REVISION]
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE metadata_journal"))
        metadata.create_all(connection)
    engine.dispose()
    assert described(postgres_url)[0] == migrated


def test_the_revision_in_code_is_the_newest_migration():
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [SCHEMA_REVISION]


async def test_a_journal_of_the_first_revision_goes_on_where_it_was(database_url):
    """Its blocks were given away before there was a second account of them."""
    async with controller_at(database_url) as stub:
        node_epoch = (await register(stub)).node_epoch
        await allocate(stub, node_epoch)
    execute(
        database_url,
        "DROP TABLE controller_state",
        "UPDATE alembic_version SET version_num = '0001'",
    )
    async with controller_at(database_url) as stub:
        assert (await allocate(stub, node_epoch)).first_producer_id == 1000
    async with controller_at(database_url) as stub:
        assert (await allocate(stub, node_epoch)).first_producer_id == 2000


async def test_a_database_without_our_tables_is_migrated(sqlite_url):
    execute(sqlite_url, "CREATE TABLE somebody_elses (x INTEGER)")
    await opened(sqlite_url)
    columns, revision = described(sqlite_url)
    assert revision == [SCHEMA_REVISION]
    assert {"somebody_elses", "metadata_journal"} <= {column[0] for column in columns}


async def test_two_controllers_may_open_a_new_database_at_once(database_url):
    await asyncio.gather(*(opened(database_url) for _ in range(4)))
    async with controller_at(database_url) as stub:
        assert (await register(stub)).status.error_code == 0


async def test_a_database_one_revision_newer_is_used_and_left_alone(database_url):
    await opened(database_url)
    execute(
        database_url,
        "ALTER TABLE controller_state ADD COLUMN remark VARCHAR(10)",
        f"UPDATE alembic_version SET version_num = '{NEXT_REVISION}'",
    )
    async with controller_at(database_url) as stub:
        assert (await register(stub)).status.error_code == 0
    assert revision_of(database_url) == [NEXT_REVISION]


async def test_a_database_of_a_newer_version_is_refused(database_url):
    await opened(database_url)
    execute(database_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(OncelogError, match="newer oncelog") as caught:
        await opened(database_url)
    assert "\n" not in str(caught.value)


async def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "c.db"
    path.write_bytes(b"this is not a database, but it is long enough to be looked at" * 40)
    with pytest.raises(OncelogError, match="not a database"):
        await opened(f"sqlite:///{path}")


async def test_commits_reach_the_disk_on_sqlite(sqlite_url):
    database = Database(sqlite_url, timeout_ms=5000)
    await database.open()
    for pragma, expected in (("journal_mode", "wal"), ("synchronous", 2)):
        found = await database.run(
            lambda connection, pragma=pragma: connection.exec_driver_sql(
                f"PRAGMA {pragma}"
            ).scalar()
        )
        assert found == expected
    await database.close()


def test_no_start_imports_the_migration_tool(sqlite_url):
    program = """
import asyncio, sys
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller
async def run():
    role = build_controller(ControllerSettings(database_url=sys.argv[1]))
    await role.start()
    await role.stop()
asyncio.run(run())
heavy = {"alembic", "psycopg", "grpc", "pandas", "numpy", "pyarrow", "opentelemetry", "mako"}
print(sorted(heavy & set(sys.modules)))
"""
    for _ in range(2):
        found = subprocess.run(
            [sys.executable, "-c", program, sqlite_url], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == "[]"


def test_the_migration_tool_is_not_imported_in_a_transaction(tmp_path):
    """It takes long, on a busy machine longer than a lease, and others wait for the end of the transaction."""
    path = tmp_path / "c.db"
    execute(f"sqlite:///{path}", "CREATE TABLE somebody_elses (x INTEGER)")
    program = """
import asyncio, sqlite3, sys
from oncelog_controller.database import Database
imported, locked = [], []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("alembic", "mako"):
            imported.append(name)
            probe = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                locked.append(name)
            finally:
                probe.close()
sys.meta_path.insert(0, Watch())
database = Database(f"sqlite:///{sys.argv[1]}", timeout_ms=5000)
async def run():
    await database.open()
    await database.close()
asyncio.run(run())
print(len(imported) > 10, locked)
"""
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "True []"
