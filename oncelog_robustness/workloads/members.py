"""The workload `members`: badly behaved members of groups, while transactions commit offsets of the same groups and
an operator deletes offsets and groups.

Members join and forget to come back, claim generations that are over, and keep partitions that they should give up.
They fall silent, die, and return under their names. The workload shows that a committed offset is the last one that
was committed, and never one that was refused, aborted or deleted. It also shows that a group takes every member
that joins when all that is over.

Each commit has an offset that no other commit has. In the history a deletion is a commit of -1.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from oncelog.errors import KafkaError
from oncelog_robustness.clients.contract import Admin, ClientError
from oncelog_robustness.clients.group_calls import GroupCalls, Said
from oncelog_robustness.clients.membership import Membership
from oncelog_robustness.clients.wire import Brokers, Unreachable
from oncelog_robustness.history import GroupOffsets, OffsetsCommitted, Outcome, Partition
from oncelog_robustness.workload_facts import GroupProgress, note
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import live_on, retried
from oncelog_robustness.workloads.member_lives import (
    UNANSWERED,
    ClassicMemberRun,
    ConsumerMemberRun,
    MemberRun,
)
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Share,
    Timeout,
    Watched,
)
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    RETRY_TIMEOUT_MS,
    fetch_offsets,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor

OFFSET_MAX: Final = 2**50
DELETED: Final = -1
TAKEN_LIMIT_MS: Final = 60_000
"""The time after healing within which a new member must have been assigned every partition, in milliseconds.
Sessions and rebalances of dead members must time out first."""


class MembersParameters(Watched):
    partitions: Partitions = 2
    classic_groups: ClientCount = 1
    consumer_groups: ClientCount = 1
    either_groups: ClientCount = 1
    """The number of groups whose members speak either group protocol: the first member of an empty group decides
    which."""
    empty_groups: ClientCount = 1
    """The number of groups without members, which only hold offsets."""
    members: ClientCount = 3
    """The number of members of each group."""
    static_share: Share = 0.5
    """The share of the members that have an instance id."""
    wrong_share: Share = 0.25
    """The share of a member's steps that a coordinator must refuse."""
    committers: ClientCount = 2
    """The number of clients that commit offsets of any of the groups in transactions."""
    abort_share: Share = 0.3
    session_ms: Timeout = 6_000
    pause_ms: Pause = 600
    think_ms: Pause = 2_000
    """The longest time between two transactions, and between two deletions, in milliseconds."""


class Members:
    def __init__(self, name: str, parameters: MembersParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions = partitions_of(name, parameters.partitions)
        given = parameters
        kinds = {
            "classic": given.classic_groups,
            "consumer": given.consumer_groups,
            "either": given.either_groups,
            "empty": given.empty_groups,
        }
        self.groups = [f"{name}-{kind}-{at}" for kind, many in kinds.items() for at in range(many)]

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = watchers(lab, self.name, self.partitions, given)
        for group in self.groups:
            for number in range(0 if "-empty-" in group else given.members):
                is_static = lab.random.random() < given.static_share
                instance_id = f"{group}-{number}" if is_static else None
                work = partial(self._member, lab, group, instance_id)
                name = f"{group}-member-{number}"
                works.append(live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms))
        works += [self._committer(lab, number) for number in range(given.committers)]
        operator = partial(self._operate, lab)
        works.append(live_on(lab, f"{self.name}-operator", operator, life_ms=0, rest_ms=0))
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        client = f"{self.name}-check"
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, client, self.partitions, limit_ms)
        admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin(client))
        for group in self.groups:
            await retried(
                lab, RETRY_TIMEOUT_MS, partial(self._fetch, lab, client, admin, group, True)
            )
        await admin.close()
        for group in self.groups:
            await self._is_taken(lab, group)

    async def _fetch(
        self, lab: Lab, client: str, admin: Admin, group: str, is_final: bool = False
    ) -> None:
        await fetch_offsets(lab, client, admin, group, self.partitions, is_final=is_final)

    # ------------------------------------------------------------------------------------------------- members

    async def _member(
        self, lab: Lab, group: str, instance_id: str | None, process: ClientProcess
    ) -> None:
        given = self.parameters
        calls = GroupCalls(Brokers(lab.clients[0].bootstrap, process.name), group)
        offsets = _Offsets(lab, process, self.partitions)
        run = MemberRun(
            lab=lab,
            calls=calls,
            member_id=process.name,
            instance_id=instance_id,
            topics=(self.name,),
            session_ms=given.session_ms,
            pause_ms=given.pause_ms,
            wrong_share=given.wrong_share,
            commits=offsets.commit,
        )
        is_classic = "-classic-" in group or ("-either-" in group and lab.random.random() < 0.5)
        await (ClassicMemberRun(run) if is_classic else ConsumerMemberRun(run)).live()

    async def _committer(self, lab: Lab, number: int) -> None:
        given = self.parameters

        async def body(client: Transactor, opened: OpenTransaction) -> None:
            await opened.send_all([Planned(one, client.unique()) for one in self.partitions])
            offsets = {lab.random.choice(self.partitions): lab.random.randrange(1, OFFSET_MAX)}
            await opened.send_offsets(lab.random.choice(self.groups), offsets, None)
            await lab.sleep(lab.random.randint(0, given.pause_ms))

        await run_writer(
            lab,
            f"{self.name}-committer-{number}",
            number,
            given,
            body,
            abort_share=given.abort_share,
            pause_ms=given.think_ms,
        )

    # ------------------------------------------------------------------------------------------------ operator

    async def _operate(self, lab: Lab, process: ClientProcess) -> None:
        """Act as an operator until the run is over: describe and list groups, commit and fetch their offsets, and
        delete offsets and groups, whether or not they have members."""
        admin = await lab.clients[0].admin(process.name)
        brokers = Brokers(lab.clients[0].bootstrap, process.name)
        offsets = _Offsets(lab, process, self.partitions)
        while not lab.is_over:
            calls = GroupCalls(brokers, lab.random.choice(self.groups))
            steps: Sequence[Callable[[], Awaitable[object]]] = (
                partial(offsets.delete, calls),
                partial(offsets.delete_group, calls),
                partial(offsets.commit, calls, Membership(-1, ""), False),
                partial(self._fetch, lab, process.name, admin, calls.group),
                calls.members,
                partial(calls.listed, lab.random.choice(((), ("consumer",), ("classic",)))),
                partial(self._forget_topic, lab, admin, brokers),
                GroupCalls(brokers, f"{self.name}-none").delete,
                partial(GroupCalls(brokers, f"{self.name}-none").leave, "nobody", None),
            )
            try:
                await lab.random.choice(steps)()
            except (*UNANSWERED, ClientError):
                brokers.forget()
            await lab.sleep(lab.random.randint(0, self.parameters.think_ms))
        brokers.close()
        await admin.close()

    async def _forget_topic(self, lab: Lab, admin: Admin, brokers: Brokers) -> None:
        """Create a topic, commit an offset of it, and delete the topic: the offset must vanish with it. No other
        client knows this topic."""
        topic = f"{self.name}-passing-{lab.random.randrange(2**32)}"
        await admin.create_topic(topic, 1, lab.replicas, {})
        try:
            calls = GroupCalls(brokers, lab.random.choice(self.groups))
            with suppress(*UNANSWERED):
                await calls.commit(Membership(-1, ""), {(topic, 0): 7})
        finally:
            await admin.delete_topic(topic)

    async def _is_taken(self, lab: Lab, group: str) -> None:
        """Join the group as a new member, until it is assigned every partition or the time is up. Record in the
        history which partitions it got."""
        client, began_ms = f"{self.name}-check", lab.now_ms()
        brokers = Brokers(lab.clients[0].bootstrap, client)
        calls = GroupCalls(brokers, group)
        has: frozenset[Partition] = frozenset()
        said = Said(0, (self.name,), frozenset(), 5_000)
        while len(has) < len(self.partitions) and lab.now_ms() - began_ms < TAKEN_LIMIT_MS:
            try:
                answer = await calls.say(client, None, said)
                has = has if answer.assigned is None else answer.assigned
                said = Said(answer.epoch, owned=has)
            except UNANSWERED:
                # Of a living group of the classic protocol it is refused until that is empty.
                brokers.forget()
                said = Said(0, (self.name,), frozenset(), 5_000)
            await lab.sleep(500)
        with suppress(*UNANSWERED):
            await calls.say(client, None, Said(-1))
        brokers.close()
        progress = GroupProgress(
            group=group,
            waited_ms=lab.now_ms() - began_ms,
            partitions=tuple((*one, int(one in has), 1) for one in self.partitions),
        )
        lab.record(note(progress, client=client, invoked_ms=began_ms, completed_ms=lab.now_ms()))


