"""`oncelog users` and `oncelog acls` against a running `oncelog up` with a login and an authorizer."""

import contextlib
import json
import os
import pty
import subprocess

import pytest
from confluent_kafka import Producer
from tests.free_ports import free_block
from tests.integration.cli.commands import ONCELOG, calling

from oncelog.security.plain import parse_users
from oncelog_server.demo.processes import OncelogServer


@pytest.fixture(scope="module")
def ports():
    return free_block(2)


@pytest.fixture(scope="module")
def server(tmp_path_factory, ports):
    inside, outside = ports
    environment = {
        "ONCELOG_LISTENER_LISTENERS": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP": "OUTSIDE:SASL_PLAINTEXT",
        "ONCELOG_LISTENER_AUTHORIZER": "acl",
        "ONCELOG_LISTENER_SUPER_USERS": "User:ANONYMOUS",
    }
    data = tmp_path_factory.mktemp("server") / "data"
    with OncelogServer(data, port=inside, environment=environment) as running:
        yield running


@contextlib.contextmanager
def caller(bootstrap):
    """Of what it says, the words."""
    with calling(bootstrap) as oncelog:

        def call(*arguments, stdin="", code=0):
            said = oncelog(*arguments, stdin=stdin, code=code)
            return said if code == 0 else " ".join(said.replace("│", " ").split())

        yield call


@pytest.fixture(scope="module")
def oncelog(server):
    with caller(server.bootstrap) as call:
        yield call


@pytest.fixture(scope="module")
def produced(ports):
    def produced(user, password, topic="orders", mechanism="SCRAM-SHA-512"):
        errors = []
        config = {
            "bootstrap.servers": f"127.0.0.1:{ports[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": 4_000,
            "log_level": 0,
        }
        producer = Producer(config)
        producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
        producer.flush(10)
        return errors[0] and errors[0].name()

    return produced


def fits(text):
    return max(map(len, text.splitlines())) <= 80


def listed(oncelog, *arguments):
    return json.loads(oncelog(*arguments, "-o", "json"))


def test_a_user_lives_through_every_command(oncelog, produced, tmp_path):
    assert "No users of SCRAM yet" in oncelog("users", "list")
    oncelog("topics", "create", "orders")
    oncelog("acls", "add", "--principal", "User:alice", "--topic", "orders")
    file = tmp_path / "password"
    file.write_text("open sesame\nsecond line\n")
    said = oncelog("users", "add", "alice", "--password-file", str(file))
    assert said == "user alice can log in with SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert listed(oncelog, "users", "list") == [
        {"user": "alice", "mechanism": one, "iterations": 4096}
        for one in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    shown = oncelog("users", "list")
    assert "SCRAM-SHA-512" in shown
    assert fits(shown)
    assert produced("alice", "open sesame") is None
    assert produced("alice", "open sesame", mechanism="SCRAM-SHA-256") is None

    only = ("--mechanism", "scram-sha-512", "--iterations", "8192")
    oncelog("users", "add", "alice", *only, "--password-file", "-", stdin="changed\n")
    assert produced("alice", "changed") is None
    assert produced("alice", "open sesame") is not None

    assert "Nothing was changed." in oncelog("users", "delete", "alice", code=1)
    oncelog("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    again = ("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    assert "has no credential of SCRAM-SHA-256; `oncelog users list`" in oncelog(*again, code=1)
    said = oncelog("users", "delete", "alice", "--yes")
    assert said == "user alice can log in no more with SCRAM-SHA-512\n"
    refused = oncelog("users", "delete", "alice", "--yes", code=1)
    assert "user 'alice' has no SCRAM credential" in refused
    assert "`oncelog users list` shows all" in refused


def test_a_password_is_asked_without_echo(server, oncelog):
    parent, child = pty.openpty()
    command = [*ONCELOG, "users", "add", "typed", "--bootstrap", server.bootstrap]
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, close_fds=True) as done:
        os.close(child)
        shown = b""
        for prompt in (b"Password of typed: ", b"Repeat for confirmation: "):
            while not shown.endswith(prompt):
                shown += os.read(parent, 1024)
            os.write(parent, b"secret\n")
        while b"can log in with SCRAM-SHA-256 and SCRAM-SHA-512\r\n" not in shown:
            shown += os.read(parent, 1024)
        assert done.wait(20) == 0
    os.close(parent)
    assert b"secret" not in shown
    assert {one["user"] for one in listed(oncelog, "users", "list")} >= {"typed"}
    oncelog("users", "delete", "typed", "--yes")


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ((), "secret\n", "nobody is there to type a password; give --password-file FILE"),
        (("--password-file", "-"), "", "the password of bob is empty"),
        (("--password-file", "/none"), "", "cannot read the password in /none: No such file"),
    ],
)
@pytest.mark.parametrize("command", ["add", "plain"])
def test_a_password_that_is_none_is_told(oncelog, command, arguments, stdin, said):
    assert said in oncelog("users", command, "bob", *arguments, stdin=stdin, code=1)


