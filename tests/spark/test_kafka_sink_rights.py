"""The rights that docs/spark.md names are what the sink needs on Apache Kafka with ACLs: all of them, and no more."""

from types import SimpleNamespace

import pytest
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.spark.test_kafka_commit import Driver, rows_of

from oncelog.client import NewTopic
from oncelog.client.blocking import Admin, Consumer
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from oncelog.spark.commit_token import place_of_job, place_of_stream

USER, PASSWORD = "etl", "secret"
TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
OUT, TOKENS, NAME = "what is written", "the tokens", "the transactional.id"
RIGHTS = [
    (NAME, Operation.WRITE),
    (OUT, Operation.WRITE),
    (TOKENS, Operation.CREATE),
    (TOKENS, Operation.DESCRIBE_CONFIGS),
    (TOKENS, Operation.READ),
    (TOKENS, Operation.WRITE),
]
"""READ and WRITE allow DESCRIBE, too."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def login(user):
    words = f'username="{user}" password="{PASSWORD}"'
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"org.apache.kafka.common.security.plain.PlainLoginModule required {words};",
    }


def acl(kind, name, operation):
    who = f"User:{USER}"
    return Acl(kind, name, PatternType.LITERAL, who, "*", operation, Permission.ALLOW)


def acls(sink, place, without=None):
    names = {
        OUT: (TOPIC, f"{sink}-out"),
        TOKENS: (TOPIC, place.topic),
        NAME: (TRANSACTIONAL_ID, place.transactional_id),
    }
    return [acl(*names[right[0]], right[1]) for right in RIGHTS if right != without]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Every sink of this file has its ACLs before the first of them is used."""
    broker, controller = free_block(2)
    folder = tmp_path_factory.mktemp("rights") / "kafka"
    ports = {"broker": broker, "controller": controller}
    with (
        KafkaBroker(folder, ("admin", USER), PASSWORD, **ports) as running,
        Admin(running.bootstrap, login("admin")) as admin,
    ):
        named = [acls("all", place_of_stream("all")), acls("jobs", place_of_job("jobs", "j"))]
        lacking = [
            acls(f"lacks-{number}", place_of_stream(f"lacks-{number}"), right)
            for number, right in enumerate(RIGHTS)
        ]
        for found in (*named, *lacking):
            admin.create_acls(found)
        for sink in ("all", "jobs", *(f"lacks-{number}" for number in range(len(RIGHTS)))):
            admin.create_topics([NewTopic(f"{sink}-out", 2)])
        yield running


def driver_of(broker, sink):
    to_sink = {
        "bootstrap.servers": broker.bootstrap,
        "topic": f"{sink}-out",
        "transactionalId": sink,
    }
    quick = {"kafka.delivery.timeout.ms": "10000"}
    given = {f"kafka.{name}": value for name, value in login(USER).items()}
    return Driver(SimpleNamespace(to_sink=to_sink, sink_id=sink), **given, **quick)


def count(broker, topic):
    """Committed rows."""
    partitions = [Partition(topic, number) for number in range(2)]
    words = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap, login("admin"), **words) as consumer:
        consumer.assign(partitions)
        return sum(map(len, consumer.read_until_decided(partitions)))


def test_the_rights_that_are_told_suffice(broker):
    driver = driver_of(broker, "all").prepared()
    driver.commit(rows_of(0), 0)
    driver.commit(rows_of(1), 1)
    assert count(broker, "all-out") == 24


def test_those_of_jobs_suffice(broker):
    driver = driver_of(broker, "jobs")
    driver.place = place_of_job("jobs", "j")
    driver.prepared().commit(rows_of(0), 0)
    assert count(broker, "jobs-out") == 12


@pytest.mark.parametrize("number", range(len(RIGHTS)))
def test_without_one_of_them_it_is_refused(broker, number):
    driver = driver_of(broker, f"lacks-{number}")
    is_read = RIGHTS[number] == (TOKENS, Operation.READ)
    if is_read:
        # Before the first batch there is nothing to read.
        driver.prepared().commit(rows_of(0), 0)
    with pytest.raises(OncelogError, match="AUTHORIZATION_FAILED"):
        driver.prepared().commit(rows_of(1), 1 if is_read else 0)
    assert count(broker, f"lacks-{number}-out") == 12 * is_read
