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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

OURS_ALONE = {
    "test_a_broker_that_restarts_is_read_on",  # It starts a log of its own.
    "test_a_server_that_is_not_there_is_told_of",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    broker, controller, scram = free_block(3)
    folder = tmp_path_factory.mktemp("beside") / "kafka"
    with KafkaBroker(folder, broker=broker, controller=controller, scram=scram) as found:
        yield found, f"127.0.0.1:{scram}"


@pytest.fixture
def bootstrap(kafka):
    return kafka[0].bootstrap


@pytest.fixture
def listeners(kafka):
    return kafka[0].bootstrap, kafka[1]


admin = test_admin.admin
fetches = test_fetch_sessions.fetches

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
