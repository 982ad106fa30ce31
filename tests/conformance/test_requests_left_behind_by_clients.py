"""librdkafka sends EndTxn(abort) behind an AddPartitionsToTxn that is not answered yet (ADR 0018).

So a client that is cut off leaves both behind, and they arrive when it has gone on. And the first addition on a new
connection is refused once, with the abort already behind it: that abort has nothing to do, and says so.
"""

import confluent_kafka
import pytest
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import values
from tests.conformance.cutting_proxy import PairingProxy, open_behind
from tests.conformance.test_delayed_end_txn import CONCURRENT_TRANSACTIONS, error_code

CALL_TIMEOUT_S = 20


@pytest.fixture
def door():
    with PairingProxy() as running:
        yield running


@pytest.fixture
def server(tmp_path, door):
    with open_behind(door, tmp_path) as running:
        yield running


@pytest.fixture
def producer(server, door):
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{door.port}",
            "transactional.id": "pay",
            "linger.ms": 0,
            "log_level": 0,
            "reconnect.backoff.max.ms": 300,
        }
    )
    made.init_transactions(CALL_TIMEOUT_S)
    return made


def test_an_abort_behind_a_refused_addition_succeeds(server, door, producer):
    producer.begin_transaction()
    producer.produce("orders", b"first", partition=0)
    producer.commit_transaction(CALL_TIMEOUT_S)
    door.cut_everyone()
    door.join_next_pair()
    producer.begin_transaction()
    producer.produce("orders", b"aborted", partition=0)
    assert door.addition_came.wait(CALL_TIMEOUT_S)
    producer.abort_transaction(CALL_TIMEOUT_S)
    assert door.together.is_set(), "the EndTxn was not sent behind the addition"
    producer.begin_transaction()
    producer.produce("orders", b"last", partition=0)
    producer.commit_transaction(CALL_TIMEOUT_S)
    records = Confluent().read(server.bootstrap, "orders", until=b"last")
    assert values(records) == [b"first", b"last"]


def test_an_abort_left_behind_tears_no_later_transaction(server, door, producer):
    producer.begin_transaction()
    for topic in ("half", "other"):
        producer.produce(topic, b"aborted", partition=0)
    producer.flush(CALL_TIMEOUT_S)
    producer.abort_transaction(CALL_TIMEOUT_S)
    door.hold_next_pair()
    producer.begin_transaction()
    producer.produce("half", b"never sent", partition=0)
    assert door.addition_came.wait(CALL_TIMEOUT_S)
    producer.abort_transaction(CALL_TIMEOUT_S)
    assert door.together.is_set(), "the EndTxn was not sent behind the addition"

    producer.begin_transaction()
    door.release_next(CALL_TIMEOUT_S)
    producer.produce("half", b"wanted", partition=0)
    assert producer.flush(CALL_TIMEOUT_S) == 0
    assert error_code(door.release_next(CALL_TIMEOUT_S)) == CONCURRENT_TRANSACTIONS
    producer.produce("other", b"wanted", partition=0)
    producer.commit_transaction(CALL_TIMEOUT_S)
    for topic in ("other", "half"):
        records = Confluent().read(server.bootstrap, topic, until=b"wanted")
        assert values(records) == [b"wanted"], topic
