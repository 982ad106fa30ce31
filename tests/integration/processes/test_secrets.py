"""A secured cluster at its most talkative shows none of its secrets: whatever it wrote is searched for them."""

import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.secure_clients import confluent_of, password_of
from tests.targets import cluster_folder

from oncelog.security.plain import hash_password
from oncelog_server.cli import run
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import GATEWAY, ClusterShape

WAIT_S = 60
SHAPE = ClusterShape(1, 1, 1, 1, 1, 1)
OF_SCRAM, OF_PLAIN, GUESSED = (f"{word}-{uuid.uuid4().hex}" for word in ("scram", "plain", "guess"))


@pytest.fixture(scope="module")
def users_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("users") / "users"
    path.write_text(f"paula:{hash_password(OF_PLAIN)}\nclara:{{PLAIN}}{OF_PLAIN}\n")
    return path


@pytest.fixture(scope="module")
def cluster(users_file):
    environment = {
        "ONCELOG_PROCESS_LOG_LEVEL": "debug",
        "ONCELOG_LISTENER_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-512",
        "ONCELOG_LISTENER_SASL_PLAIN_USERS_FILE": str(users_file),
    }
    with (
        cluster_folder() as folder,
        Cluster(folder, SHAPE, is_secure=True, environment=environment) as running,
    ):
        yield running


def secrets_of(cluster):
    """By what each is: passwords, and the middle of each private key."""
    found = {"admin": password_of(cluster), "scram": OF_SCRAM, "plain": OF_PLAIN, "guess": GUESSED}
    for key in (cluster.folder / "security").glob("*.key"):
        found[key.name] = key.read_text().splitlines()[2]
    return {name: secret.encode() for name, secret in found.items()}


def kept(cluster):
    """Every file but those whose whole purpose is a secret."""
    security = cluster.security
    secret = {
        *(cluster.folder / "security").glob("*.key"),
        security.client_properties,
        security.metrics_token,
    }
    return [one for one in cluster.folder.rglob("*") if one.is_file() and one not in secret]


def shown(cluster):
    """What others can see of it, by where they see it."""
    found = {str(one): one.read_bytes() for one in kept(cluster)}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            for name in ("cmdline", "environ"):
                found[f"{name} of {process.pid}"] = Path(f"/proc/{process.pid}/{name}").read_bytes()
    pages = [one.metrics_url for one in cluster.members]
    (gateway,) = cluster.of_role(GATEWAY)
    pages += [f"http://{gateway.address}/{page}" for page in ("metrics", "v1/cluster", "v1/topics")]
    for page in pages:
        with urlopen(scrape_of(cluster, page), timeout=WAIT_S) as answer:
            found[page] = answer.read()
    return found


def scrape_of(cluster, page):
    token = cluster.security.metrics_token.read_text().strip()
    return Request(page, headers={"Authorization": f"Bearer {token}"})


def oncelog(*arguments):
    """The command in a process of its own: what it says."""
    ended = subprocess.run(
        [sys.executable, "-m", "oncelog_server", *arguments],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    return ended.stdout + ended.stderr


def work(cluster, tmp_path):
    """Logins that succeed and fail, users that come and go, a crash, and what commands say of it all."""
    config = ("--config", str(cluster.security.client_properties))
    password = tmp_path / "password"
    password.write_text(OF_SCRAM)
    said = oncelog("users", "add", "sara", "--password-file", str(password), *config)
    assert b"sara can log in" in said, said
    logins = [
        {"sasl_username": "sara", "sasl_password": OF_SCRAM},
        {"sasl_mechanism": "PLAIN", "sasl_username": "paula", "sasl_password": OF_PLAIN},
        {"sasl_mechanism": "PLAIN", "sasl_username": "clara", "sasl_password": OF_PLAIN},
    ]
    for login in logins:
        AdminClient(confluent_of(cluster, **login)).list_topics(timeout=WAIT_S)
        wrong = confluent_of(cluster, **login | {"sasl_password": GUESSED})
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=1)
    producer = Producer(confluent_of(cluster, transactional_id="t"))
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(WAIT_S)
    given = cluster.security.client_properties.read_text()
    broken = tmp_path / "broken.properties"
    for text in (
        given.replace(password_of(cluster), GUESSED),
        given.replace("SCRAM-SHA-512", f"PLAIN-{GUESSED}"[:5]).replace(
            password_of(cluster), GUESSED
        ),
        given.replace("ScramLoginModule", "OtherLoginModule"),
        given.replace('";', '"'),
        given.replace("sasl.jaas.config", "sasl.jaas.confg"),
        given + f"sasl.password={GUESSED}\n",
    ):
        broken.write_text(text)
        said += oncelog("topics", "list", "--config", str(broken))
    said += oncelog("users", "list", *config) + oncelog("topics", "list", *config)
    cluster.kill("listener-1")
    assert run(["cluster", "restart", "listener-1", "--folder", str(cluster.folder)]) == 0
    said += oncelog("cluster", "status", "-o", "json", "--folder", str(cluster.folder))
    return said


def test_nothing_that_a_cluster_shows_holds_a_secret(cluster, tmp_path):
    said = work(cluster, tmp_path)
    places = shown(cluster) | {"what commands said": said}
    assert len(places) > 50
    found = [
        f"{name} in {place}"
        for place, content in places.items()
        for name, secret in secrets_of(cluster).items()
        if secret in content
    ]
    assert found == []
    assert b"refused" in said


def test_the_search_finds_a_secret_where_there_is_one(cluster):
    leak = cluster.folder / "logs" / "leak.log"
    leak.write_text(password_of(cluster))
    assert secrets_of(cluster)["admin"] in shown(cluster)[str(leak)]
    leak.unlink()
