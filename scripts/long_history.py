"""Writes a long history as JSON lines: what workloads on a sound log would have seen, or with one anomaly.

    python -m scripts.long_history --operations 5000000 --seed 1 > history.jsonl
    python -m scripts.long_history --operations 5000000 --seed 1 --anomaly lost-write > broken.jsonl

It is for measuring the judges (`python -m oncelog_robustness.judging history.jsonl`). Each workload has its own topic,
producers with and without transactions, and two readers. At the end each partition is read at both isolation levels.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

PARTITIONS: Final = 4
WRITERS: Final = 4
ANOMALIES: Final = ("none", "lost-write", "duplicate", "aborted-read", "poll-skip")
ABORT_SHARE: Final = 0.15
_TRANSACTION, _PLAIN, _POLL = "Transaction", "PlainSend", "Poll"
_MIX: Final = (_PLAIN, _PLAIN, _TRANSACTION, _POLL, _POLL)


@dataclass(slots=True)
class _Log:
    """One partition: offset, value, whether it is committed. A transaction leaves a marker behind its records."""

    topic: str
    number: int
    records: list[tuple[int, str, bool]] = field(default_factory=list)
    end: int = 0

    def append(self, value: str, is_committed: bool) -> int:
        self.records.append((self.end, value, is_committed))
        self.end += 1
        return self.end - 1


class _Workload:
    def __init__(self, number: int, draw: random.Random) -> None:
        self.topic = f"topic-{number}"
        self._draw = draw
        self.logs = [_Log(self.topic, one) for one in range(PARTITIONS)]
        self._values = 0
        self._read = {
            isolation: [0] * PARTITIONS for isolation in ("read_committed", "read_uncommitted")
        }

    def begin(self, now: int) -> Iterator[dict[str, object]]:
        for isolation in self._read:
            positions = [[self.topic, one, 0] for one in range(PARTITIONS)]
            yield _operation(
                "Positioned", self._reader(isolation), now, positions=positions, group=None
            )

    def step(self, now: int) -> dict[str, object]:
        kind = self._draw.choice(_MIX)
        if kind == _PLAIN:
            return self._plain(now)
        if kind == _TRANSACTION:
            return self._transaction(now)
        return self._poll(now)

    def finals(self, now: int, lost: str = "", twice: str = "", shown: str = "") -> Iterator[dict]:  # type: ignore[type-arg]
        for log in self.logs:
            for isolation in self._read:
                reads = [
                    [log.topic, log.number, offset, value, None]
                    for offset, value, is_committed in log.records
                    if (is_committed or isolation == "read_uncommitted" or value == shown)
                    and value != lost
                ]
                if any(read[3] == twice for read in reads):
                    reads.append([log.topic, log.number, log.end, twice, None])
                yield _operation(
                    "FinalRead",
                    "check",
                    now,
                    isolation=isolation,
                    topic=log.topic,
                    partition=log.number,
                    start_offset=0,
                    end_offset=log.end + 1,
                    reads=reads,
                    is_complete=True,
                )

    def any_value(self, is_committed: bool) -> str:
        found = [one[1] for log in self.logs for one in log.records if one[2] is is_committed]
        return self._draw.choice(found)

    def _reader(self, isolation: str) -> str:
        return f"{self.topic}-reader-{isolation}#1"

    def _unique(self, client: str) -> str:
        self._values += 1
        return f"{client}/{self._values}"

    def _plain(self, now: int) -> dict[str, object]:
        log = self._draw.choice(self.logs)
        client = f"{self.topic}-plain#1"
        value = self._unique(client)
        send = [log.topic, log.number, value, log.append(value, True), None]
        return _operation(_PLAIN, client, now, send=send, outcome="ok", error="")

    def _transaction(self, now: int) -> dict[str, object]:
        name = f"{self.topic}-writer-{self._draw.randrange(WRITERS)}"
        client, is_committed = f"{name}#1", self._draw.random() >= ABORT_SHARE
        sends: list[list[object]] = []
        for log in self._draw.sample(self.logs, 2):
            value = self._unique(client)
            sends.append([log.topic, log.number, value, log.append(value, is_committed), None])
            log.end += 1
        return _operation(
            _TRANSACTION,
            client,
            now,
            transactional_id=name,
            protocol="TV2",
            ending="commit" if is_committed else "abort",
            outcome="ok",
            sends=sends,
            reads=[],
            offsets=None,
            asked_ms=now + 1,
            offsets_taken_ms=None,
            error="",
            timeout_ms=10_000,
            is_taken=False,
        )

    def _poll(self, now: int) -> dict[str, object]:
        isolation = self._draw.choice(tuple(self._read))
        log = self._draw.choice(self.logs)
        at = self._read[isolation]
        reads = [
            [log.topic, log.number, offset, value, None]
            for offset, value, is_committed in log.records[at[log.number] : at[log.number] + 10]
            if is_committed or isolation == "read_uncommitted"
        ]
        at[log.number] = min(at[log.number] + 10, len(log.records))
        client = self._reader(isolation)
        return _operation(_POLL, client, now, isolation=isolation, reads=reads, group=None)


def _operation(kind: str, client: str, now: int, **more: object) -> dict[str, object]:
    return {
        "operation": kind,
        "client": client,
        "invoked_ms": now,
        "completed_ms": now + 2,
        **more,
    }


def operations(count: int, seed: int, topics: int, anomaly: str) -> Iterator[dict[str, object]]:
    draw = random.Random(f"long-history/{seed}")
    workloads = [_Workload(number, draw) for number in range(topics)]
    for workload in workloads:
        yield from workload.begin(0)
    rest = count - topics * 2 * (1 + PARTITIONS)
    skipped = draw.randrange(rest // 2, rest) if anomaly == "poll-skip" else rest
    for number in range(rest):
        made = draw.choice(workloads).step(3 * number + 10)
        reads = made.get("reads")
        may_skip = number >= skipped and made["operation"] == _POLL
        if may_skip and isinstance(reads, list) and len(reads) > 2:
            del reads[1]
            skipped = rest
        yield made
    chosen = draw.choice(workloads)
    for workload in workloads:
        given = {
            "lost": chosen.any_value(True) if anomaly == "lost-write" else "",
            "twice": chosen.any_value(True) if anomaly == "duplicate" else "",
            "shown": chosen.any_value(False) if anomaly == "aborted-read" else "",
        }
        yield from workload.finals(3 * rest + 100, **(given if workload is chosen else {}))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.long_history", description=__doc__)
    parser.add_argument("--operations", type=int, default=5_000_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anomaly", choices=ANOMALIES, default="none")
    given = parser.parse_args(arguments)
    print(json.dumps({"facts": {"records deleted from": "", "seed": str(given.seed)}}))
    for one in operations(given.operations, given.seed, given.topics, given.anomaly):
        print(json.dumps(one))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