def test_a_plain_user_is_a_line_of_a_file(oncelog):
    line = oncelog("users", "plain", "bob", "--password-file", "-", stdin="pass:word\n")
    users = parse_users(line, "users.txt")
    assert list(users) == ["bob"]
    assert users["bob"].matches("pass:word")
    assert "pass:word" not in line
    for name in ("a:b", "#a", "a\nb"):
        refused = oncelog("users", "plain", name, "--password-file", "-", stdin="x", code=1)
        assert "cannot stand in the file" in refused


def test_acls_are_added_listed_and_deleted(oncelog):
    who = ("--principal", "User:carol")
    on = ("--topic", "pay", "--operation", "read", "--operation", "DESCRIBE_CONFIGS")
    assert "No ACL matches" in oncelog("acls", "list", *who)
    shown = oncelog("acls", "add", *who, *on)
    assert shown.count("User:carol") == 2
    assert fits(shown)
    oncelog("acls", "add", *who, *on)  # again: there is still one of each
    oncelog("acls", "add", *who, "--topic", "pa", "--prefix", "--operation", "Write")
    oncelog(
        "acls", "add", *who, "--group", "g", "--transactional-id", "t", "--operation", "Describe"
    )
    two_phase = ("--transactional-id", "t", "--operation", "TWO_PHASE_COMMIT")
    oncelog("acls", "add", *who, *two_phase)
    oncelog("acls", "add", *who, "--cluster", "--operation", "IdempotentWrite")
    oncelog("acls", "add", *who, "--topic", "pay", "--deny", "--host", "10.0.0.0/8")
    found = listed(oncelog, "acls", "list", *who)
    assert {tuple(one.values())[1:] for one in found} == {
        ("ALLOW", "READ", "TOPIC", "pay", "LITERAL", "*"),
        ("ALLOW", "DESCRIBE_CONFIGS", "TOPIC", "pay", "LITERAL", "*"),
        ("ALLOW", "WRITE", "TOPIC", "pa", "PREFIXED", "*"),
        ("ALLOW", "DESCRIBE", "GROUP", "g", "LITERAL", "*"),
        ("ALLOW", "DESCRIBE", "TRANSACTIONAL_ID", "t", "LITERAL", "*"),
        ("ALLOW", "TWO_PHASE_COMMIT", "TRANSACTIONAL_ID", "t", "LITERAL", "*"),
        ("ALLOW", "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster", "LITERAL", "*"),
        ("DENY", "ALL", "TOPIC", "pay", "LITERAL", "10.0.0.0/8"),
    }
    assert len(found) == 8

    def count(*filters):
        return len(listed(oncelog, "acls", "list", *who, *filters))

    assert count("--topic", "pay") == 4  # the prefix counts for it too
    assert count("--topic", "pa", "--prefix") == 1
    assert count("--deny") == count("--host", "10.0.0.0/8") == count("--cluster") == 1
    assert count("--operation", "describe") == 2
    assert count("--topic", "other") == 0

    assert count("--operation", "TwoPhaseCommit") == 1
    assert oncelog("acls", "delete", *who, *two_phase, "--yes") == "1 ACL deleted\n"

    remove = ("acls", "delete", *who, "--topic", "pay")
    assert "Nothing was changed." in oncelog(*remove, code=1)
    assert oncelog(*remove, "--yes") == "2 ACLs deleted\n"
    assert "no ACL matches" in oncelog(*remove, "--yes", code=1)
    assert oncelog(*remove, "--deny", "--yes") == "1 ACL deleted\n"
    assert oncelog("acls", "delete", *who, "--yes") == "4 ACLs deleted\n"
    assert count() == 0


