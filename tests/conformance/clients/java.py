"""The Java client: a process of its own, told what to do line by line."""

import json
import subprocess
import uuid

from tests.conformance.clients.face import (
    CALL_TIMEOUT_S,
    ClientFailed,
    Fenced,
    MustAbort,
    Record,
)
from tests.conformance.java_programs import JVM


class JavaProcess:
    """TransactionDriver.java or AdminDriver.java: a command's words a line in, one JSON answer a line out."""

    def __init__(self, classpath, main_class, *options):
        """`options`: of the JVM."""
        self._process = subprocess.Popen(
            [*JVM, *options, "-cp", classpath, main_class],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words):
        self._process.stdin.write("\t".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ClientFailed("the Java client's process ended")
        answer = json.loads(line)
        if "error" in answer:
            kind = {"fenced": Fenced, "abortable": MustAbort}.get(answer["kind"], ClientFailed)
            raise kind(answer["error"], answer.get("code"))
        return answer

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class JavaProducer:
    def __init__(self, process, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        self._process = process
        self._name = uuid.uuid4().hex
        codec = options.get("compression", "none")
        process.ask("open", self._name, bootstrap, transactional_id or "", timeout_ms, codec)

    def init(self):
        self._process.ask("init", self._name)

    def begin(self):
        self._process.ask("begin", self._name)

    def send(self, topic, value, *, key=None, partition=0, headers=None, timestamp_ms=None):
        words = [_hex(key), _hex(value), -1 if timestamp_ms is None else timestamp_ms]
        words += [f"{name}={_hex(content)}" for name, content in headers or []]
        return self._process.ask("send", self._name, topic, partition, *words)["offset"]

    def send_offset(self, group, topic, partition, offset):
        self._process.ask("offset", self._name, group, topic, partition, offset)

    def commit(self):
        self._process.ask("commit", self._name)

    def abort(self):
        self._process.ask("abort", self._name)

    def epoch(self):
        return self._process.ask("epoch", self._name)

    def close(self):
        self._process.ask("close", self._name)


class Java:
    name = "java"
    codecs = ("gzip", "snappy", "lz4", "zstd")

    def __init__(self, process):
        self._process = process

    def producer(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        return JavaProducer(self._process, bootstrap, transactional_id, timeout_ms, **options)

    def read(self, bootstrap, topic, *, isolation="read_committed", until, partition=0, offset=0):
        wait_ms = int(CALL_TIMEOUT_S * 1000)
        answer = self._process.ask(
            "read", bootstrap, topic, partition, offset, isolation, wait_ms, until.hex()
        )
        return [
            Record(
                _unhex(item["value"]),
                _unhex(item["key"]),
                [(name, _unhex(content)) for name, content in item["headers"]],
                item["timestamp"],
                partition,
                item["offset"],
            )
            for item in answer["records"]
        ]

    def subscribe(self, bootstrap, group, topic, count, protocol="classic"):
        """As a member of a group: the values of so many records, which are committed."""
        answer = self._process.ask("subscribe", bootstrap, group, topic, count, protocol)
        return [_unhex(item["value"]) for item in answer["records"]]

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        return self._process.ask("offset-for-time", bootstrap, topic, 0, timestamp_ms)["offset"]


def _hex(content):
    return "null" if content is None else content.hex()


def _unhex(text):
    return None if text is None else bytes.fromhex(text)
