"""One start of a badly behaved group member, in each of the two group protocols.

Every step is drawn: the right one, or one that a coordinator must refuse. The member goes on, whatever the response
is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from oncelog.errors import ErrorCode, KafkaError
from oncelog_robustness.clients.group_calls import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    GroupCalls,
    Joined,
    Said,
)
from oncelog_robustness.clients.membership import Membership
from oncelog_robustness.clients.wire import Lost, Unreachable
from oncelog_robustness.history import Partition
from oncelog_robustness.workloads.contract import Lab

REBALANCE_MS: Final = 1_500
NOBODY: Final = "nobody"
"""A member id that no member has."""
PROTOCOLS: Final = ("range", "roundrobin", "sticky")
UNANSWERED: Final = (Lost, Unreachable, KafkaError)

Commits = Callable[[GroupCalls, Membership, bool], Awaitable[None]]
"""A function that commits a drawn offset in the name of a member and records the commit in the history. Its last
argument is true if nobody ever was or will be that member."""


@dataclass(frozen=True, slots=True)
class MemberRun:
    """The values for one start of a member, of either protocol: the lab (chance, time, history), its group's calls, its
    ids, and how often it does wrong things."""

    lab: Lab
    calls: GroupCalls
    member_id: str
    """The member id that the client asks for. In the consumer protocol a client chooses it; in the classic one the
    coordinator does."""
    instance_id: str | None
    topics: tuple[str, ...]
    session_ms: int
    pause_ms: int
    wrong_share: float
    commits: Commits

    def strikes(self, share: float) -> bool:
        return self.lab.random.random() < share

    async def rest(self) -> None:
        await self.lab.sleep(self.lab.random.randint(0, self.pause_ms))

    async def be_silent(self) -> None:
        """Send nothing for twice the session timeout, so that the coordinator removes the member."""
        await self.lab.sleep(self.session_ms * 2)

    def wrong(self, me: Membership) -> Membership:
        """Draw a membership that the coordinator must refuse: a member id or instance id that nobody has, or a
        generation that is over or never was."""
        return self.lab.random.choice(
            (
                me._replace(generation=me.generation - 1),
                me._replace(generation=me.generation + 1_000),
                me._replace(member_id=NOBODY),
                me._replace(instance_id="nothing"),
            )
        )


class ClassicMemberRun:
    """One start of a member that speaks the classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).
    Its steps are drawn, right ones and wrong ones."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._calls = run.calls
        self._member_id = ""
        self._joined: Joined | None = None
        self._protocols = self._drawn_protocols()

    async def live(self) -> None:
        run = self._run
        while not run.lab.is_over:
            try:
                if self._joined is None:
                    await self._join()
                else:
                    await self._step(self._joined)
            except (Lost, Unreachable):
                self._calls.brokers.forget()
            except KafkaError as error:
                self._calls.brokers.forget()
                self._refused(error)
            await run.rest()
        self._calls.brokers.close()

    def _drawn_protocols(self) -> dict[str, bytes]:
        """Draw the assignors that the member supports, each with its subscription. Most members list all of them in
        the same order."""
        run = self._run
        topics = list(run.topics) if run.strikes(0.7) else []
        metadata = ConsumerProtocolMemberMetadata(0, topics, b"").encode()
        names = list(PROTOCOLS)
        if run.strikes(run.wrong_share):
            run.lab.random.shuffle(names)
            names = names[: run.lab.random.randint(1, len(names))]
        return dict.fromkeys(names, metadata)

    def _refused(self, error: KafkaError) -> None:
        if error.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            # Some members never come back with the id that they received.
            self._member_id = "" if self._run.strikes(self._run.wrong_share) else error.message
            return
        if not error.error_code.is_retriable:
            self._joined = None
            self._member_id = ""

    async def _join(self) -> None:
        run = self._run
        joined = await self._calls.join(
            self._member_id, run.instance_id, self._protocols, (run.session_ms, REBALANCE_MS)
        )
        self._joined = joined
        self._member_id = joined.member_id
        if run.strikes(run.wrong_share):
            # The member has joined and never requests its assignment.
            return
        await self._sync(joined)

    def _me(self, joined: Joined) -> Membership:
        return Membership(joined.generation, joined.member_id, self._run.instance_id)

    async def _sync(self, joined: Joined) -> None:
        assignments: Mapping[str, bytes] = {}
        if joined.must_assign:
            assignments = {member: f"for {member}".encode() for member in joined.members}
        await self._calls.sync(self._me(joined), joined.protocol, assignments)

    async def _step(self, joined: Joined) -> None:
        run, me = self._run, self._me(joined)
        if run.strikes(run.wrong_share):
            await self._wrong_step(joined, run.wrong(me))
            return
        draw = run.lab.random.random()
        if draw < 0.45:
            try:
                await self._calls.heartbeat(me)
            except KafkaError as error:
                if error.error_code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
                await self._join()
        elif draw < 0.75:
            await run.commits(self._calls, me, False)
        elif draw < 0.85:
            await self._join()
        elif draw < 0.93:
            self._joined = None
            await self._calls.leave(joined.member_id, run.instance_id)
            self._member_id = ""
        else:
            await run.be_silent()

    async def _wrong_step(self, joined: Joined, somebody: Membership) -> None:
        """Send one drawn request that is wrong, mostly in the name of `somebody`, a membership that the coordinator
        must refuse. The response does not change what this member believes about itself."""
        run = self._run
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: self._calls.heartbeat(somebody),
            lambda: run.commits(self._calls, somebody, somebody.member_id == NOBODY),
            lambda: self._calls.sync(somebody, joined.protocol, {}),
            lambda: self._calls.sync(self._me(joined), "no such protocol", {}),
            lambda: self._calls.leave(somebody.member_id, somebody.instance_id),
            lambda: self._calls.join(NOBODY, None, self._protocols, (run.session_ms, REBALANCE_MS)),
        )
        with suppress(*UNANSWERED):
            await run.lab.random.choice(steps)()


