"""A process of Java with Kafka's clients in it, driven over pipes; `java_client/KafkaWorker.java` is the program.

The Java process ends when its input does, and so with the process that started it. `prepare` compiles the program once,
and child processes find its class path in the environment.
"""

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from oncelog.errors import OncelogError
from oncelog_robustness.clients.contract import Unanswered

CLASSPATH_VARIABLE: Final = "VERIFY_JAVA_CLASSPATH"
"""The environment variable in which the processes of a run find the class path: the compiled program and Kafka's
jars. Commands of --fault and --restart get it too, and an `oncelog up` there refuses variables of its own that it does
not know: so the name does not begin with ONCELOG_."""
SOURCE: Final = Path(__file__).parent / "java_client" / "KafkaWorker.java"
COMPILE_TIMEOUT_S: Final = 120
IDLE_S: Final = 10.0
JVM: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_COMPILER: Final = ("-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none")


def prepare(java_classpath: str) -> str:
    """Compile the program and set `CLASSPATH_VARIABLE`. Return why Java clients cannot take part; empty if they can.

    `java_classpath` has kafka-clients and what it needs. If it is empty, `libs` in the folder KAFKA_HOME is taken.
    """
    if not java_classpath and os.environ.get("KAFKA_HOME"):
        java_classpath = str(Path(os.environ["KAFKA_HOME"]) / "libs" / "*")
    if not java_classpath:
        return "it is not known where its jars are (--java-classpath, or KAFKA_HOME)"
    java = shutil.which("java")
    if java is None:
        return "there is no command java (install a JDK, 17 or newer)"
    classes = tempfile.mkdtemp(prefix="oncelog-verify-java-")
    command = [java, *_COMPILER, "-d", classes, "-cp", _expanded(java_classpath), str(SOURCE)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"its compiler does not end within {COMPILE_TIMEOUT_S} s"
    if done.returncode != 0:
        shutil.rmtree(classes, ignore_errors=True)
        return _failure(done.stdout + done.stderr, java_classpath)
    os.environ[CLASSPATH_VARIABLE] = f"{classes}{os.pathsep}{java_classpath}"
    return ""


def _expanded(java_classpath: str) -> str:
    """Return the class path with the jars of each `folder/*`, which the compiler does not expand as Java does."""
    parts = []
    for part in java_classpath.split(os.pathsep):
        is_folder = part.endswith("*")
        parts += sorted(str(one) for one in Path(part[:-1]).glob("*.jar")) if is_folder else [part]
    return os.pathsep.join(parts)


def _failure(said: str, java_classpath: str) -> str:
    if "jdk.compiler" in said:
        return "this Java has no compiler (install a JDK, 17 or newer)"
    if "org.apache.kafka" in said:
        return f"no kafka-clients in the class path {java_classpath}"
    first = said.strip().splitlines()[:1] or ["its compiler failed"]
    return first[0][:200]


def forget() -> None:
    """Remove what `prepare` compiled, and the environment variable that it set."""
    found = os.environ.pop(CLASSPATH_VARIABLE, "")
    if found:
        shutil.rmtree(found.partition(os.pathsep)[0], ignore_errors=True)


class JavaError(Exception):
    """An exception in Java. `kinds` are words that classify it, such as `fenced`. `sent` is the number of EndTxn
    requests that were sent; -1 if nobody counted."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer["error"]))
        self.kinds = frozenset(str(answer["kinds"]).split())
        self.sent = int(answer.get("sent", -1))


class JavaProcess:
    """The one Java process of this Python process, which the first client starts.

    It ends with this Python process, or after `IDLE_S` seconds without a client. It is kept so long because a start
    takes a second of a processor, and the last reads open one consumer after the other.
    """

    _mine: "JavaProcess | None" = None

    @classmethod
    def enter(cls) -> "JavaProcess":
        """Count one client more, and return the Java process for it. Start a process if there is none that can be
        used."""
        found = cls._mine
        if found is None or not found._is_usable():
            found = cls._mine = JavaProcess()
        found._clients += 1
        return found

    def __init__(self) -> None:
        classpath = os.environ.get(CLASSPATH_VARIABLE)
        if not classpath:
            raise OncelogError("the Java client was not prepared: give --java-classpath")
        self._owner = os.getpid()
        self._clients = 0
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._has_ended = False
        self._process = subprocess.Popen(
            ["java", *JVM, "-cp", classpath, "KafkaWorker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for its owner.
            start_new_session=True,
        )
        threading.Thread(target=self._read, name="java answers", daemon=True).start()

    async def ask(self, timeout_s: float, verb: str, *words: object) -> dict[str, Any]:
        """Send the command `verb` with its arguments `words`, and return the answer. Raises JavaError for an exception
        in Java. Raises Unanswered after `timeout_s`, or when the Java process has ended."""
        if self._has_ended:
            raise Unanswered("the Java process has ended")
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[number] = future
        line = "\t".join(str(one) for one in (number, verb, *words)) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
            async with asyncio.timeout(timeout_s):
                answer = await future
        except OSError as error:
            raise Unanswered("the Java process has ended") from error
        except TimeoutError as error:
            raise Unanswered(f"{verb}: no end in {timeout_s} s") from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise JavaError(answer)
        return answer

    def _is_usable(self) -> bool:
        """False if the Java process has ended. False also in a forked child, which must not write into its parent's
        pipe. On another event loop than before, end the process and return False."""
        if self._owner != os.getpid():
            return False
        if self._loop is not asyncio.get_running_loop():
            self._clients = 0
            self._end_if_idle()
        return not self._has_ended

    def leave(self) -> None:
        """Count one client less. If there is no client `IDLE_S` seconds later, the Java process is ended."""
        self._clients -= 1
        self._loop.call_later(IDLE_S, self._end_if_idle)

    @classmethod
    def end_mine(cls) -> None:
        """End the Java process that this Python process has started, if it has no client."""
        if cls._mine is not None and cls._mine._owner == os.getpid():
            cls._mine._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._clients == 0 and not self._has_ended:
            self._has_ended = True
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tell(self._take, json.loads(line))
        self._process.wait()
        self._tell(self._end)

    def _tell(self, call: Any, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed, and nobody waits any more.
            return

    def _take(self, answer: dict[str, Any]) -> None:
        future = self._waiting.get(answer.pop("number"))
        if future is not None and not future.done():
            future.set_result(answer)

    def _end(self) -> None:
        self._has_ended = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unanswered("the Java process has ended"))
