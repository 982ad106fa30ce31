"""Client libraries of other languages: programs that write records and end. They are built once, in the cache."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conformance.java_programs import CACHE

SOURCES = Path(__file__).parent / "foreign"
BUILD_TIMEOUT_S = 300
RUN_TIMEOUT_S = 60
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class ForeignClient:
    """A library at this version, and the program that uses it."""

    library: str
    version: str
    source: str
    codecs: tuple = ALL_CODECS

    def __str__(self):
        return f"{self.library.rsplit('/', 1)[-1]} {self.version}"

    def produce(self, bootstrap, topic, codec, timestamps):
        """One batch of records with these timestamps, each with its own as the value."""
        words = [bootstrap, topic, codec, *(str(one) for one in timestamps)]
        self._run([*self._program(), *words], CACHE, RUN_TIMEOUT_S, check=True)

    def _program(self):
        folder = CACHE.parent / "foreign" / str(self).replace(" ", "-")
        source = SOURCES / self.source
        is_go = source.suffix == ".go"
        made = folder / ("program" if is_go else "node_modules/kafkajs")
        tools = ("go",) if is_go else ("node", "npm")
        for tool in tools:
            if shutil.which(tool) is None:
                pytest.skip(f"{self} needs {tool}, which is not installed")
        if not made.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for command in self._go_steps() if is_go else self._npm_steps():
                shutil.copy(source, folder)
                done = self._run(command, folder, BUILD_TIMEOUT_S)
                if done.returncode:
                    pytest.skip(f"{self} cannot be built: {done.stderr.strip()[-300:]}")
        return [str(made)] if is_go else ["node", str(folder / source.name)]

    def _go_steps(self):
        if not (CACHE.parent / "foreign" / str(self).replace(" ", "-") / "go.mod").exists():
            yield ["go", "mod", "init", "program"]
        yield ["go", "get", f"{self.library}@v{self.version}"]
        yield ["go", "build", "-o", "program", "."]

    def _npm_steps(self):
        yield ["npm", "install", "--no-package-lock", f"{self.library}@{self.version}"]

    def _run(self, command, folder, timeout_s, *, check=False):
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false"},
        )
        assert not check or done.returncode == 0, f"{self}: {done.stderr[-1000:]}"
        return done


FOREIGN_CLIENTS = (
    ForeignClient("github.com/IBM/sarama", "1.43.3", "sarama.go"),
    ForeignClient("github.com/IBM/sarama", "1.61.1", "sarama.go"),
    ForeignClient("github.com/segmentio/kafka-go", "0.4.51", "kafka_go.go"),
    ForeignClient("kafkajs", "2.2.4", "kafkajs.js", codecs=("none", "gzip")),
)
