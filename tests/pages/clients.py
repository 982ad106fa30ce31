"""What the tests of pages have in common: a transaction that stays open."""

from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import raw, raw_produce

from oncelog_server.cli.rest import Rest

WAIT_S = 30
NAME = "slow/one"


def wake(server):
    """The first request loads the gateway. On a busy machine that takes longer than a browser is to wait for a page."""
    Rest(server.gateway).get("/v1/cluster")


def begin(server, name=NAME, client_id="app-1", topic="orders"):
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": name,
            "client.id": client_id,
            # The minute that is usual is over before the last test of a module, on a busy machine.
            "transaction.timeout.ms": 900_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(WAIT_S) == 0
    return producer


def leave_hanging(server, topic):
    """A topic with a record of a transaction that no coordinator knows. In a thread: here runs Playwright's loop."""

    def write():
        return raw(server.bootstrap, lambda one: raw_produce(one, topic, "nobody", 999_999, 3))

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    created.result(WAIT_S)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(write).result(WAIT_S) == 0
