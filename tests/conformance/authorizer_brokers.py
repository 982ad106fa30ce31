"""Two brokers with the same users, ACLs, topics, groups and transactions, and a connection of each user to each."""

import time
from contextlib import contextmanager
from datetime import timedelta

from tests.conformance.authorizer_requests import COMMON, learnt
from tests.conformance.authorizer_users import (
    FOR_EVERYBODY,
    OPEN,
    OPEN_DELETED,
    SECRET,
    SECRET_DELETED,
    USERS,
)
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.integration.listener.requests_by_vocabulary import request_of

from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.login import ClientLogin
from oncelog.errors import KafkaError
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS
from oncelog_server.demo.processes import OncelogServer

PASSWORD = "of-everybody"
CALL_TIMEOUT_MS = 20_000
READY_TIMEOUT_S = 60
NOT_YET = {3, 5, 14, 15, 16, 51}
"""Topics and coordinators that are on their way."""


class Broker:
    """A broker as its administrator and its users see it."""

    def __init__(self, bootstrap):
        (self._address,) = parse_addresses(bootstrap)
        self._connections = {}
        self.ids = {}

    def close(self):
        for one in self._connections.values():
            one.close()

    def call(self, user, api_key, version, request):
        schema = schema_of(api_key, version)
        if user not in self._connections:
            login = ClientLogin("SASL_PLAINTEXT", "PLAIN", user, PASSWORD)
            deadline = Deadline(CALL_TIMEOUT_MS)
            connected = Connection.connect(self._address, "judged", deadline, login)
            self._connections[user] = connected
        try:
            return self._connections[user].call(schema, request, Deadline(CALL_TIMEOUT_MS))
        except KafkaError:
            self._connections.pop(user)
            raise

    def told(self, user, ask, version, number):
        """What the user learns by the request with this number. A broken connection is an answer, too."""
        request = ask.requests(version, self.ids)[number]
        try:
            answer = self.call(user, ask.api_key, version, request)
        except KafkaError as error:
            return {"broken": error.error_code.name}
        return learnt(answer, {one: name for name, one in self.ids.items()})

    def admin(self, api_key, version, **words):
        """Until it is done. The last answer."""
        request = request_of(APIS[api_key], version, COMMON | {"validate_only": False} | words)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            answer = self.call("admin", api_key, version, request)
            codes = set(codes_in(learnt(answer, {})))
            if not codes & NOT_YET:
                assert codes <= {0, 36}, answer
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)

    def create_topic(self, name):
        (made,) = self.admin(versions.CREATE_TOPICS, 7, name=name).topics
        if not int(made.error_code):
            self.ids[name] = made.topic_id

    def restore(self, codes):
        """The topics that this request deleted."""
        if 0 in codes_in(codes):
            for name in (OPEN_DELETED, SECRET_DELETED):
                self.create_topic(name)

    def create_acls(self, acls):
        types = schema_of(versions.CREATE_ACLS, 3).request_types
        made = tuple(
            types.AclCreation(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                resource_pattern_type=one.pattern_type,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in acls
        )
        for at in range(0, len(made), 1000):
            request = types.CreateAclsRequest(creations=made[at : at + 1000])
            answer = self.call("admin", versions.CREATE_ACLS, 3, request)
            assert not any(int(one.error_code) for one in answer.results), answer

    def prepare(self):
        for name in (OPEN, SECRET, OPEN_DELETED, SECRET_DELETED):
            self.create_topic(name)
        for name in (OPEN, SECRET):
            for topic in (OPEN, SECRET):
                words = {"generation_id_or_member_epoch": -1, "member_id": "", "name": topic}
                self.admin(versions.FIND_COORDINATOR, 4, coordinator_keys=(name,), key_type=0)
                self.admin(versions.OFFSET_COMMIT, 8, group_id=name, **words)
            self._begin(name)
        self.create_acls((*FOR_EVERYBODY, *(acl for user in USERS for acl in user.acls)))
        time.sleep(2)  # Both tell that an ACL stands before each of their parts knows it.

    def _begin(self, transactional_id):
        """An open transaction over an open and a secret topic."""
        self.admin(versions.FIND_COORDINATOR, 4, coordinator_keys=(transactional_id,), key_type=1)
        words = {"transactional_id": transactional_id, "transaction_timeout": timedelta(minutes=14)}
        made = self.admin(versions.INIT_PRODUCER_ID, 4, **words)
        for topic in (OPEN, SECRET):
            self.admin(
                versions.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                name=topic,
            )


def codes_in(message):
    if isinstance(message, list):
        for one in message:
            yield from codes_in(one)
    elif isinstance(message, dict):
        for name, value in message.items():
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes_in(value)


@contextmanager
def both_brokers(folder):
    """(Apache Kafka, oncelog), prepared alike."""
    names = ["admin", *(user.name for user in USERS)]
    users = folder / "users"
    users.write_text("".join(f"{one}:{{PLAIN}}{PASSWORD}\n" for one in names))
    users.chmod(0o600)
    port, broker, controller = free_block(3)
    environment = {
        "ONCELOG_LISTENER_LISTENERS": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "ONCELOG_LISTENER_SASL_ENABLED_MECHANISMS": "PLAIN",
        "ONCELOG_LISTENER_SASL_PLAIN_USERS_FILE": str(users),
        "ONCELOG_LISTENER_AUTHORIZER": "acl",
        "ONCELOG_LISTENER_SUPER_USERS": "User:admin",
        "ONCELOG_LISTENER_AUTO_CREATE_TOPICS": "false",
    }
    kafka = KafkaBroker(folder / "kafka", names, PASSWORD, broker=broker, controller=controller)
    with kafka, OncelogServer(folder / "oncelog", environment=environment):
        brokers = Broker(kafka.bootstrap), Broker(f"127.0.0.1:{port}")
        for one in brokers:
            one.prepare()
        yield brokers
        for one in brokers:
            one.close()
