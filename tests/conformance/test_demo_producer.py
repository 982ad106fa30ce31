"""The demo's producer sends every row once, through kills of the server and of itself."""

import threading

import pytest

from oncelog_server.demo.producer import DemoProducer
from oncelog_server.demo.reader import CommittedReader
from oncelog_server.demo.scenario import PaymentsScenario

ROWS, TRANSACTION_ROWS = 3_000, 100


@pytest.fixture
def scenario(new_topic):
    scenario = PaymentsScenario(ROWS, 1)
    scenario.input_topic = new_topic(3)
    return scenario


def committed_rows(server, scenario):
    with CommittedReader(server.bootstrap) as reader:
        assert not any(reader.wait_until_decided([scenario.input_topic], 20).values())
        return sorted(
            scenario.row_number(record.value) for record in reader.read(scenario.input_topic)
        )


def demo_producer(server, scenario):
    return DemoProducer(server.bootstrap, scenario, scenario.input_topic, TRANSACTION_ROWS)


def test_every_row_is_sent_once(server, scenario):
    producer = demo_producer(server, scenario)
    producer.run(lambda row: False)
    assert committed_rows(server, scenario) == list(range(ROWS))
    assert producer.instances == 1


def test_a_successor_goes_on_and_the_dead_producer_is_fenced(server, scenario):
    crashes = iter([True])
    producer = demo_producer(server, scenario)
    producer.run(lambda row: row == 1_500 and next(crashes, False))
    assert committed_rows(server, scenario) == list(range(ROWS))
    assert producer.instances == 2
    assert producer.is_zombie_fenced is True


@pytest.mark.parametrize("does_producer_die", [False, True])
def test_a_server_killed_amid_a_transaction_costs_nothing(server, scenario, does_producer_die):
    killed = threading.Event()

    def halfway(row):
        if row < 1_000 or killed.is_set():
            return False
        killed.set()
        server.kill()
        server.start()
        return does_producer_die

    demo_producer(server, scenario).run(halfway)
    assert killed.is_set()
    assert committed_rows(server, scenario) == list(range(ROWS))
