"""Consumers of the classic protocol over `ConsumerWorld`, as clients behave, in groups that change their protocol."""

import struct

from tests.worlds.coordinator.consumer_world import TOPICS, ConsumerWorld, slots

from oncelog.errors import ErrorCode
from oncelog.protocol.consumer_protocol import read_assignment, read_subscription
from oncelog_coordinator.core.consumer_group import ConsumerGroup
from oncelog_coordinator.core.group_events import (
    Heartbeat,
    LeaveGroup,
    Leaving,
    ListGroups,
    SyncGroup,
)
from oncelog_coordinator.core.named_partitions import slots_of, write_assignment

EAGER = "range"
COOPERATIVE = "cooperative-sticky"
EVERY = slots(TOPICS, "orders")


def subscription(topics, owned=(), version=1):
    """The bytes of a JoinGroup. `owned`: (topic, partition)s."""
    out = struct.pack(">hi", version, len(topics))
    for name in topics:
        out += struct.pack(f">h{len(name)}s", len(name), name.encode())
    out += struct.pack(">i", -1)
    if version >= 1:
        out += struct.pack(">i", len(owned))
        for name, partition in owned:
            out += struct.pack(f">h{len(name)}sii", len(name), name.encode(), 1, partition)
    if version >= 2:
        out += struct.pack(">i", -1)
    if version >= 3:
        out += struct.pack(">h4s", 4, b"rack")
    return out


class ClassicClient:
    """One member. `owned` is what it uses; an eager one gives up everything before it joins."""

    def __init__(self, world, number, topics=("orders",), instance_id=None, protocol=EAGER):
        self.world = world
        self.number = number
        self.topics = topics
        self.instance_id = instance_id
        self.protocol = protocol
        self.member_id = ""
        self.generation = -1
        self.owned = frozenset()
        self.code = None
        self.waiting = None
        """What was asked for and its request id."""
        self._should_join = True
        self._led = None
        """The topics that it assigned as the leader: a leader sees new partitions by itself."""

    def step(self):
        """What the client does next, if anything; the code that it received last."""
        if self.waiting is not None:
            kind, request_id = self.waiting
            if request_id not in self.world.answers:
                return None
            self.waiting = None
            getattr(self, f"_{kind}ed")(self.world.answers[request_id])
        elif self._should_join or self._led not in (None, self.world.shapes):
            self._join()
        else:
            self._received(self.heartbeat())
        return self.code

    def settle(self, steps=6):
        """Join, and what follows, as far as it goes without others."""
        for _ in range(steps):
            self.step()
        return self.code

    def heartbeat(self):
        """The code alone; the client does nothing about it."""
        return self.world.answer(
            Heartbeat, "g", self.generation, self.member_id, self.instance_id
        ).error_code

    def leave(self):
        (found,) = self.world.answer(
            LeaveGroup, "g", (Leaving(self.member_id, self.instance_id),)
        ).members
        self.fenced()
        return found[1]

    def fenced(self):
        self.member_id = ""
        self._lost()

    def lost_connection(self):
        """A member that waits sends its request again."""
        if self.waiting is not None:
            self.waiting = None
            self._should_join = True

    def _lost(self):
        self.owned = frozenset()
        self.generation = -1
        self.waiting = None
        self._should_join = True

    def _join(self):
        self._should_join, self._led = False, None
        if self.protocol == EAGER:
            self.owned = frozenset()
        names = {shape.topic_id: name for name, shape in self.world.shapes.items()}
        owned = [
            (names[topic_id], one) for topic_id, one in sorted(self.owned) if topic_id in names
        ]
        request_id = self.world.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=((self.protocol, subscription(self.topics, owned)),),
            new_member_id=f"c{self.number}-{next(self.world.ids)}",
        )
        self.world.advance(0)
        self.waiting = ("join", request_id)

    def _joined(self, answer):
        self.code = answer.error_code
        if self.code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        if self.code != 0:
            self._received(self.code)
            self._should_join = True
            return
        self.member_id, self.generation = answer.member_id, answer.generation
        leads = answer.leader == answer.member_id
        self._led = dict(self.world.shapes) if leads else None
        assignments = self._assign(answer) if leads else {}
        request_id = self.world.ask(
            SyncGroup,
            "g",
            self.generation,
            self.member_id,
            self.instance_id,
            answer.protocol_type,
            answer.protocol_name,
            tuple(assignments.items()),
        )
        self.waiting = ("sync", request_id)

    def _assign(self, answer):
        """As the leader: every partition to one subscriber in turn; a cooperative one takes nothing from its owner."""
        shapes = self.world.shapes
        said = {one.member_id: read_subscription(one.metadata) for one in answer.members}
        owner = {
            slot: member_id
            for member_id, one in said.items()
            for slot in slots_of(one.owned, shapes)
        }
        given = {member_id: set() for member_id in said}
        for name, shape in sorted(shapes.items()):
            takers = sorted(member_id for member_id, one in said.items() if name in one.topics)
            for number in range(shape.partitions if takers else 0):
                slot, taker = (shape.topic_id, number), takers[number % len(takers)]
                if owner.get(slot, taker) == taker:
                    given[taker].add(slot)
        return {
            member_id: write_assignment(frozenset(slots), shapes, 1)
            for member_id, slots in given.items()
        }

    def _synced(self, answer):
        self._received(answer.error_code)
        if answer.error_code == 0:
            partitions = read_assignment(answer.assignment).partitions
            assigned = slots_of(partitions, self.world.shapes)
            # Who gave something up joins again at once, so that others may have it.
            self._should_join = not self.owned <= assigned
            self.owned = assigned

    def _received(self, code):
        self.code = code
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.fenced()
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self._lost()
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._should_join = True
        elif code not in (0, ErrorCode.MEMBER_ID_REQUIRED):
            self.fenced()


class MigrationWorld(ConsumerWorld):
    """`clients` speak the consumer protocol, `classics` the classic one."""

    def __init__(self, **config):
        super().__init__(**config)
        self.classics = []

    def classic(self, topics=("orders",), **options):
        self.classics.append(ClassicClient(self, len(self.classics) + 1, topics, **options))
        return self.classics[-1]

    def settled(self, *clients, rounds=12):
        """All of these, until nothing changes. Returns them."""
        for _ in range(rounds):
            for client in clients:
                if isinstance(client, ClassicClient):
                    client.step()
                    self.advance(0)
                else:
                    client.beat()
                    client.settle()
        return clients

    def crash(self):
        super().crash()
        for client in self.classics:
            client.lost_connection()


def shared(*clients):
    """Everything is with one of them."""
    held = [slot for one in clients for slot in one.owned]
    return sorted(held) == sorted(EVERY)


def upgraded(world, classics=1, **options):
    """That many classic members, and one of the consumer protocol that made it a consumer group. All are settled."""
    old = [world.classic(**options) for _ in range(classics)]
    world.settled(*old)
    new = world.client("new")
    world.settled(*old, new)
    assert isinstance(world.consumers, ConsumerGroup)
    return *old, new


def listed(world):
    (row,) = world.answer(ListGroups).groups
    return row.group_type, row.state
