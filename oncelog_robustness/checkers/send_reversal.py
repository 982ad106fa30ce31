"""send-reversal: a record that a producer sent later to a partition has a higher offset.

Inside a transaction this holds in the order of the calls: the sequence numbers of an idempotent producer keep it,
however many sends are under way. Between operations it holds only if one ended before the other began.
"""

import heapq
from typing import NamedTuple

from oncelog_robustness.checkers.evidence import Written
from oncelog_robustness.checkers.findings import Findings, said_of, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Partition, PlainSend, Send, Transaction
from oncelog_robustness.observations import Observations


class _Ended(NamedTuple):
    completed_ms: int
    number: int
    highest: dict[Partition, Written]


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("send-reversal")
    by_client: dict[str, list[Transaction | PlainSend]] = {}
    for transaction in history.all(Transaction):
        by_client.setdefault(transaction.client, []).append(transaction)
        _judge_inside(findings, transaction)
    for plain in history.all(PlainSend):
        by_client.setdefault(plain.client, []).append(plain)
    for operations in by_client.values():
        _judge_between(findings, sorted(operations, key=lambda one: one.invoked_ms))
    return findings.verdict("no producer had two sends to one partition acknowledged in a row")


def _sends(by: Transaction | PlainSend) -> tuple[Send, ...]:
    return by.sends if isinstance(by, Transaction) else (by.send,)


def _judge_inside(findings: Findings, transaction: Transaction) -> None:
    last: dict[Partition, Send] = {}
    for send in transaction.sends:
        if send.offset is None:
            continue
        spot = (send.topic, send.partition)
        before = last.get(spot)
        if before is not None and before.offset is not None:
            findings.judged += 1
            if send.offset <= before.offset:
                findings.broken.append(
                    f"{writer(transaction)} sent {said_of(before)} and then {said_of(send)}"
                )
        last[spot] = send


def _judge_between(findings: Findings, operations: list[Transaction | PlainSend]) -> None:
    """Report each send of one client with a lower offset than a send of an operation that had ended before.

    `operations` are those of one client, in the order of their begin. While they are gone through, `highest` has
    for each partition the highest offset of all operations that have ended.
    """
    under_way: list[_Ended] = []
    highest: dict[Partition, Written] = {}
    for number, by in enumerate(operations):
        while under_way and under_way[0].completed_ms < by.invoked_ms:
            for spot, written in heapq.heappop(under_way).highest.items():
                before = highest.get(spot)
                if before is None or _offset(before) < _offset(written):
                    highest[spot] = written
        own: dict[Partition, Written] = {}
        for send in _sends(by):
            if send.offset is None:
                continue
            spot = (send.topic, send.partition)
            before = highest.get(spot)
            if before is not None:
                findings.judged += 1
                if send.offset <= _offset(before):
                    findings.broken.append(
                        f"{writer(before.by)} sent {said_of(before.send)}, and later {writer(by)}"
                        f" sent {said_of(send)}"
                    )
            if spot not in own or _offset(own[spot]) < send.offset:
                own[spot] = Written(send, by)
        if own and by.completed_ms is not None:
            heapq.heappush(under_way, _Ended(by.completed_ms, number, own))


def _offset(written: Written) -> int:
    return -1 if written.send.offset is None else written.send.offset
