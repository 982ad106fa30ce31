"""Stories a reviewer can read: `transcripts/*.txt` are inputs and what the machine made of them (docs/style.md).

A block is commands, a line `----`, and the outcome. `ONCELOG_REWRITE=1 pytest <this file>` writes the outcomes anew;
the diff is reviewed. Every shard starts empty, with the clock at 0 and producer ids counting from 1.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog.ids import Partition
from oncelog.machine import CancelTimer, Reply, Send, SetTimer
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.txn import TxnConfig, TxnMachine
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    DescribeTransaction,
    EndTxn,
    ExpireIds,
    ForceTerminate,
    IdentityAnswer,
    InitProducerId,
    VerifyAnswer,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_records import decode_record, encode_record
from oncelog_coordinator.core.txn_state import TxnTombstone

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def arguments(words):
    return dict(word.split("=", 1) if "=" in word else (word, True) for word in words)


def partitions(text):
    names = text.strip("()").split(",")
    return tuple(Partition(name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1])) for name in names)


class Shard:
    """One machine, its journal in bytes, its timers, and the deliveries under way."""

    def __init__(self):
        self.now = 0
        self.level = 2
        self.next_producer_id = 1
        self.ids_at_hand = True
        self.log = []
        self.timers = {}
        self.sent = {}
        self.lines = []
        self.machine = TxnMachine(TxnConfig())
        self.take(self.machine.resume(0))

    def decide(self, event):
        if hasattr(event, "cluster_transaction_version"):
            event = replace(event, cluster_transaction_version=self.level)
        if self.machine.wants_producer_id(event) and self.ids_at_hand:
            event = replace(event, new_producer_id=self.next_producer_id)
            self.next_producer_id += 1
        decision = self.machine.decide(event, self.now)
        said = len(self.lines)
        for record in decision.records:
            self.lines.append("append " + describe_record(record))
            self.log.append(encode_record(record, 1))
            self.machine.apply(len(self.log), record)
        self.take(decision.effects)
        if len(self.lines) == said:
            self.lines.append(f"[{decision.label}]")
        else:
            self.lines[-1] += f"  [{decision.label}]"

    def take(self, effects):
        for effect in effects:
            match effect:
                case Reply():
                    self.lines.append("reply " + describe_answer(effect.answer))
                case Send():
                    wanted = effect.message
                    self.sent[wanted.decision_key.name] = wanted
                    for marker in wanted.markers:
                        kind = "commit" if marker.commit else "abort"
                        names = " ".join(map(str, marker.partitions))
                        self.lines.append(
                            f"send {kind} markers pid={marker.producer_id} epoch={marker.producer_epoch} "
                            f"tv={marker.transaction_version} {names}"
                        )
                case SetTimer():
                    self.timers[effect.name] = (self.now + effect.after_ms, effect.event)
                case CancelTimer():
                    self.timers.pop(effect.name, None)

    def crash(self):
        """Only the journal survives; answers, deliveries and timers are lost."""
        self.machine = TxnMachine(TxnConfig())
        self.timers, self.sent = {}, {}
        for offset, (key, value) in enumerate(self.log):
            self.machine.apply(offset, decode_record(key, value))
        self.take(self.machine.resume(self.now))

    def tick(self, span):
        end = self.now + int(span.removesuffix("ms"))
        while due := sorted((at, name) for name, (at, _) in self.timers.items() if at <= end):
            self.now, name = due[0]
            event = self.timers.pop(name)[1]
            if not isinstance(event, ExpireIds):
                self.decide(event)
            else:
                self.take(self.machine.decide(event, self.now).effects)
        self.now = end

    def command(self, line):
        word, *rest = line.split()
        given = arguments(rest)
        name = given.get("tid", "pay")
        identity = (int(given.get("pid", 1)), int(given.get("epoch", 0)))
        match word:
            case "init":
                expected = identity if "pid" in given else (-1, -1)
                self.decide(InitProducerId(1, name, int(given.get("timeout", 60_000)), *expected))
            case "add":
                version = int(given.get("tv", 0))
                self.decide(
                    AddPartitions(1, name, *identity, partitions(given["partitions"]), version)
                )
            case "verify":
                self.decide(VerifyPartitions(1, name, *identity, partitions(given["partitions"])))
            case "end":
                version = int(given.get("tv", 0))
                self.decide(EndTxn(1, name, *identity, "commit" in given, version))
            case "markers-done":
                outcome = DeliveryOutcome(given.get("outcome", "delivered"))
                self.decide(MarkersDelivered(self.sent[name].decision_key, outcome))
            case "terminate":
                self.decide(ForceTerminate(1, name))
            case "describe":
                self.decide(DescribeTransaction(1, name))
            case "crash":
                self.crash()
            case "tick":
                self.tick(rest[0])
            case "cluster":
                self.level = int(given["tv"])
            case "producer-ids":
                self.ids_at_hand = rest[0] == "at-hand"
            case "epochs-used":
                txn = self.machine.transaction(name)
                txn = replace(txn, producer_epoch=int(given["epoch"]))
                self.log.append(encode_record(txn, 1))
                self.crash()
                self.lines.clear()
            case _:
                raise AssertionError(f"unknown command {line!r}")

    def run(self, block):
        self.lines = []
        for line in block:
            self.command(line)
        return self.lines


def describe_record(record):
    if isinstance(record, TxnTombstone):
        return f"tombstone {record.transactional_id}"
    names = " ".join(map(str, record.partitions))
    following = f" next-pid={record.next_producer_id}" if record.next_producer_id >= 0 else ""
    identity = f"pid={record.producer_id} epoch={record.producer_epoch}"
    return f"{record.state.kafka_name} {identity}{following} {names}".rstrip()


def describe_answer(answer):
    text = answer.error_code.name
    if isinstance(answer, IdentityAnswer) and answer.producer_id >= 0:
        text += f" pid={answer.producer_id} epoch={answer.producer_epoch}"
    if isinstance(answer, VerifyAnswer) and answer.missing:
        text += " missing " + " ".join(map(str, answer.missing))
    transaction = getattr(answer, "transaction", None)
    return text + (" " + describe_record(transaction) if transaction else "")


def parse(text):
    """(comment lines, commands, expected lines) per block."""
    blocks = []
    for part in text.strip().split("\n\n"):
        lines = part.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        body = [line for line in lines if not line.startswith("#")]
        if not body:
            blocks.append((comments, [], []))
            continue
        at = body.index("----")
        blocks.append((comments, body[:at], body[at + 1 :]))
    return blocks


def test_transcripts_are_found():
    assert len(TRANSCRIPTS) >= 6


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path):
    shard = Shard()
    written, expected, actual = [], [], []
    for comments, commands, outcome in parse(path.read_text()):
        lines = shard.run(commands)
        expected += outcome
        actual += lines
        body = [*commands, "----", *lines] if commands else []
        written.append("\n".join([*comments, *body]))
    if os.environ.get("ONCELOG_REWRITE"):
        path.write_text("\n\n".join(written) + "\n")
        return
    assert actual == expected
