"""Members of consumer groups (KIP-848) over `GroupWorld`, as clients behave: they use what they are told, give up what
they are told no more, and say so with their next heartbeat."""

from tests.worlds.coordinator.group_world import GroupWorld

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.consumer_group import TopicShape
from oncelog_coordinator.core.group_events import ConsumerHeartbeat
from oncelog_coordinator.core.group_records import TopicsLookedThrough

TOPICS = {"orders": TopicShape(b"o" * 16, 4), "bills": TopicShape(b"b" * 16, 3)}
SESSION_MS = 45_000
REBALANCE_MS = 30_000


def slots(shapes, *names):
    return {
        (shapes[name].topic_id, number)
        for name in names
        for number in range(shapes[name].partitions)
    }


class Client:
    """One member. `owned` is what it uses or has not yet given up."""

    def __init__(self, world, member_id, topics=("orders",), instance_id=None, **options):
        self.world = world
        self.member_id = member_id
        self.topics = topics
        self.instance_id = instance_id
        self.options = options
        self.epoch = 0
        self.assigned = frozenset()
        self.owned = frozenset()
        self.code = None
        self.message = ""

    def beat(self, *, loses_answer=False, full=False):
        """One heartbeat; the code of its answer."""
        fields = {"owned": self.owned}
        if self.epoch == 0 or full:
            fields |= {"topics": self.topics, "rebalance_timeout_ms": REBALANCE_MS}
        answer = self._ask(self.epoch, **fields)
        if loses_answer:
            return answer.error_code
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.fenced()
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                self.assigned = answer.assigned
        return answer.error_code

    def fenced(self):
        self.epoch = 0
        self.assigned = self.owned = frozenset()

    def settle(self):
        """Give up and take, as it was last told."""
        self.owned = self.assigned

    def leave(self, epoch=-1):
        return self._ask(epoch).error_code

    def subscribe(self, *topics):
        self.topics = topics
        return self._noted(self._ask(self.epoch, topics=topics, owned=self.owned))

    def _noted(self, answer):
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                self.assigned = answer.assigned
        return answer.error_code

    def _ask(self, epoch, **fields):
        answer = self.world.answer(
            ConsumerHeartbeat,
            "g",
            self.member_id,
            epoch,
            self.world.shapes,
            topics_version=self.world.topics_version,
            instance_id=self.instance_id,
            **fields,
            **self.options,
        )
        self.code, self.message = answer.error_code, answer.message
        return answer


class ConsumerWorld(GroupWorld):
    def __init__(self, **config):
        super().__init__(**config)
        self.shapes = dict(TOPICS)
        self._looks = 0
        self._seen_topics = (frozenset(self.shapes), 0)
        self.clients = []

    def client(self, member_id, topics=("orders",), **options):
        self.clients.append(Client(self, member_id, topics, **options))
        return self.clients[-1]

    def quiesce(self, *clients, rounds=12):
        """Everybody goes on, in turn, until nothing changes."""
        for _ in range(rounds):
            for client in clients or self.clients:
                client.beat()
                client.settle()

    @property
    def topics_version(self):
        """As a group shard has it: another one when a topic came or went."""
        names, version = self._seen_topics
        if names != frozenset(self.shapes):
            self._seen_topics = (frozenset(self.shapes), version + 1)
        return self._seen_topics[1]

    def submit(self, event):
        decision = super().submit(event)
        self._looks += sum(isinstance(one, TopicsLookedThrough) for one in decision.unlogged)
        return decision

    def looked_through(self, beat):
        """For how many patterns this heartbeat looked through the topics."""
        before = self._looks
        beat()
        return self._looks - before

    @property
    def consumers(self):
        return self.machine.group("g")
