"""Java programs that tests run: the jars of `java/pom.xml` and the classes of `java/*.java`."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts import maven_jars

HERE = Path(__file__).parent
SOURCES = HERE / "java"
JVM = (
    "java",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
    # A program's warnings are shown when a test fails.
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
JAVAC_TIMEOUT_S = 100


CACHE = Path(os.environ.get("ONCELOG_TEST_CACHE", HERE.parents[1] / ".cache")) / "java-client"


def fetched_jars(cache: Path, pom: Path = SOURCES / "pom.xml") -> Path:
    """The folder of the jars that the pom names, fetched once for each pom. Skips, with the reason, without Maven."""
    try:
        return maven_jars.fetched_jars(cache, pom)
    except maven_jars.NoJarsError as error:
        pytest.skip(str(error))


@contextmanager
def compiled() -> Iterator[str]:
    """The class path of our Java programs and Kafka's jars. Skips, with the reason, where there is no JDK."""
    for tool in ("mvn", "javac", "java"):
        if shutil.which(tool) is None:
            pytest.skip(f"Kafka's Java clients need {tool}, which is not installed: make jdk")
    classes = CACHE / f"classes-{os.getpid()}"
    classes.mkdir(parents=True, exist_ok=True)
    jars = fetched_jars(CACHE)
    sources = [str(one) for one in sorted(SOURCES.glob("*.java"))]
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *sources]
    subprocess.run(command, check=True, timeout=JAVAC_TIMEOUT_S)
    yield f"{classes}:{jars}/*"
    shutil.rmtree(classes)


class Program:
    """A Java program that runs until it is killed; its lines are kept."""

    def __init__(self, classpath: str, main_class: str, *arguments: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [*JVM, "-cp", classpath, main_class, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def count(self, start: str) -> int:
        return sum(line.startswith(start) for line in self.lines)

    def wait_for_more(self, start: str, count: int) -> None:
        """Until so many further lines begin with this."""
        there = self.count(start)
        self.wait_for(lambda: self.count(start) >= there + count)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Until it holds; an AssertionError with the last lines when it does not, or when the program ends."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self._process.poll() is None, "\n".join(self.lines[-30:])
            assert time.monotonic() < deadline, "\n".join(self.lines[-30:])
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self._process.kill()
        self._end()

    def close(self) -> None:
        """It ends by itself when its input does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
