"""What the tests of pages have in common: a transaction that stays open."""

import confluent_kafka

PATIENCE_S = 30
NAME = "slow/one"


def begin(server, name=NAME, client_id="app-1", topic="orders"):
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": name,
            "client.id": client_id,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return producer
