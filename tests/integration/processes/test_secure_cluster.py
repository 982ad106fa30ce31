"""`oncelog cluster up --secure`: mTLS on every edge, clients that log in, and nothing for the others."""

import html
import json
import shlex
import socket
import ssl
import stat
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.integration.processes.deadlines import eventually
from tests.integration.processes.payments import Payments
from tests.secure_clients import confluent_of, password_of
from tests.targets import cluster_folder

from oncelog.client.core.addresses import parse_addresses
from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, ClusterShape
from oncelog_server.cluster.probe import is_serving
from oncelog_server.cluster.view import describe_controller, read_image

WAIT_S = 60
SHAPE = ClusterShape(storage=2, coordinators=2, marker_senders=1, listeners=1)


@pytest.fixture(scope="module")
def cluster():
    with cluster_folder() as folder, Cluster(folder, SHAPE, is_secure=True) as running:
        yield running


def refusals(cluster):
    """Lines of logs in which a process was refused by another: there must be none."""
    logs = (cluster.folder / "logs").glob("*.log")
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if "PERMISSION_DENIED" in line or "may not be called" in line]


def test_a_transaction_goes_through_every_process(cluster):
    payments = Payments(confluent_of(cluster))
    payments.commit()
    payments.check()
    listed = Rest(cluster.gateway).get("/v1/transactions")["transactions"]
    assert payments.transactional_id in [one["transactional_id"] for one in listed]
    assert refusals(cluster) == []


def test_every_process_wants_a_token_for_its_metrics(cluster):
    token = cluster.security.metrics_token.read_text().strip()
    assert stat.S_IMODE(cluster.security.metrics_token.stat().st_mode) == 0o600
    for member in cluster.members:
        with pytest.raises(HTTPError, match="401"):
            urlopen(member.metrics_url, timeout=WAIT_S)
        request = Request(member.metrics_url, headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=WAIT_S) as answer:
            assert b"oncelog_process{" in answer.read(), member


def test_the_console_names_the_command_that_opens_records(cluster, capsys):
    """Nobody logs in at its gateway, and its listeners check ACLs."""
    payments = Payments(confluent_of(cluster))
    payments.commit()
    topic = payments.topic
    page = f"{cluster.gateway}/records?topic={topic}"
    with pytest.raises(HTTPError, match="403") as closed:
        urlopen(page, timeout=WAIT_S)
    shown = html.unescape(closed.value.read().decode())
    command = shown.partition('<pre class="wrap">oncelog ')[2].partition("</pre>")[0]
    assert f"--topic {topic}" in command, shown
    assert run(shlex.split(command)) == 0, capsys.readouterr()

    def is_open():
        try:
            return b"Records of" in urlopen(page, timeout=WAIT_S).read()
        except HTTPError:
            return False

    eventually(is_open)


def test_who_does_not_log_in_gets_nothing(cluster):
    for wrong in (
        {"sasl_password": "guessed"},
        {"security_protocol": "PLAINTEXT"},
        {"security_protocol": "SSL"},
        {"ssl_ca_location": "probe"},
    ):
        client = AdminClient(confluent_of(cluster, **wrong))
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1)


def test_without_a_certificate_no_process_answers(cluster):
    for member in cluster.members:
        assert not is_serving(member.rpc_address), member.name
        assert is_serving(member.rpc_address, cluster.tls), member.name
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    assert all(describe_controller(one) is None for one in addresses)
    assert read_image(addresses) is None
    assert read_image(addresses, cluster.tls) is not None


def test_processes_speak_tls_1_3_alone(cluster):
    certificate = cluster.security.tls()
    for version, is_taken in ((ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)):
        context = ssl.create_default_context(cafile=certificate.ca)
        context.check_hostname = False
        context.load_cert_chain(certificate.certificate, certificate.key)
        context.set_alpn_protocols(["h2"])
        context.minimum_version = context.maximum_version = version
        for member in cluster.members:
            assert takes(member, context) is is_taken, (member.name, version)


def takes(member, context):
    address = parse_addresses(member.rpc_address)[0]
    with socket.create_connection((address.host, address.port), WAIT_S) as stream:
        try:
            with context.wrap_socket(stream):
                return True
        except ssl.SSLError:
            return False


def test_commands_see_it_as_they_see_a_plain_one(cluster, capsys):
    folder = ("--folder", str(cluster.folder))
    assert run(["cluster", "kill", "coordinator-1", *folder]) == 0
    assert run(["cluster", "restart", "coordinator-1", *folder]) == 0
    capsys.readouterr()

    def all_are_ready():
        assert run(["cluster", "status", "-o", "json", *folder]) == 0
        rows = json.loads(capsys.readouterr().out)
        return {row["state"] for row in rows} == {"ready"}

    eventually(all_are_ready)
    Payments(confluent_of(cluster)).commit()


def test_keys_and_the_password_are_its_users_alone(cluster):
    security = cluster.folder / "security"
    private = [*security.iterdir(), cluster.security.client_properties]
    assert {stat.S_IMODE(one.stat().st_mode) for one in private} == {0o600}
    assert stat.S_IMODE(security.stat().st_mode) == 0o700


def test_another_start_keeps_it_secured(cluster):
    payments = Payments(confluent_of(cluster))
    payments.commit()
    password = password_of(cluster)
    cluster.stop()
    again = Cluster(cluster.folder)
    again.start()
    cluster.reload()
    assert password_of(again) == password
    payments.check()
    with pytest.raises(KafkaException):
        AdminClient(confluent_of(again, security_protocol="PLAINTEXT")).list_topics(timeout=1)
