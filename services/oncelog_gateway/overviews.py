"""Reads a cluster once for its overview. Every role is asked once, all at the same time."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog_gateway.core.held_back import Holder
from oncelog_gateway.core.node_troubles import Queue, Seen
from oncelog_gateway.core.overview import OverviewFacts, Verdict, verdict_of
from oncelog_gateway.core.transaction_troubles import BlockedGroup, Hang, Undecided
from oncelog_gateway.core.trouble import Check
from oncelog_gateway.group_reading import GroupsBlocked, holder_of
from oncelog_gateway.groups import Groups
from oncelog_gateway.image_watch import ImageWatch
from oncelog_gateway.marker_queues import marker_queues
from oncelog_gateway.partitions import Looked, Partitions, all_partitions
from oncelog_gateway.resources import MarkerQueue, Transaction
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions, TransactionsOpen

PARTITIONS_MAX: Final = 2_000
"""Partitions whose leaders are asked what holds them back. The image says of all partitions whether they lack a
leader or a replica.
"""
HELD_MAX: Final = 50
"""Partitions, of those held back for the longest, whose blocked groups are looked up."""
GROUPS_MAX: Final = 1_000
OVERDUE_MAX: Final = 50
LASTING_MS: Final = 2_000
"""Age from which an open transaction is shown in rows. Younger ones come and go, and would move the page all the
time.
"""


class Overview(NamedTuple):
    verdict: Verdict
    opened: TransactionsOpen
    looked: Looked
    lasting: list[Transaction]
    """The oldest transactions, without those that were open for less than `LASTING_MS`."""
    held_count: int
    held: list[Partition]
    """Partitions that are held back for some time, those first where most is held back."""
    topic_count: int
    """Number of topics, without Kafka's internal ones."""
    partition_count: int
    """Number of partitions of these topics."""
    group_count: int | None
    """Number of consumer groups; None: a coordinator did not answer."""


class Overviews:
    def __init__(
        self,
        roles: Roles,
        transactions: Transactions,
        partitions: Partitions,
        groups: Groups,
        watch: ImageWatch,
    ) -> None:
        self._roles = roles
        self._transactions = transactions
        self._partitions = partitions
        self._groups = groups
        self._watch = watch

    async def look(self, open_max: int) -> Overview:
        """Read the state of the cluster for the overview, with its oldest `open_max` open transactions. A role that
        does not answer becomes a trouble in it, never an exception.
        """
        image = self._roles.image
        every = all_partitions(image)
        # Users' partitions come first: a transaction seldom holds one of Kafka's own.
        every.sort(key=lambda one: image.topics[one.topic].internal)
        opened, looked, (queues, silent_senders) = await asyncio.gather(
            self._transactions.opened(open_max, OVERDUE_MAX),
            self._partitions.look(every[:PARTITIONS_MAX]),
            marker_queues(self._roles),
        )
        blocked = await self._groups.blocked(looked, _longest_held(looked), GROUPS_MAX)
        lags = {key: looked.lag_of(key) for key in looked.described}
        holders = {key: holder_of(one) for key, one in looked.holders.items()}
        facts = OverviewFacts(
            hanging=[
                Hang(key, holders[key], one.start_offset, one.producer_epoch, lags.get(key, 0))
                for key, one in looked.holders.items()
                if one.hanging
            ],
            blocked=[
                BlockedGroup(group_id, key, lags.get(key, 0), holders[key])
                for group_id, key in sorted(blocked.places)
            ],
            undecided=[_undecided(one) for one in opened.overdue],
            undecided_count=opened.overdue_count,
            leaderless=self._watch.leaderless(),
            unanswered=self._unanswered(looked),
            unowned=self._watch.unowned(),
            fenced=self._watch.fenced(),
            behind=self._watch.behind(),
            queues=[_queue(one) for one in queues],
            silent=_silent((*opened.failures, *looked.failures), blocked, silent_senders),
            node_count=len(image.nodes),
            partition_count=len(every),
            unasked_count=max(len(every) - PARTITIONS_MAX, 0),
            open_count=opened.total,
            group_count=blocked.group_count,
        )
        return Overview(
            verdict_of(facts),
            opened,
            looked,
            [one for one in opened.rows if (one.age_ms or 0) >= LASTING_MS],
            len(looked.holders),
            sorted(
                (key for key, one in holders.items() if _is_lasting(one)),
                key=lambda one: (-lags.get(one, 0), one),
            ),
            sum(not one.internal for one in image.topics.values()),
            sum(not image.topics[one.topic].internal for one in every),
            blocked.group_count if not blocked.failures else None,
        )

    def _unanswered(self, looked: Looked) -> list[Seen]:
        """Return the partitions whose leader does not answer. Partitions without a leader are not among them: they are
        a trouble of another kind.
        """
        found = []
        for key, answer in looked.described.items():
            leadership = self._roles.image.partition(key)
            if isinstance(answer, KafkaError) and leadership is not None and leadership.leader >= 0:
                found.append(
                    Seen(str(key), nodes=(leadership.leader,), what=answer.error_code.name)
                )
        return found


def _is_lasting(holder: Holder) -> bool:
    """True if the transaction hangs, or has held records back for some time or for an unknown time. Shorter ones are no
    trouble.
    """
    held_for_ms = holder.held_for_ms
    return bool(holder.is_hanging) or held_for_ms is None or held_for_ms >= LASTING_MS


def _longest_held(looked: Looked) -> list[Partition]:
    held = {
        key: holder_of(one) for key, one in looked.holders.items() if holder_of(one).holds_for_long
    }
    return sorted(held, key=lambda key: (not held[key].is_hanging, -(held[key].held_for_ms or 0)))[
        :HELD_MAX
    ]


def _undecided(one: Transaction) -> Undecided:
    return Undecided(one.transactional_id, one.age_ms or 0, one.timeout_ms, one.is_late)


def _queue(one: MarkerQueue) -> Queue:
    return Queue(one.node, one.marker_count, one.oldest_age_ms)


def _silent(
    transactions: Sequence[KafkaError],
    groups: GroupsBlocked,
    markers: Sequence[KafkaError],
) -> Mapping[Check, Sequence[str]]:
    failures: dict[Check, Sequence[KafkaError]] = {
        "transactions": transactions,
        "groups": groups.failures,
        "markers": markers,
    }
    return {check: [one.message for one in found] for check, found in failures.items() if found}
