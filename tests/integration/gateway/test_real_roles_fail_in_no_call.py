"""No input that a machine thinks up makes a real log answer with a server error.

The roles of `test_gateway_conforms` are dictionaries. Here they are real, and hold an open transaction and a member.
"""

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelog_server.demo.processes import OncelogServer

EXAMPLES_MAX = 15
PROGRAM = "from schemathesis.cli import schemathesis; schemathesis()"


def _fill(bootstrap):
    """Returns who must live on: the producer of an open transaction, and a member of a group."""
    config = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(config)
    for future in admin.create_topics([NewTopic("orders", 2)]).values():
        future.result(20)
    producer = Producer({**config, "transactional.id": "payments"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    producer.flush(20)
    consumer = Consumer({**config, "group.id": "billing"})
    consumer.subscribe(["orders"])
    consumer.poll(3)
    return producer, consumer


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_no_call_ends_in_a_server_error(tmp_path, seed):
    with OncelogServer(tmp_path / "data") as server:
        _, consumer = _fill(server.bootstrap)
        command = [sys.executable, "-c", PROGRAM, "run", f"{server.gateway}/openapi.json"]
        command += ["--checks", "not_a_server_error", "--max-examples", str(EXAMPLES_MAX)]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        consumer.close()
        assert done.returncode == 0, done.stdout[-6000:]
        assert "Traceback" not in server.log.read_text()