class _Offsets:
    """The commits and deletions of one client, one at a time; each is in the history before it is requested.

    A listener (oncelog's front end for Kafka clients) repeats a request without a response. The first copy may have
    been carried out when the second is refused, because the member was removed meanwhile. So a refusal proves that
    nothing was done only in two cases: every copy must be refused, or the request is never repeated.
    """

    def __init__(self, lab: Lab, process: ClientProcess, partitions: Sequence[Partition]) -> None:
        self._lab = lab
        self._process = process
        self._partitions = partitions

    async def commit(self, calls: GroupCalls, me: Membership, is_nobody: bool) -> None:
        draw = self._lab.random
        offsets = {draw.choice(self._partitions): draw.randrange(1, OFFSET_MAX)}
        ask = partial(calls.commit, me, offsets)
        await self._recorded(calls.group, offsets, ask, is_sure=is_nobody)

    async def delete(self, calls: GroupCalls) -> None:
        partition = self._lab.random.choice(self._partitions)
        ask = partial(calls.delete_offset, partition)
        await self._recorded(calls.group, {partition: DELETED}, ask, is_sure=False)

    async def delete_group(self, calls: GroupCalls) -> None:
        offsets = dict.fromkeys(self._partitions, DELETED)
        await self._recorded(calls.group, offsets, calls.delete, is_sure=True)

    async def _recorded(
        self,
        group: str,
        offsets: dict[Partition, int],
        ask: Callable[[], Awaitable[None]],
        *,
        is_sure: bool,
    ) -> None:
        """Send a commit or deletion by calling `ask`, and record how it ended. Raises the error of `ask`.

        `is_sure`: if it is refused, nothing was done. Otherwise the outcome of a refusal is recorded as unknown.
        """
        operation = OffsetsCommitted(
            client=self._process.name,
            invoked_ms=self._lab.now_ms(),
            completed_ms=None,
            committed=GroupOffsets(group, tuple((*one, at) for one, at in offsets.items())),
            outcome=Outcome.INFO,
        )
        self._process.last_word("offsets", operation)
        outcome = Outcome.INFO
        try:
            await ask()
            outcome = Outcome.OK
        except Unreachable:
            outcome = Outcome.FAIL
            raise
        except KafkaError as error:
            if is_sure and not error.error_code.is_retriable:
                outcome = Outcome.FAIL
            raise
        finally:
            settled = replace(operation, completed_ms=self._lab.now_ms(), outcome=outcome)
            self._process.settle("offsets", settled)
