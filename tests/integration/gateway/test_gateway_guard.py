"""What a web page of another site, or somebody who only says who he is, can do here: nothing."""

import asyncio
import http.client

import pytest
from pydantic import ValidationError
from tests.integration.gateway.gateway_cluster import gateway_cluster

from oncelog_gateway.settings import GatewaySettings

PATHS = (
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/v1/topics"),
    ("GET", "/v1/transactions/pay"),
    ("GET", "/nowhere"),
    ("OPTIONS", "/v1/topics"),
    ("DELETE", "/v1/topics/orders"),
    ("POST", "/v1/transactions/pay/terminate"),
)


def _ask(port, method, path, host, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    connection.putrequest(method, path, skip_host=True)
    for name, value in (*([("Host", host)] if host is not None else []), *headers):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body.decode()


async def test_a_page_under_a_rebound_name_reads_and_changes_nothing(cluster):
    await cluster.create_topic("orders")
    cluster.coordinator.put("pay", producer_id=1, partitions=[("orders", 0)])
    evil = f"evil.test:{cluster.port}"
    for method, path in PATHS:
        origin = ("Origin", f"http://{evil}")
        status, body = await asyncio.to_thread(
            _ask, cluster.port, method, path, evil, [origin, ("Content-Length", "0")]
        )
        assert status == 421, (method, path)
        assert "evil.test" in body
        assert "ONCELOG_GATEWAY_ALLOWED_HOSTS" in body
        assert "orders" not in body
    assert cluster.coordinator.transactions["pay"].state == "Ongoing"
    assert "orders" in cluster.metadata.image.topics


@pytest.mark.parametrize(
    "host", ["localhost:9", "127.0.0.1", "[::1]:8080", "Console.Example.org", "127.3.2.1:80"]
)
async def test_this_machines_own_and_configured_names_are_served(tmp_path, host):
    async with gateway_cluster(tmp_path, allowed_hosts="console.example.org") as cluster:
        status, body = await asyncio.to_thread(_ask, cluster.port, "GET", "/v1/topics", host)
        assert status == 200, body


async def test_a_request_with_two_hosts_or_none_is_refused(cluster):
    for host, headers in (
        ("localhost", [("Host", "evil.test")]),
        (None, ()),
        ("", ()),
    ):
        status, _ = await asyncio.to_thread(_ask, cluster.port, "GET", "/v1/topics", host, headers)
        assert status in (400, 421), (host, headers)


@pytest.mark.parametrize(
    ("trusted", "user", "forwarded_for"),
    [("192.0.2.0/24", None, None), ("127.0.0.1", "mira", "192.0.2.1")],
)
async def test_only_a_trusted_proxy_says_who_asks(tmp_path, trusted, user, forwarded_for):
    says = {"X-Forwarded-User": "mira", "X-Forwarded-For": "192.0.2.1", "User-Agent": "curl/8"}
    async with gateway_cluster(tmp_path, trusted_proxies=trusted) as cluster:
        await cluster.create_topic("orders")
        deleted = await cluster.request("DELETE", "/v1/topics/orders", headers=says)
        assert deleted.status == 204
        attempted, ended = cluster.audit()[-2:]
        assert (attempted["action"], attempted["target"]) == ("delete_topic", {"name": "orders"})
        assert (attempted["remote_address"], attempted["user_agent"]) == ("127.0.0.1", "curl/8")
        assert (attempted["user"], attempted["forwarded_for"]) == (user, forwarded_for)
        assert ended["outcome"] == "done"


def test_settings_that_cannot_be_are_named():
    with pytest.raises(ValidationError, match="https://a"):
        GatewaySettings(allowed_hosts="https://a")
    with pytest.raises(ValidationError, match="proxy"):
        GatewaySettings(trusted_proxies="10.0.0.0/8, proxy")
