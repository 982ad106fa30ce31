"""What a client with a fetch session knows, told only news, is what full fetches tell (KIP-227)."""

from dataclasses import replace
from uuid import UUID

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.listener.test_fetch_sessions import FETCH, change, produce, request
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World

PARTITIONS = 3
numbers = st.integers(0, PARTITIONS - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), numbers),
        st.tuples(st.just("seek"), numbers, st.integers(0, 4)),
        st.tuples(st.just("forget"), numbers),
        st.tuples(st.just("lose leader"), numbers, st.booleans()),
        st.tuples(st.just("lose session")),
        st.tuples(st.just("make again")),
    ),
    max_size=12,
)


class Model:
    """What a consumer holds: the offsets that it reads at, and what it was told of each partition."""

    def __init__(self, world, version):
        self.world, self.version = world, version
        self.topic_id = UUID(bytes=world.metadata.image.topics["orders"].topic_id)
        self.offsets = {}
        self.changed = set()
        self.forgotten = set()
        self.session = (0, 0)
        self.told = {}

    def seek(self, number, offset):
        self.offsets[number] = offset
        self.changed.add(number)
        self.forgotten.discard(number)

    def forget(self, number):
        if self.offsets.pop(number, None) is not None:
            self.changed.discard(number)
            self.forgotten.add(number)

    def lose_session(self):
        self.session, self.told, self.forgotten = (self.session[0], 0), {}, set()
        self.changed = set(self.offsets)

    def request(self, partitions, session, forgotten=()):
        made = request(
            self.world, self.version, partitions, session, forgotten, topic_id=self.topic_id
        )
        if not partitions:
            return made
        (of_topic,) = made.topics
        at = tuple(
            replace(one, fetch_offset=self.offsets[one.partition]) for one in of_topic.partitions
        )
        return replace(made, topics=(replace(of_topic, partitions=at),))

    async def fetch(self, client):
        """Partition → what is known now."""
        made = self.request(tuple(self.changed), self.session, tuple(self.forgotten))
        answer = await client.call(FETCH, self.version, request=made)
        assert answer.error_code == 0
        assert answer.session_id == (self.session[0] if self.session[1] else answer.session_id)
        self.session = (answer.session_id, self.session[1] + 1 if answer.session_id else 0)
        self.told = {number: one[:3] for number, one in self.told.items() if number in self.offsets}
        records = {}
        for number, (*known, found) in rows_of(answer).items():
            self.told[number], records[number] = tuple(known), found
        self.changed, self.forgotten = set(), set()
        if not answer.session_id:
            self.changed = set(self.offsets)
        return {number: (*self.told[number], records.get(number, b"")) for number in self.offsets}

    async def fetch_all(self, client):
        made = self.request(tuple(self.offsets), (0, -1))
        return rows_of(await client.call(FETCH, self.version, request=made))


def rows_of(answer):
    return {
        one.partition_index: (
            int(one.error_code),
            one.high_watermark,
            one.log_start_offset,
            bytes(one.records or b""),
        )
        for each in answer.responses
        for one in each.partitions
    }


def shaped(topic_id, leaders):
    new = topic("orders", PARTITIONS)
    new.topic_id = topic_id
    for number, leader in enumerate(leaders):
        new.partitions[number].leader = leader
    return new


async def compared(version, steps):
    world = World(shaped(b"a" * 16, [1] * PARTITIONS))
    leaders, topic_id = [1] * PARTITIONS, b"a" * 16
    async with world.connected() as (role, client):
        other = await type(client).connect(role.port)
        model = Model(world, version)
        model.seek(0, 0)
        await model.fetch(client)
        for step, *arguments in steps:
            match step:
                case "produce":
                    await produce(other, *arguments)
                case "seek":
                    model.seek(*arguments)
                case "forget":
                    model.forget(*arguments)
                case "lose leader":
                    leaders[arguments[0]] = 1 if arguments[1] else -1
                    change(world, topics=[shaped(topic_id, leaders)])
                case "lose session":
                    model.lose_session()
                case "make again":
                    topic_id = bytes([topic_id[0] + 1]) * 16
                    change(world, removed_topics=["orders"])
                    change(world, topics=[shaped(topic_id, leaders)])
            if not model.offsets:
                model.seek(0, 0)
            assert as_one(await model.fetch(client)) == as_one(await model.fetch_all(other))


def as_one(rows):
    """Of a topic that is gone a session says 103, for it knows the name that the id had; a full fetch says 100."""
    return {number: (100 if row[0] == 103 else row[0], *row[1:]) for number, row in rows.items()}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([7, 12, 13, 18]), STEPS)
def test_a_session_tells_what_full_fetches_tell(version, steps):
    uvloop.run(compared(version, steps))
