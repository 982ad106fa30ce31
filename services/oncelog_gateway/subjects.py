"""Finds what a name given to `explain` stands for: a transactional.id, a producer id, a topic-partition, a group or a
Spark sink. It may stand for several of them, or for nothing that is known.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Literal, NamedTuple, get_args

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.telemetry.history import History
from oncelog.wording import counted
from oncelog_gateway.groups import Groups
from oncelog_gateway.resources import INT32_MAX, INT64_MAX
from oncelog_gateway.roles import Roles
from oncelog_gateway.time_budget import time_budget
from oncelog_gateway.transactions import Transactions

Kind = Literal["transaction", "producer", "partition", "group", "sink"]
KINDS: Final = get_args(Kind)
DIGITS_MAX: Final = 19
"""Digits of the largest number that is possible. Python refuses to read thousands of digits."""
ASK_S: Final = 0.8
"""Seconds for the question what a name is. The explanation itself needs the rest of the time."""
NOT_SAID: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Answers of a coordinator that leave open whether it knows a name."""


class SeveralKinds(KafkaError):
    def __init__(self, subject: str, kinds: list[Kind]) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            f"{subject!r} is a {' and a '.join(kinds)}; choose one with kind",
        )
        self.kinds = kinds


class Named(NamedTuple):
    kind: Kind
    unknown: tuple[str, ...] = ()
    """Roles that could not be asked, in words, so that the name may be of another kind as well."""


class Subjects:
    def __init__(
        self, roles: Roles, transactions: Transactions, groups: Groups, history: History
    ) -> None:
        self._roles = roles
        self._transactions = transactions
        self._groups = groups
        self._history = history

    async def named(self, subject: str) -> Named:
        """Return the kind of thing that has this name. Raises KafkaError when nothing has it, or when several things
        have.
        """
        lookups: dict[Kind, Awaitable[object]] = {
            "transaction": self._roles.describe_transaction(subject),
            "group": self._known_group(subject),
            "sink": self._roles.describe_sink(subject),
        }
        if subject.isdecimal() and len(subject) <= DIGITS_MAX:
            lookups["producer"] = self._known_producer(producer_id_of(subject))
        with time_budget(all_s=ASK_S):
            answers = await asyncio.gather(*map(_known, lookups.values()))
        answered = dict(zip(lookups, answers, strict=True))
        found = [kind for kind in KINDS if answered.get(kind)]
        partition = partition_of(subject)
        if partition is not None and self._roles.image.partition(partition) is not None:
            found.append("partition")
        if "transaction" not in found and self._history.of_transaction(subject):
            found.append("transaction")
        if len(found) > 1:
            raise SeveralKinds(subject, found)
        silent = [kind for kind, is_known in answered.items() if is_known is None]
        if not found and silent:
            # Its coordinator did not say; the explanation will.
            found, silent = silent[:1], silent[1:]
        if not found and "producer" in lookups:
            # An idempotent producer is known to partitions alone.
            found = ["producer"]
        if not found:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, self._nothing(subject))
        unknown = f"whether {subject!r} is a {' or a '.join(silent)} as well: no coordinator said"
        return Named(found[0], (unknown,) if silent else ())

    def _nothing(self, subject: str) -> str:
        topics = self._roles.image.topics
        text = f"{subject!r} is no transactional.id, producer id, topic-partition, group or sink that is known"
        topic, _, number = subject.rpartition("-")
        if subject in topics:
            count = len(topics[subject].partitions)
            return f"{text}. It is a topic with {counted(count, 'partition')}: ask about one, {subject}-0"
        if topic in topics and number.isdecimal():
            count = len(topics[topic].partitions)
            return f"{text}. Topic {topic!r} has {counted(count, 'partition')}, from {topic}-0 on"
        return text

    async def _known_group(self, group_id: str) -> None:
        described = await self._groups.describe(group_id)
        if described.state == "Dead":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")

    async def _known_producer(self, producer_id: int) -> None:
        known, failures = await self._transactions.of_producers([producer_id])
        if not known:
            raise failures[0] if failures else KafkaError(ErrorCode.RESOURCE_NOT_FOUND)


def partition_of(subject: str) -> Partition | None:
    topic, _, number = subject.rpartition("-")
    if not topic or not number.isdecimal() or len(number) > DIGITS_MAX or int(number) > INT32_MAX:
        return None
    return Partition(topic, int(number))


def producer_id_of(subject: str) -> int:
    """Return the producer id that a text is. Raises KafkaError for a text that is no number."""
    if not subject.isdecimal() or len(subject) > DIGITS_MAX or int(subject) > INT64_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{subject!r} is no producer id; 1001 is one")
    return int(subject)


async def _known(answer: Awaitable[object]) -> bool | None:
    """Await a role's answer: True if the role knows the name, False if not; None: the role could not say."""
    try:
        await answer
    except KafkaError as error:
        return None if error.error_code in NOT_SAID else False
    return True
