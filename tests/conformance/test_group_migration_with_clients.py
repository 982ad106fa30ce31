"""A living group changes its protocol (KIP-848): real, unmodified clients of both protocols in one group."""

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from tests.conformance.group_members import (
    NEW_PROTOCOL,
    SERVER_ENVIRONMENT,
    eventually,
    fill,
    seen,
    share,
)
from tests.conformance.java_programs import Program

PARTITIONS = 6
COUNT = 60
LONG = {"session_timeout_ms": 15_000}
"""Nobody is put out because the machine was slow: who goes here says so."""
OLD = {
    "confluent-kafka": ("confluent-kafka", LONG),
    "confluent-kafka, cooperative": (
        "confluent-kafka",
        {"partition_assignment_strategy": "cooperative-sticky", **LONG},
    ),
    "kafka-python": ("kafka-python", LONG),
    "aiokafka": ("aiokafka", LONG),
}
ENVIRONMENT = SERVER_ENVIRONMENT | {
    "ONCELOG_COORDINATOR_GROUP_CONSUMER_SESSION_TIMEOUT_MS": "15000",
    "ONCELOG_COORDINATOR_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS": "200",
}


class Reading:
    """Members that together read what is written, each record once as long as nobody moves while there is something to
    read: before a member changes, everything is read and committed."""

    def __init__(self, server, topic, group_row, members):
        self._group_row = group_row
        self._server = server
        self._topic = topic
        self.members = list(members)
        self._gone = []
        self._written = 0

    def is_settled(self):
        row = self._group_row()
        if row is None or row.state is not ConsumerGroupState.STABLE:
            return False
        return share(PARTITIONS, *self.members)

    def told(self):
        return f"the members have {[sorted(one.assigned) for one in self.members]}"

    def check(self):
        """Everybody has partitions, nobody shares one, and what is written now is read and committed once."""
        eventually(self.is_settled, self.told)
        fill(self._server, self._topic, PARTITIONS, self._written, COUNT)
        self._written += COUNT
        eventually(lambda: len(self._seen()) >= self._written, lambda: f"read {self._seen()}")
        assert self._seen() == list(range(self._written))
        for one in self.members:
            one.commit()

    def _seen(self):
        return seen(*self._gone, *self.members)

    def replace(self, number, member_after, *, waits=False):
        """Close one, then start the other in its place: at once, or when the rest has its partitions."""
        gone = self.members.pop(number)
        gone.close()
        self._gone.append(gone)
        if waits:
            eventually(self.is_settled, self.told)
        self.members.insert(number, member_after())


JAVA_CLASSIC = ("group.protocol=classic", "session.timeout.ms=15000", "heartbeat.interval.ms=300")
JAVA_NEW = ("group.protocol=consumer",)
STRATEGIES = {
    "as it comes": "org.apache.kafka.clients.consumer.RangeAssignor,"
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "cooperative": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
}


def one_in_the_gate(names, chosen):
    return [
        pytest.param(name, marks=[] if name == chosen else [pytest.mark.slow]) for name in names
    ]


class JavaMember:
    """Kafka's own consumer in a process, with the face of `Member`."""

    def __init__(self, classpath, *arguments):
        self._program = Program(classpath, "GroupMember", *arguments)

    @property
    def values(self):
        return [line.split()[1] for line in tuple(self._program.lines) if line.startswith("read ")]

    @property
    def assigned(self):
        lines = [line for line in tuple(self._program.lines) if line.startswith("has")]
        return frozenset(map(int, lines[-1].split()[1:])) if lines else frozenset()

    def commit(self):
        there = self._program.count("committed")
        self._program.tell("commit")
        self._program.wait_for(lambda: self._program.count("committed") > there)

    def close(self):
        self._program.close()


@pytest.fixture
def join_java(java_classpath, server, group, topic):
    opened = []

    def make(*options):
        where = (server.bootstrap, group, topic)
        opened.append(JavaMember(java_classpath, *where, *options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def group_row(admin, group):
    """The group as it is listed now."""

    def ask():
        listed = admin.list_consumer_groups().result(30)
        return next((one for one in listed.valid if one.group_id == group), None)

    return ask


@pytest.fixture
def read_with(server, topic, group_row):
    return lambda *members: Reading(server, topic, group_row, members)


@pytest.mark.parametrize("name", one_in_the_gate(OLD, "confluent-kafka, cooperative"))
def test_a_rolling_upgrade_member_by_member_and_back(join, read_with, group_row, name):
    client, options = OLD[name]
    reading = read_with(*(join(client, **options) for _ in range(3)))
    reading.check()
    assert group_row().type is ConsumerGroupType.CLASSIC
    for number in range(3):
        # aiokafka raises what it is told in JoinGroup when the group changes its protocol amid a rebalance.
        reading.replace(number, lambda: join(NEW_PROTOCOL), waits=name == "aiokafka")
        reading.check()
        assert group_row().type is ConsumerGroupType.CONSUMER
    for number in range(3):
        assert group_row().type is ConsumerGroupType.CONSUMER
        reading.replace(number, lambda: join(client, **options))
        reading.check()
    eventually(lambda: group_row().type is ConsumerGroupType.CLASSIC)


# Ten processes of Java begin in it, after the server and the tools.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", one_in_the_gate(STRATEGIES, "as it comes"))
def test_a_rolling_upgrade_of_the_java_client_and_back(join_java, read_with, group_row, name):
    classic = (*JAVA_CLASSIC, f"partition.assignment.strategy={STRATEGIES[name]}")
    reading = read_with(join_java(*classic), join_java(*classic))
    reading.check()
    for number in range(2):
        reading.replace(number, lambda: join_java(*JAVA_NEW))
        reading.check()
        assert group_row().type is ConsumerGroupType.CONSUMER
    for number in range(2):
        reading.replace(number, lambda: join_java(*classic))
        reading.check()
    assert group_row().type is ConsumerGroupType.CLASSIC


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_an_instance_keeps_its_partitions_in_both_protocols(join, read_with, group_row, client):
    """A static member that is closed says nothing, so its place waits for the next one of its name."""
    old = [join(client, group_instance_id=f"i{number}", **LONG) for number in range(2)]
    reading = read_with(*old)
    reading.check()
    stayed, moved = old[0].assigned, old[1].assigned
    reading.replace(1, lambda: join(NEW_PROTOCOL, group_instance_id="i1"))
    reading.check()
    assert group_row().type is ConsumerGroupType.CONSUMER
    assert [one.assigned for one in reading.members] == [stayed, moved]
    reading.replace(1, lambda: join(client, group_instance_id="i1", **LONG))
    reading.check()
    assert group_row().type is ConsumerGroupType.CLASSIC
    assert [one.assigned for one in reading.members] == [stayed, moved]


def test_members_of_every_client_share_one_group_through_a_crash(
    server, join, read_with, group_row
):
    """librdkafka by both protocols, kafka-python and aiokafka. The next coordinator knows all of them."""
    old = [join(client, **LONG) for client in ("confluent-kafka", "kafka-python", "aiokafka")]
    reading = read_with(*old)
    reading.check()
    reading.members.append(join(NEW_PROTOCOL))
    reading.check()
    assert group_row().type is ConsumerGroupType.CONSUMER
    server.kill()
    server.start()
    reading.check()
    assert group_row().type is ConsumerGroupType.CONSUMER