def test_acls_decide_what_a_user_may_do(oncelog, produced):
    oncelog("users", "add", "dave", "--password-file", "-", stdin="secret")
    oncelog("topics", "create", "dave-1")
    assert produced("dave", "secret", "dave-1") == "TOPIC_AUTHORIZATION_FAILED"
    write = ("--principal", "User:dave", "--topic", "dave-", "--prefix")
    oncelog("acls", "add", *write, "--operation", "Write")
    assert produced("dave", "secret", "dave-1") is None
    oncelog("acls", "delete", *write, "--yes")
    assert produced("dave", "secret", "dave-1") == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "--topic", "t"), "give --principal User:NAME"),
        (("add", "--principal", "User:a"), "give --topic, --group, --transactional-id or"),
        (
            ("add", "--principal", "alice", "--topic", "t"),
            "'alice' is no TYPE:NAME; write User:alice",
        ),
        (("list", "--operation", "Reed"), "'Reed' is not one of All, Read, Write"),
        (("list", "--topic", ""), "an empty name is none"),
        (
            ("add", "--principal", "User:a", "--group", "g", "--operation", "Write"),
            "Write is no operation on GROUP; there are All, Read, Describe, Delete",
        ),
        (("delete",), "say whose or on what: --principal"),
        (("delete", "--operation", "Read"), "say whose or on what: --principal"),
    ],
)
def test_a_wrong_use_names_the_way_out(oncelog, arguments, said):
    refused = oncelog("acls", *arguments, code=2)
    assert said in refused


@pytest.fixture
def as_nobody(oncelog, ports, tmp_path):
    """A call by a user whom no ACL allows anything."""
    oncelog("users", "add", "nobody", "--password-file", "-", stdin="secret")
    file = tmp_path / "nobody.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.username=nobody\nsasl.password=secret\n"
    )
    with caller(f"127.0.0.1:{ports[1]}") as call:
        yield lambda *words: call(*words, "--config", str(file), code=1)


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        (("users", "list"), "where you are a super user"),
        (("users", "delete", "nobody", "--yes"), "where you are a super user"),
        (("acls", "list"), "where you are a super user"),
        (("topics", "describe", "orders"), "oncelog acls add"),
        (("topics", "delete", "orders", "--yes"), "oncelog acls add"),
        (("groups", "reset-offsets", "g", "--topic", "orders", "--to", "end"), "oncelog acls add"),
    ],
)
def test_what_is_not_allowed_names_who_allows_it(as_nobody, command, way_out):
    refused = as_nobody(*command)
    assert "AUTHORIZATION_FAILED" in refused
    assert way_out in refused


def test_a_listener_that_wants_a_login_is_told_at_once(ports):
    with caller(f"127.0.0.1:{ports[1]}") as nobody:
        refused = nobody("topics", "list", code=1)
    assert "hangs up on a client without a login; --config client.properties" in refused


def test_a_network_that_is_none_is_told(oncelog):
    add = ("acls", "add", "--principal", "User:a", "--topic", "t", "--host", "10.0.0.0/99")
    refused = oncelog(*add, code=1)
    assert "not added: ALLOW User:a ALL from 10.0.0.0/99 on LITERAL TOPIC:t" in refused
    assert "is no network" in refused


def test_without_an_authorizer_the_setting_is_named(tmp_path):
    with OncelogServer(tmp_path / "data") as running, caller(running.bootstrap) as oncelog:
        on = ("--principal", "User:a", "--topic", "t")
        refused = [oncelog("acls", one, *on, code=1) for one in ("add", "delete", "list")]
    for text in refused:
        assert "ONCELOG_LISTENER_AUTHORIZER=acl" in text
        assert "SECURITY_DISABLED" in text
