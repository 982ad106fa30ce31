"""One listener holds up an EndTxn. The EndTxn must not end the transaction that its producer began meanwhile through
the other listener (ADR 0018).

That is how chaos met it: a listener is cut off with the request still under way, its client gives up, connects to the
other listener and goes on there; then the network heals. Unmodified clients of the old transaction protocol.
"""

import queue
import uuid

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import commit, values
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.cutting_proxy import END_TXN, CuttingProxy
from tests.conformance.test_delayed_end_txn import CONCURRENT_TRANSACTIONS, error_code
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import LISTENER

ARRIVES_WITHIN_S = 60
CALL_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def doors():
    """One proxy before each listener."""
    with CuttingProxy() as first, CuttingProxy() as second:
        yield first, second


@pytest.fixture(scope="module")
def cluster(doors):
    def put_behind_doors(state):
        members = [one for one in state.members if one.role == LISTENER.role]
        for door, member in zip(doors, members, strict=True):
            door.target_port = int(member.address.rpartition(":")[2])
            environment = state.environments.setdefault(member.name, {})
            environment["ONCELOG_LISTENER_ADVERTISED_HOST"] = "127.0.0.1"
            environment["ONCELOG_LISTENER_ADVERTISED_PORT"] = str(door.port)

    with cluster_folder() as folder, Cluster(folder, on_plan=put_behind_doors) as running:
        yield running


@pytest.mark.parametrize("client", [Confluent, Aiokafka, KafkaPython], ids=lambda one: one.name)
def test_a_delayed_commit_spares_what_another_listener_began(client, cluster, doors):
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, 3)]).values()
    created.result(CALL_TIMEOUT_S)
    bootstrap = ",".join(f"127.0.0.1:{door.port}" for door in doors)
    producer = client().producer(bootstrap, f"pay-{uuid.uuid4().hex[:8]}", timeout_ms=600_000)
    producer.init()
    producer.begin()
    producer.send(topic, b"first")
    chosen = queue.Queue()

    def cut_off(door):
        for one in doors:
            one.hold_nothing()
        chosen.put(door)

    for door in doors:
        door.hold_next_request(END_TXN, then_cut_off=cut_off)
    producer.commit()
    held_at = chosen.get(timeout=ARRIVES_WITHIN_S)
    producer.begin()
    producer.send(topic, b"half")

    code = error_code(held_at.release_held(ARRIVES_WITHIN_S))

    held_at.let_in()
    assert code == CONCURRENT_TRANSACTIONS
    producer.send(topic, b"other half")
    producer.abort()
    commit(producer, topic, b"last")
    producer.close()
    records = Confluent().read(cluster.bootstrap, topic, until=b"last")
    assert values(records) == [b"first", b"last"]
