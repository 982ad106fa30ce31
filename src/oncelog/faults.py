"""Faults that a test can make happen in a running log, at the moment it wants: Kafka offers no such way.

    def test_a_reader_waits(oncelog_broker, oncelog_faults):
        with oncelog_faults.hold_end_txn("orders") as held:
            ...  # a commit of "orders" is sent by now, in another thread
            held.wait_until_met()

Faults happen in the log itself: a real request is held, a real coordinator ends and starts from its log. The calls
block, for milliseconds as a rule. In a coroutine, give `wait_until_met` to `asyncio.to_thread`.
"""

import json
import math
import socket
import threading
import time
from types import TracebackType
from typing import Final, Self

from oncelog.errors import OncelogError

ANSWER_TIMEOUT_S: Final = 60.0
MET_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.005


class Fault:
    """A fault that goes on until `release()`, or until the end of its `with` block."""

    def __init__(self, channel: "_Channel", number: int, name: str) -> None:
        self._channel = channel
        self._number = number
        self._name = name

    @property
    def met(self) -> int:
        """The number of requests or writes that have met the fault so far; 0 for a fault that acts at once."""
        return self._channel.ask_number("met", number=self._number)

    def wait_until_met(self, timeout_s: float = MET_TIMEOUT_S) -> None:
        """Return when a request or write has met the fault. Raises OncelogError after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not self.met:
            if time.monotonic() > deadline:
                raise OncelogError(f"nothing met {self._name} in {timeout_s:g} s")
            time.sleep(_POLL_S)

    def release(self) -> None:
        """End the fault; a second call does nothing.
        Raises OncelogError for a fault that nothing has met: the test shows nothing of it."""
        self._channel.ask("release", number=self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except OncelogError:
            # The error of the block tells more.
            if error is None:
                raise


class Faults:
    """The faults of one running log. Each method raises OncelogError, which says what is wrong and the way out."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = _Channel(channel)

    def delay_end_txn(self, transactional_id: str, *, seconds: float) -> Fault:
        """Delay each EndTxn of this id, by so many seconds, on its way to the coordinator."""
        return self._begin(
            "hold_end_txn", transactional_id=_name(transactional_id), seconds=_positive(seconds)
        )

    def hold_end_txn(self, transactional_id: str) -> Fault:
        """Hold each EndTxn of this id, a commit or an abort, in the listener until the release."""
        return self._begin("hold_end_txn", transactional_id=_name(transactional_id), seconds=None)

    def delay_markers(self, transactional_id: str, *, seconds: float) -> Fault:
        """Delay the markers of a decided transaction, by so many seconds, on their way to the partitions."""
        return self._begin(
            "hold_markers", transactional_id=_name(transactional_id), seconds=_positive(seconds)
        )

    def hold_markers(self, transactional_id: str) -> Fault:
        """Begin a fault: the markers of this transactional id's transaction are not sent after it is decided, until the
        fault is released.
        """
        return self._begin("hold_markers", transactional_id=_name(transactional_id), seconds=None)

    def drop_markers(self, transactional_id: str, *, count: int = 1) -> Fault:
        """Lose the next `count` requests with the transaction's markers.
        The marker sender sends them again, as it does when a connection breaks."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise OncelogError(
                f"count={count!r}: it must be a whole number of requests, at least 1"
            )
        return self._begin("drop_markers", transactional_id=_name(transactional_id), count=count)

    def kill_coordinator(self) -> Fault:
        """End the coordinator of transactions and groups. The release starts another one, which replays its log."""
        return self._begin("kill_coordinator")

    def disk_full(self) -> Fault:
        """Fail each write of the storage node with ENOSPC."""
        return self._begin("disk_full")

    def move_clock(self, *, seconds: float) -> Fault:
        """Move the clock of coordinator and storage node ahead by so many seconds, until the release.

        Open transactions then time out, and transactional ids and producer ids expire.
        """
        return self._begin("move_clock", seconds=_positive(seconds))

    def expire_transaction(self, transactional_id: str) -> None:
        """Let the id's open transaction time out now: it is aborted, and its producer fenced."""
        self._channel.ask("expire_transaction", transactional_id=_name(transactional_id))

    def fence_producer(self, transactional_id: str) -> None:
        """Fence the producer of this id, as if another process had started a producer with the id."""
        self._channel.ask("fence_producer", transactional_id=_name(transactional_id))

    def clear(self) -> None:
        """Release every fault. Raises OncelogError, when all have ended, for the faults that nothing has met."""
        self._channel.ask("clear")

    def _begin(self, call: str, **arguments: object) -> Fault:
        shown = ", ".join(
            f"{name}={value!r}" for name, value in arguments.items() if value is not None
        )
        return Fault(self._channel, self._channel.ask_number(call, **arguments), f"{call}({shown})")


class _Channel:
    """The test's end of the socket on which it controls the faults of a log in a child process. Threads may share it.

    `oncelog_server.faults.control` has the other end.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.settimeout(ANSWER_TIMEOUT_S)
        self._socket = channel
        self._lines = channel.makefile("rb")
        self._lock = threading.Lock()

    def ask(self, call: str, **arguments: object) -> object:
        """Send a call to the log, and return its answer. Raises OncelogError for a refusal, and if no answer comes."""
        with self._lock:
            try:
                self._socket.sendall(
                    json.dumps({"call": call, "arguments": arguments}).encode() + b"\n"
                )
                line = self._lines.readline()
            except OSError as error:
                raise OncelogError(
                    f"the log does not answer {call}: {error or 'time-out'}"
                ) from error
        if not line:
            raise OncelogError(f"the log has ended, and does not answer {call}")
        answer = json.loads(line)
        if "refused" in answer:
            raise OncelogError(answer["refused"])
        return answer["answer"]

    def ask_number(self, call: str, **arguments: object) -> int:
        answer = self.ask(call, **arguments)
        assert isinstance(answer, int), (call, answer)
        return answer


def _name(transactional_id: str) -> str:
    if not isinstance(transactional_id, str) or not transactional_id:
        raise OncelogError(
            f"transactional_id={transactional_id!r}: give the transactional.id of the producer, a string"
        )
    return transactional_id


def _positive(seconds: float) -> float:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or seconds <= 0:
        raise OncelogError(f"seconds={seconds!r}: it must be a number above 0")
    return float(seconds)
