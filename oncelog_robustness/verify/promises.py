"""The promises of Kafka's documentation about idempotence, transactions and read_committed, and
which checkers answer each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog_robustness.checkers.verdict import Answer, Verdict


@dataclass(frozen=True, slots=True)
class Promise:
    name: str
    text: str
    source: str
    """The place where Kafka makes the promise."""
    checkers: tuple[str, ...]
    is_core: bool = False
    """True if there is no verdict without an answer to this promise."""


@dataclass(frozen=True, slots=True)
class Answered:
    promise: Promise
    verdicts: tuple[Verdict, ...]

    @property
    def answer(self) -> Answer:
        """The answer to one promise: broken when one checker says so, ok when at least one could judge, otherwise
        unknown."""
        answers = {one.answer for one in self.verdicts}
        return next((one for one in (Answer.BROKEN, Answer.OK) if one in answers), Answer.UNKNOWN)

    @property
    def judged(self) -> int:
        return sum(one.judged for one in self.verdicts)


PROMISES: Final[Sequence[Promise]] = (
    Promise(
        "nothing acknowledged is lost",
        "A record that was acknowledged with acks=all is there as long as one in-sync replica lives.",
        "acks, min.insync.replicas",
        ("lost-write", "newest-of-key"),
        is_core=True,
    ),
    Promise(
        "nothing is there twice",
        "An idempotent producer writes each record once, however often it repeats a request.",
        "enable.idempotence, KIP-98",
        ("duplicate",),
        is_core=True,
    ),
    Promise(
        "the order of sending is kept",
        "Records that one producer sends to one partition stand there in the order of its sends.",
        "enable.idempotence, KIP-98",
        ("send-reversal",),
    ),
    Promise(
        "an offset names one record",
        "Everybody who is told what stands at an offset is told the same, now and later.",
        "the log",
        ("inconsistent-offsets",),
    ),
    Promise(
        "a transaction is there whole, or not at all",
        "Of a transaction over many partitions either every record becomes visible, or none.",
        "transactional.id, KIP-98",
        ("torn-transaction",),
        is_core=True,
    ),
    Promise(
        "what was aborted is not seen",
        "A consumer at read_committed is handed no record of an aborted transaction.",
        "isolation.level, KIP-98",
        ("aborted-read",),
        is_core=True,
    ),
    Promise(
        "nothing is seen before its commit",
        "A consumer at read_committed is handed a record only after its producer asked to commit.",
        "isolation.level, KIP-98",
        ("pre-committed-read", "circular-information-flow"),
    ),
    Promise(
        "nobody reads past an open transaction",
        "A consumer at read_committed reads up to the last stable offset (LSO), and no further.",
        "isolation.level, KIP-98",
        ("read-past-open-transaction",),
    ),
    Promise(
        "a consumer skips nothing and goes not back",
        "A consumer that nobody moves is handed the records of a partition in their order, each once.",
        "KafkaConsumer.poll",
        ("poll-skip", "poll-reversal"),
    ),
    Promise(
        "who was replaced writes nothing more",
        "A producer that begins with a transactional.id fences every earlier one with that id.",
        "initTransactions, KIP-98, KIP-360",
        ("zombie-write",),
    ),
    Promise(
        "a healthy transaction is not ended by others",
        "A transaction that its producer ends within transaction.timeout.ms ends as it asked.",
        "transaction.timeout.ms",
        ("healthy-transaction-aborted",),
    ),
    Promise(
        "a late request ends no other transaction",
        "An EndTxn that arrives late does not commit or abort a transaction that began after it.",
        "KIP-890",
        ("delayed-end-txn-tv1", "delayed-end-txn-tv2"),
    ),
    Promise(
        "offsets are committed with their transaction",
        "A group stands at offsets of committed transactions, and never at those of an aborted one.",
        "sendOffsetsToTransaction, KIP-447",
        ("offsets-outside-transaction", "spurious-zero-offset"),
    ),
    Promise(
        "each record is processed once",
        "Consume, transform, produce: each committed input is in one committed output.",
        "KIP-98, KIP-447",
        ("processed-once", "copier", "token-ring"),
    ),
    Promise(
        "after faults everything goes on",
        "When the cluster is whole again, open transactions end, the LSO moves on, and groups work.",
        "transaction.timeout.ms, session.timeout.ms",
        ("stuck-lso", "unseen-after-healing", "stuck-group"),
    ),
)


def answers(verdicts: Sequence[Verdict]) -> list[Answered]:
    by_name: Mapping[str, Verdict] = {one.checker: one for one in verdicts}
    return [
        Answered(one, tuple(by_name[name] for name in one.checkers if name in by_name))
        for one in PROMISES
    ]
