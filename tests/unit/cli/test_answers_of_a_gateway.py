"""What commands make of a gateway's answers that are hard to bring about: a transaction that hangs or holds many."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from oncelog_server.cli import run


@pytest.fixture
def gateway():
    """Answers each path, whatever its query, with what the test puts there."""
    answers = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(answers[self.path.partition("?")[0]]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Not into the test's output."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield answers, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def hanging(offset, idle_ms):
    return {
        "topic": "orders",
        "partition": 0,
        "start_offset": offset,
        "producer_id": 5,
        "producer_epoch": 1,
        "idle_ms": idle_ms,
        "transactional_id": None,
        "abort": f"abort {offset}",
    }


def test_a_hanging_transaction_that_is_left_out_is_told_of(gateway, capsys):
    answers, url = gateway
    answers["/v1/hanging-transactions"] = {
        "hanging": [hanging(7, 500)],
        "open_transactions": 1,
        "checked_partitions": 4,
        "incomplete": [],
    }
    command = ["transactions", "find-hanging", "--gateway", url]
    assert run([*command, "--min-idle-ms", "60000"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "none without a coordinator" not in said
    assert "1 hanging transaction with a record in the last" in said
    assert "is not shown" in said
    assert run([*command, "--min-idle-ms", "60000", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["hanging"], found["hidden_by_min_idle_ms"]) == ([], 1)
    assert run([*command, "--min-idle-ms", "500"]) == 0
    assert "abort 7" in capsys.readouterr().out


def test_advice_is_given_once_for_a_transaction(gateway, capsys):
    answers, url = gateway
    advice = "its producer will end it: oncelog transactions terminate pay"
    answers["/v1/topics/orders/partitions"] = {
        "partitions": [
            {
                "topic": "orders",
                "partition": one,
                "leader": 1,
                "replicas": [1],
                "isr": [1],
                "last_stable_offset": 0,
                "high_watermark": 1,
                "lso_lag": 1,
                "failure": None,
                "lso_holder": {
                    "transactional_id": "pay",
                    "producer_id": 5,
                    "hanging": False,
                    "coordinator_state": "Ongoing",
                    "idle_ms": 1,
                    "age_ms": 1,
                    "advice": advice,
                },
            }
            for one in range(12)
        ]
    }
    assert run(["partitions", "orders", "--gateway", url]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count(advice) == 1
    assert "orders-0, orders-1, orders-2, orders-3, orders-4 and 7 more: its producer" in said
