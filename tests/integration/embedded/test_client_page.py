"""Each example of docs/client.md runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.certificates import Authority
from tests.integration.listener.secured_log import secured_log, tls

import oncelog
from oncelog.client.blocking import Admin

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TOPICS = re.findall(
    r"^oncelog topics create (\w+)(?: --partitions (\d+))?$", PAGE.read_text(), re.M
)
WAIT_S = 100


def test_the_page_has_examples():
    assert len(EXAMPLES) == 13
    assert len(TOPICS) == 2


@pytest.fixture(scope="module")
def log():
    """It allows everything that the page shows."""
    allowed = {"ONCELOG_COORDINATOR_TWO_PHASE_COMMIT_ENABLED": "true"}
    with oncelog.running(environment=allowed) as log:
        with Admin(log.bootstrap_servers) as admin:
            admin.update_features({"two.phase.commit.version": 1})
        yield log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a `client.properties` for a log that wants TLS and a login."""
    found = tmp_path_factory.mktemp("page")
    authority = Authority(found / "authority")
    with secured_log(found, **tls(authority, "SASL_SSL")) as secured:
        secured.add_user("alice")
        login = secured.login("alice") | {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.pem),
        }
        lines = ["# of alice", *(f"{name}={value}" for name, value in login.items())]
        (found / "client.properties").write_text("\n".join(lines))
        yield found


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(log, folder, number):
    bootstrap = log.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, int(count or 1), 1) for name, count in TOPICS])
    for one in created.values():
        if (error := one.exception(WAIT_S)) is not None:
            assert "ALREADY_EXISTS" in str(error)
    program = EXAMPLES[number].replace("localhost:9092", bootstrap)
    program = program.replace("start_http_server(9100", "start_http_server(0")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_importing_the_client_loads_no_server():
    program = (
        "import sys, oncelog.client\n"
        "from oncelog.client import Admin, Consumer, Producer, blocking\n"
        "from oncelog.client.blocking import Admin, Consumer, Producer\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('oncelog_', 'grpc', 'fastapi', 'sqlalchemy', "
        "'pyarrow', 'numpy', 'pyspark', 'aiokafka', 'confluent_kafka', 'opentelemetry', "
        "'prometheus_client', 'uvloop', 'oncelog.rpc'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert done.stdout.split() == []
