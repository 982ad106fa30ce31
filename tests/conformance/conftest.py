"""Fixtures: a running oncelog (`tests/targets.py` says which kind) and four real clients against it."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka.admin
import pytest
from confluent_kafka.cimpl import NewTopic
from tests.certificates import Authority
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.java import Java, JavaProcess
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.group_members import COUNT, Member, fill
from tests.conformance.java_programs import compiled
from tests.conformance.logins import log_in
from tests.targets import TargetKind, is_login_asked, login_file, open_target, target_kind

if is_login_asked():
    log_in()

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "java")


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory):
    """One cluster for every module of a worker: its start takes as long as a module's tests."""
    with open_target(tmp_path_factory.mktemp("oncelog")) as running:
        yield running


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    """A running oncelog, shared by the module and set as its ENVIRONMENT says. A test that kills it starts it again."""
    environment = getattr(request.module, "ENVIRONMENT", {})
    if not environment and target_kind() is not TargetKind.EMBEDDED:
        yield request.getfixturevalue("shared_cluster")
        return
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        with open_target(tmp_path_factory.mktemp("oncelog")) as running:
            yield running


@pytest.fixture(scope="session")
def java_classpath():
    if is_login_asked():
        login_file()  # Named before a process begins that reads it.
    with compiled() as classpath:
        yield classpath


@pytest.fixture(scope="session")
def java(java_classpath):
    process = JavaProcess(java_classpath, "TransactionDriver")
    yield Java(process)
    process.close()


@pytest.fixture(scope="module")
def driver(java_classpath):
    """Kafka's Admin client and command-line tools."""
    process = JavaProcess(java_classpath, "AdminDriver")
    yield process
    process.close()


@pytest.fixture(params=CLIENTS)
def client(request):
    """Each real client in turn."""
    if request.param == "java":
        return request.getfixturevalue("java")
    return {"confluent-kafka": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}[
        request.param
    ]()


@pytest.fixture
def admin(server):
    return confluent_kafka.admin.AdminClient(
        {"bootstrap.servers": server.bootstrap, "log_level": 0}
    )


@pytest.fixture
def new_topic(admin):
    """Make a fresh topic; returns its name."""

    def make(partitions=1, **config):
        name = f"t-{uuid.uuid4().hex[:12]}"
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, config=config)]).values():
            future.result(20)
        return name

    return make


@pytest.fixture
def topic(request, new_topic):
    return new_topic(getattr(request.module, "PARTITIONS", 1))


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture(name="fill")
def filling(request, server, topic):
    """Write numbers to the topic."""

    def write(first=0, count=COUNT):
        fill(server, topic, request.module.PARTITIONS, first, count)

    return write


@pytest.fixture
def join(server, group, topic):
    """Open members of the group; they are closed at the end of the test, all at once."""
    opened = []

    def make(client, **options):
        opened.append(Member(client, server.bootstrap, group, topic, **options))
        return opened[-1]

    yield make
    with ThreadPoolExecutor(max(1, len(opened))) as pool:
        list(pool.map(Member.close, opened))


@pytest.fixture
def transactional_id():
    return f"tx-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_producer(request, server):
    """Open producers that are closed at the end of the test."""
    opened = []

    def make(client, transactional_id=None, *, bootstrap=None, **options):
        producer = client.producer(bootstrap or server.bootstrap, transactional_id, **options)
        opened.append(producer)
        if transactional_id is not None:
            producer.init()
        return producer

    yield make
    for producer in opened:
        producer.close()


@pytest.fixture
def producer(client, transactional_id, make_producer):
    """A transactional one of the client."""
    return make_producer(client, transactional_id)


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))