class ConsumerMemberRun:
    """One start of a member that speaks the consumer protocol (ConsumerGroupHeartbeat, KIP-848). Its steps are
    drawn, right ones and wrong ones."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run
        self._calls = run.calls
        self._epoch = JOINS
        self._assigned: frozenset[Partition] = frozenset()
        self._owned: frozenset[Partition] = frozenset()

    async def live(self) -> None:
        run = self._run
        while not run.lab.is_over:
            try:
                await self._step()
            except (Lost, Unreachable):
                self._calls.brokers.forget()
            except KafkaError as error:
                self._calls.brokers.forget()
                if not error.error_code.is_retriable:
                    self._epoch = JOINS
                    self._owned = frozenset()
            await run.rest()
        self._calls.brokers.close()

    async def _step(self) -> None:
        run, draw = self._run, self._run.lab.random
        if self._epoch == JOINS:
            await self._say(replace(self._all(), owned=frozenset()))
            return
        me = Membership(self._epoch, run.member_id, run.instance_id)
        if run.strikes(run.wrong_share):
            await self._wrong_step(run.wrong(me))
            return
        step = draw.random()
        if step < 0.5:
            # Now and then the member keeps partitions that it should give up, for longer than it may.
            if not run.strikes(run.wrong_share):
                self._owned = self._assigned
            await self._say(Said(self._epoch, owned=self._owned))
        elif step < 0.75:
            await run.commits(self._calls, me, False)
        elif step < 0.82:
            topics = run.topics if run.strikes(0.7) else ()
            await self._say(replace(self._all(), topics=topics, owned=self._owned))
        elif step < 0.92:
            away = LEAVES_FOR_A_WHILE if run.instance_id is not None else LEAVES
            await self._calls.say(run.member_id, run.instance_id, Said(away))
            self._epoch, self._owned = JOINS, frozenset()
        else:
            await run.be_silent()

    def _all(self) -> Said:
        return Said(
            self._epoch,
            topics=self._run.topics,
            owned=self._owned,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    async def _say(self, said: Said) -> None:
        answer = await self._calls.say(self._run.member_id, self._run.instance_id, said)
        self._epoch = answer.epoch
        if answer.assigned is not None:
            self._assigned = answer.assigned

    async def _wrong_step(self, somebody: Membership) -> None:
        run, calls = self._run, self._calls
        fuller = self._all()
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: calls.say(somebody.member_id, somebody.instance_id, Said(somebody.generation)),
            lambda: calls.say(run.member_id, run.instance_id, replace(fuller, assignor="none")),
            lambda: calls.say(run.member_id, run.instance_id, Said(-3)),
            lambda: calls.say("", None, replace(fuller, epoch=JOINS)),
            lambda: run.commits(calls, somebody, somebody.member_id == NOBODY),
            lambda: calls.committed_to(somebody, [(topic, 0) for topic in run.topics]),
            lambda: asyncio.sleep(REBALANCE_MS / 1000),
        )
        with suppress(*UNANSWERED):
            await run.lab.random.choice(steps)()
