"""The controller's database: one connection pool, one thread, and a schema that is current.

SQLAlchemy's calls block, so all of them run on a thread of their own and the event loop never waits. One thread is
enough: the journal has one writer and its appends come one at a time.

Importing alembic costs a quarter of a second, so it is imported only when the stored revision is not this code's. A new
SQLite file gets the tables directly, stamped with the revision that the migrations would have reached.
"""

import asyncio
import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from oncelog.errors import OncelogError
from oncelog_controller.metadata_store import DatabaseAway
from oncelog_controller.schema import (
    INITIAL_STATE,
    NEXT_REVISION,
    SCHEMA_REVISION,
    alembic_version,
    controller_state,
    metadata,
)

ResultT = TypeVar("ResultT")

MIGRATION_LOCK = 0x6F6E63656C6F67
"""The key of the advisory lock that lets one process at a time migrate a Postgres database ("oncelog")."""
MIGRATION_TIMEOUT_MS: Final = 30_000
"""The longest wait, in ms, for one statement of a migration, or for another controller's migration.

In operation a statement that takes seconds means that the database is ill. Making the tables of a new one takes as long
as its disk does.
"""
MIGRATION_POLL_S: Final = 0.1
"""The pause, in seconds, between two tries to get the migration lock. It ends early when the controller must stop.

A statement that waited for the lock in the database could not see that.
"""
LEFT_OPEN_MS: Final = 4_000
"""The time, in ms, after which Postgres ends an idle transaction.

A controller that is frozen or cut off in the middle of a transaction holds the lock that all of them need. Nothing is
lost when Postgres ends the transaction, for nothing was answered yet.
"""
_WAL_TRIES: Final = 20
_WAL_PAUSE_S: Final = 0.05
_NEVER_HEALS: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_DENIED: Final = re.compile(
    r"no password supplied"
    r"|FATAL: +("
    r"(password|Peer|Ident|certificate) authentication failed for user"
    r"|(role|database) .* does not exist"
    r"|role .* is not permitted to log in"
    r"|permission denied for database"
    r"|no pg_hba\.conf entry for|pg_hba\.conf rejects)"
)
"""The words of those Postgres errors for which it is useless to try again: the user or the database is refused.

A session that never began has no error code, so only the words tell. After all other words a controller waits and tries
again: those of another language, or of a third party such as LDAP, which may be back in a moment.
"""


class Database:
    """The metadata database, SQLite or Postgres. Call `open()`, then `run(function)` any number of times, then
    `close()`.
    """

    def __init__(self, url: str, timeout_ms: int) -> None:
        """Check the URL. Raises OncelogError for one that names neither SQLite nor Postgres with psycopg 3."""
        self._url = _checked_url(url)
        self.shown_url = self._url.render_as_string(hide_password=True)
        self._timeout_ms = timeout_ms
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="metadata-database")
        self._engine: Engine | None = None
        self._is_closing = threading.Event()

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises OncelogError with the way out.

        It is a DatabaseAway if a later try may succeed.
        """
        try:
            await self._on_thread(self._open)
        except ImportError as error:
            raise OncelogError(
                f"no driver for the metadata database {self.shown_url}: {error}; "
                "pip install 'oncelog[server]'"
            ) from error
        except SQLAlchemyError as error:
            raise failure_of(
                error,
                f"cannot open the metadata database {self.shown_url}",
                "check that it is there and may be written, or set ONCELOG_CONTROLLER_DATABASE_URL",
            ) from error

    async def run(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """Call `function` in one transaction, committed when it returns. Raises SQLAlchemyError."""

        def in_transaction() -> ResultT:
            assert self._engine is not None, "the database is not open"
            with self._engine.begin() as connection:
                return function(connection)

        return await self._on_thread(in_transaction)

    async def close(self) -> None:
        """Close the connections. Closing twice, or without opening, is fine."""
        self._is_closing.set()
        engine, self._engine = self._engine, None
        if engine is not None:
            await self._on_thread(engine.dispose)
        self._executor.shutdown(wait=False)

    async def _on_thread(self, function: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def _open(self) -> None:
        engine = self._create_engine()
        try:
            _bring_schema_up_to_date(engine, self.shown_url, self._is_closing)
        except BaseException:
            engine.dispose()
            raise
        self._engine = engine

    def _create_engine(self) -> Engine:
        if self._url.get_backend_name() == "sqlite":
            _make_private(self._url.database or "")
            engine = create_engine(self._url, connect_args={"timeout": self._timeout_ms / 1000})
            event.listen(engine, "connect", _configure_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        limits = {
            "lock_timeout": self._timeout_ms,
            "statement_timeout": self._timeout_ms,
            "idle_in_transaction_session_timeout": min(self._timeout_ms, LEFT_OPEN_MS),
        }
        options = " ".join(f"-c {name}={limit}" for name, limit in limits.items())
        connect_timeout_s = max(2, self._timeout_ms // 1000)
        return create_engine(
            self._url,
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": connect_timeout_s,
                # A server that is a standby by now, or not yet promoted, is no database: another host of the URL is
                # asked, or this one again.
                "target_session_attrs": "read-write",
                "tcp_user_timeout": self._timeout_ms,
                # A machine that vanishes while it owes an answer says nothing, and nothing unsent times out.
                "keepalives_idle": max(1, self._timeout_ms // 2000),
                "keepalives_interval": 1,
                "keepalives_count": max(1, self._timeout_ms // 2000),
                "options": options,
            },
        )


def reason_of(error: SQLAlchemyError) -> str:
    """Return the error message of the database driver, on one line."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split()) or type(cause).__name__


