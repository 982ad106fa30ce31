"""OAUTHBEARER of our own clients: a token from a real provider over HTTP, or from a file."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from tests.integration.listener.test_listener_logins import against_secured
from tests.integration.listener.test_listener_tokens import KEY, settings_of, token_of
from tests.token_provider import token_provider

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.login import login_of
from oncelog.errors import OncelogError
from oncelog_server.cli import run

SECRET = "hidden: 100% +/="
TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def of_provider(endpoint, secret=SECRET):
    return TOKEN | {
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "kafka",
    }


def topics_seen(secured, properties):
    settings = ClientSettings(login=login_of(properties), call_timeout_ms=10_000)
    with Cluster(parse_addresses(secured.outside), settings) as cluster:
        return cluster.partition_counts(["orders"])


def prepare(secured):
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ):
        secured.allow("alice", ResourceType.TOPIC, "orders", operation)
    secured.allow("alice", ResourceType.GROUP, "*", AclOperation.READ)
    with Cluster(parse_addresses(secured.inside)) as inside:
        inside.create_topic("orders", 1)


def test_a_token_comes_from_its_provider_or_from_a_file(tmp_path):
    file = tmp_path / "token"
    data = tmp_path / "data"
    data.mkdir()

    def client(secured):
        prepare(secured)
        with token_provider(KEY, "first", {"alice": SECRET}) as (endpoint, calls):
            assert topics_seen(secured, of_provider(endpoint)) == {"orders": 1}
            form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
            assert calls == [("alice", form)]
            with pytest.raises(OncelogError, match="answered 401") as refused:
                topics_seen(secured, of_provider(endpoint, secret="guessed"))
            assert "guessed" not in str(refused.value)
        with pytest.raises(OncelogError, match="no token from"):
            topics_seen(secured, of_provider(endpoint))
        in_file = TOKEN | {"sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
        with pytest.raises(OncelogError, match="cannot read the token"):
            topics_seen(secured, in_file)
        file.write_text(token_of())
        assert topics_seen(secured, in_file) == {"orders": 1}
        file.write_text(token_of(aud="other"))
        with pytest.raises(OncelogError, match="refused the login of this token"):
            topics_seen(secured, in_file)

    against_secured(data, client, **settings_of(tmp_path))


def test_commands_and_librdkafka_log_in_with_a_token(tmp_path, capsys):
    data, config = tmp_path / "data", tmp_path / "client.properties"
    data.mkdir()

    def client(secured):
        prepare(secured)
        with token_provider(KEY, "first", {"alice": SECRET}) as (endpoint, _):
            lines = [f"{name}={value}" for name, value in of_provider(endpoint).items()]
            config.write_text("\n".join(lines))
            there = ["--config", str(config), "--bootstrap", secured.outside]
            assert run(["topics", "list", *there]) == 0
            assert "orders" in capsys.readouterr().out
            assert run(["consume", "orders", *there]) == 0
        assert run(["topics", "list", *there]) == 1
        assert "no token from" in capsys.readouterr().err

    against_secured(data, client, **settings_of(tmp_path))
