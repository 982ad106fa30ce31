"""Our consumer and administrator on Apache Kafka 4.4: the tests that they pass on oncelog, unchanged."""

import pytest
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.integration.client import (
    test_admin,
    test_blocking,
    test_consumer,
    test_consumer_groups,
    test_fetch_sessions,
    test_scram_users,
    test_topic_made_again,
)
from tests.integration.client.writers import new_topic

from oncelog.client import Partition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

OURS_ALONE = {
    "test_a_broker_that_restarts_is_read_on",  # It starts a log of its own.
    "test_a_server_that_is_not_there_is_told_of",
}


SESSIONS_MAX = 8
"""Kafka has eight caches of fetch sessions: of one each."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    broker, controller, scram = free_block(3)
    folder = tmp_path_factory.mktemp("beside") / "kafka"
    more = f"max.incremental.fetch.session.cache.slots={SESSIONS_MAX}\n"
    ports = {"broker": broker, "controller": controller, "scram": scram}
    with KafkaBroker(folder, **ports, more=more) as found:
        yield found, f"127.0.0.1:{scram}"


@pytest.fixture
def bootstrap(kafka):
    return kafka[0].bootstrap


@pytest.fixture
def listeners(kafka):
    return kafka[0].bootstrap, kafka[1]


admin = test_admin.admin
fetches = test_fetch_sessions.fetches


async def test_a_consumer_that_closes_frees_its_session(bootstrap, fetches):
    """Kafka keeps a session for two minutes, unless its client closes it."""
    topic = new_topic(bootstrap, 20)
    for _ in range(2 * SESSIONS_MAX):
        async with test_fetch_sessions.reader(bootstrap) as consumer:
            partitions = [Partition(topic, number) for number in range(20)]
            await test_fetch_sessions.read_all(consumer, fetches, partitions)
            assert await test_fetch_sessions.idle_bytes(consumer, fetches) < 100


globals().update(
    {
        name: found
        for module in (
            test_admin,
            test_blocking,
            test_consumer,
            test_consumer_groups,
            test_fetch_sessions,
            test_scram_users,
            test_topic_made_again,
        )
        for name, found in vars(module).items()
        if name.startswith("test_") and name not in OURS_ALONE
    }
)