def failure_of(error: SQLAlchemyError, what: str, way_out: str = "") -> OncelogError:
    """Return the error to raise when `what` failed: with the driver's reason and the way out.

    It is DatabaseAway if a later try may succeed.
    """
    reason = reason_of(error)
    cause = getattr(error, "orig", None)
    if getattr(cause, "sqlstate", None) is None and _DENIED.search(reason):
        return OncelogError(
            f"{what}: {reason}; correct user, password and database in "
            "ONCELOG_CONTROLLER_DATABASE_URL, or let them in on the server"
        )
    text = f"{what}: {reason}" + (f"; {way_out}" if way_out else "")
    # SQLite's extended codes have the primary one in their last byte.
    code = getattr(cause, "sqlite_errorcode", None)
    is_cut = isinstance(error, DBAPIError) and error.connection_invalidated
    if (isinstance(error, OperationalError) or is_cut) and (code or 0) & 0xFF not in _NEVER_HEALS:
        return DatabaseAway(text)
    return OncelogError(text)


def _checked_url(text_url: str) -> URL:
    way_out = "set ONCELOG_CONTROLLER_DATABASE_URL to sqlite:///path or postgresql+psycopg://user@host/database"
    try:
        url = make_url(text_url)
    except (ArgumentError, ValueError) as error:
        hosts = "; several hosts are postgresql+psycopg://user@/database?host=a:5432&host=b:5432"
        raise OncelogError(f"the metadata database has no valid URL; {way_out}{hosts}") from error
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    shown = url.render_as_string(hide_password=True)
    if url.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise OncelogError(f"metadata database {shown} is neither SQLite nor Postgres; {way_out}")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise OncelogError(
            f"metadata database {shown} names no file, and metadata must outlive the process; {way_out}"
        )
    return url


def _make_private(path: str) -> None:
    """Create the database's file readable for this user only; SQLite's driver would make it readable for everybody.

    If that fails, no error is raised here: the driver raises one with the reason.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin transactions by itself, and late; ours begin where `begin` says.
    connection.isolation_level = None
    cursor = connection.cursor()
    _switch_to_wal(cursor)
    # A committed block of producer ids may never be forgotten, so each commit reaches the disk.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Switch SQLite to its write-ahead log, with retries.

    SQLite does not wait here for another process that opens a new file, whatever its timeout is.
    """
    for tries_left in range(_WAL_TRIES, -1, -1):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            # Any other error does not heal by itself, and is told at once.
            if not tries_left or error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_WAL_PAUSE_S)


def _begin_sqlite(connection: Connection) -> None:
    # Taking the write lock at once makes a second controller wait instead of failing half way.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _bring_schema_up_to_date(engine: Engine, shown_url: str, is_closing: threading.Event) -> None:
    with engine.begin() as connection:
        if _is_current(connection):
            return
        if engine.dialect.name == "sqlite" and not inspect(connection).get_table_names():
            metadata.create_all(connection)
            alembic_version.create(connection)
            connection.execute(insert(controller_state).values(INITIAL_STATE))
            connection.execute(insert(alembic_version).values(version_num=SCHEMA_REVISION))
            return
    # Here, for an import takes time, and while a transaction is open, other controllers wait.
    from oncelog_controller.migration import migrate

    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            for limit in (
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
            ):
                connection.exec_driver_sql(f"SET LOCAL {limit} = {MIGRATION_TIMEOUT_MS}")
            _take_turn(connection, shown_url, is_closing)
        if not _is_current(connection):
            migrate(connection, shown_url)


def _take_turn(connection: Connection, shown_url: str, is_closing: threading.Event) -> None:
    """Wait until no other controller migrates the schema. Raises DatabaseAway if that takes too long, or when
    `is_closing` is set: the process ends only after this thread.
    """
    deadline = time.monotonic() + MIGRATION_TIMEOUT_MS / 1000
    statement = text("SELECT pg_try_advisory_xact_lock(:key)")
    while not connection.execute(statement, {"key": MIGRATION_LOCK}).scalar_one():
        if is_closing.wait(MIGRATION_POLL_S) or time.monotonic() > deadline:
            raise DatabaseAway(
                f"cannot open the metadata database {shown_url}: another controller migrates it"
            )


def _is_current(connection: Connection) -> bool:
    """True if this code can run on the database's schema without a migration."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    stored = connection.execute(select(alembic_version.c.version_num)).scalars().all()
    return list(stored) in ([SCHEMA_REVISION], [NEXT_REVISION])
