"""The controllers' metadata database in a simulated world: one SQLite file, reached through
the real `Database` class.

    database = SimDatabase(world, root)
    database.install()
    ONCELOG_CONTROLLER_DATABASE_URL = database.url

Production's schema, statements and transactions run unchanged; what differs from Postgres is the dialect, as in
`oncelog up`. A call is one instant of the simulation, with its commit in it: a controller that is killed is killed
before a transaction or after it. Two transactions never wait for each other's lock, and the file is never left
locked. These faults stand for what happens between a controller and a database on another machine:

- `slow`: calls take longer;
- `outage`: until it ends calls fail, at once (the database is down) or after their timeout (it cannot be reached); a
  call under way may have committed before, and its answer is lost;
- `restart`: an outage of a moment, for all controllers;
- `lose_answers`: a number of the next calls commit, and fail.

Time in the database is the world's true time: no skew of a controller's clock reaches it.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from oncelog_controller.database import Database
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.process import SimProcess, owner
from oncelog_robustness.simulator.seams import EPOCH_MS, replace

if TYPE_CHECKING:
    from oncelog_robustness.simulator.world import World

THREAD_OF_DATABASE: Final = "metadata-database"
"""The beginning of the name of the thread that makes the calls."""
_ROUND_TRIP_S: Final = (0.000_3, 0.003)
_TIMEOUT_MS: Final = 5000
_UNIX_EPOCH_AS_JULIAN_DAY: Final = 2440587.5
_MS_A_DAY: Final = 86_400_000

ResultT = TypeVar("ResultT")


class SimDatabase:
    """The metadata database of one simulated run, with the faults that it can be given. Its file is made
    below `root`."""

    def __init__(self, world: "World", root: Path) -> None:
        self._world = world
        self.path = root.absolute() / "metadata.db"
        self.url = f"sqlite:///{self.path}"
        self._draw = world.streams.stream("database")
        self._delay_s = 0.0
        self._outages: dict[str, bool] = {}
        """The outages by host ("" for all hosts): True if no call is refused and each waits for its timeout."""
        self._breaks: Counter[str] = Counter()
        """The number of times that calls under way were cut off, by host, or "" for all of them."""
        self._answers_to_lose: Counter[str] = Counter()
        self._timeout_ms: dict[str, int] = {}
        self._connections: dict[SimProcess, list[sqlite3.Connection]] = {}
        self._delay_before = world.executor_delay_s

    def install(self) -> None:
        """Make every `Database` of this interpreter use this database and meet its faults, for ever. A run
        has its interpreter for itself."""
        create_engine, open_now, run = Database._create_engine, Database._open, Database.run

        def _create_engine(database: Database) -> Engine:
            engine = create_engine(database)
            event.listen(engine, "connect", self._connected)
            self._timeout_ms[_host()] = database._timeout_ms
            return engine

        def _open(database: Database) -> None:
            self._reach(_host())
            open_now(database)

        async def _run(database: Database, function: Callable[[Connection], ResultT]) -> ResultT:
            host = _host()
            breaks = self._breaks[host], self._breaks[""]

            def reached(connection: Connection) -> ResultT:
                self._reach(host)
                return function(connection)

            result = await run(database, reached)
            if breaks != (self._breaks[host], self._breaks[""]) or self._loses_answer(host):
                self._world.trace("database", host, "answer-lost")
                self._world.effects[Effect.ANSWER_LOST] += 1
                raise _failure("the connection was closed before the answer came")
            self._world.trace("database", host, "done")
            return result

        replace(Database, "_create_engine", _create_engine)
        replace(Database, "_open", _open)
        replace(Database, "run", _run)
        self._delay_before = self._world.executor_delay_s
        self._world.executor_delay_s = self._thread_delay_s

    # ------------------------------------------------------------------------------------------------------- faults

    def slow(self, delay_s: float) -> None:
        """Make every call take `delay_s` longer on average; 0 ends that."""
        self._delay_s = delay_s

    def begin_outage(self, host: str = "", *, is_silent: bool = False) -> None:
        """Begin an outage for `host`, or for all. A silent outage shows only by the timeout of each call."""
        self._world.trace("database", host, "outage", is_silent)
        self._outages[host] = is_silent
        self._breaks[host] += 1

    def end_outage(self, host: str = "") -> None:
        if self._outages.pop(host, None) is not None:
            self._world.trace("database", host, "outage-over")

    def restart(self, lasts_s: float) -> None:
        """Break every connection, and let nobody connect for `lasts_s` seconds."""
        self.begin_outage()
        self._world.loop.call_later(lasts_s, self.end_outage)

    def lose_answers(self, host: str, count: int = 1) -> None:
        """Let the next `count` calls of `host` be carried out and committed, and yet raise an error at their
        caller."""
        self._answers_to_lose[host] = count

    def heal(self) -> None:
        self._delay_s = 0.0
        self._answers_to_lose.clear()
        for host in list(self._outages):
            self.end_outage(host)

    # -------------------------------------------------------------------------------------------------------- calls

    def _reach(self, host: str) -> None:
        if host in self._outages or "" in self._outages:
            self._world.trace("database", host, "unreachable")
            self._world.effects[Effect.DATABASE_UNREACHABLE] += 1
            raise _failure("the database cannot be reached")

    def _loses_answer(self, host: str) -> bool:
        if self._answers_to_lose[host] <= 0:
            return False
        self._answers_to_lose[host] -= 1
        return True

    def _thread_delay_s(self, executor: Executor | None) -> float:
        if not getattr(executor, "_thread_name_prefix", "").startswith(THREAD_OF_DATABASE):
            return self._delay_before(executor)
        host = _host()
        if self._outages.get(host) or self._outages.get(""):
            return self._timeout_ms.get(host, _TIMEOUT_MS) / 1000
        delay_s = self._draw.uniform(*_ROUND_TRIP_S)
        if self._delay_s:
            delay_s += self._draw.expovariate(1 / self._delay_s)
        return delay_s

    def _connected(self, connection: sqlite3.Connection, _record: object) -> None:
        # Nothing is lost with the machine here: a commit needs no sync.
        connection.execute("PRAGMA synchronous=OFF")
        connection.create_function("julianday", 1, self._julian_day)
        process = owner()
        if process is None:
            return
        if process not in self._connections:
            self._connections[process] = []
            process.on_end(lambda: self._close_all_of(process))
        self._connections[process].append(connection)

    def _close_all_of(self, process: SimProcess) -> None:
        """Close the connections of a process that is gone, as the server does."""
        for connection in self._connections.pop(process):
            connection.close()

    def _julian_day(self, moment: str) -> float:
        assert moment == "now", moment
        now_ms = EPOCH_MS + self._world.loop.time() * 1000
        return _UNIX_EPOCH_AS_JULIAN_DAY + now_ms / _MS_A_DAY


def _host() -> str:
    process = owner()
    return "" if process is None else process.host


def _failure(reason: str) -> OperationalError:
    return OperationalError("simulated", {}, sqlite3.OperationalError(reason))
