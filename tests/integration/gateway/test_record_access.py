"""Who may read records: by the role, and by the cluster's ACLs where there are some (ADR 0049)."""

import json

import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster
from tests.integration.gateway.test_gateway_access import ADMIN, bearer, secured

from oncelog.api.v1 import controller_pb2
from oncelog.security.acl import Operation, PatternType, Permission, ResourceType

RECORDS = "/v1/topics/orders/records"
PAGE = "/records?topic=orders"


async def allow(
    cluster,
    principal,
    topic="orders",
    permission=Permission.ALLOW,
    host="*",
    operation=Operation.READ,
):
    entry = controller_pb2.Acl(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        pattern_type=PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )
    answer = await cluster.controller.CreateAcls(controller_pb2.CreateAclsRequest(acls=[entry]))
    assert not answer.results[0].error_code
    await cluster.metadata.wait_until(answer.metadata_offset)


async def prepared(client):
    topic = {"name": "orders", "partition_count": 1}
    assert (await client.ask("POST", "/v1/topics", bearer(ADMIN), topic)).status == 201
    return {role: await client.create(role, role) for role in ("viewer", "operator", "admin")}


async def statuses(client, tokens):
    found = {}
    for role, token in tokens.items():
        found[role] = (await client.ask("GET", RECORDS, bearer(token))).status
        # A page refuses whom REST refuses.
        page = await client.ask("GET", PAGE, bearer(token))
        assert page.status == found[role], page.text
    return found


async def test_without_acls_behind_a_login_admins_read(tmp_path):
    async with secured(tmp_path) as (_, client):
        tokens = await prepared(client)
        assert await statuses(client, tokens) == {"viewer": 403, "operator": 403, "admin": 200}
        assert (await client.ask("GET", RECORDS)).status == 401


async def test_a_setting_lets_every_viewer_read(tmp_path):
    async with secured(tmp_path, record_access="viewer") as (cluster, client):
        tokens = await prepared(client)
        assert await statuses(client, tokens) == {"viewer": 200, "operator": 200, "admin": 200}
        page = (await client.ask("GET", PAGE, bearer(tokens["viewer"]))).text
        assert "lets every viewer read records" in page
        # Who makes an ACL means to close something.
        await allow(cluster, "User:alice")
        assert await statuses(client, tokens) == {"viewer": 403, "operator": 403, "admin": 200}


async def test_a_page_that_is_closed_shows_the_command(tmp_path):
    async with secured(tmp_path, client_config="/etc/admin.properties") as (cluster, client):
        tokens = await prepared(client)
        await allow(cluster, "User:alice")
        page = await client.ask("GET", PAGE, bearer(tokens["viewer"]))
        assert page.status == 403
        assert (
            '<pre class="wrap">oncelog acls add --principal User:token:viewer --operation Read --topic orders '
            "--config /etc/admin.properties</pre>"
        ) in page.text
        await allow(cluster, "User:token:viewer", permission=Permission.DENY)
        page = await client.ask("GET", PAGE, bearer(tokens["viewer"]))
        assert '<pre class="wrap">oncelog acls list --topic orders --config' in page.text
        assert "acls add" not in page.text


async def test_with_acls_only_admins_and_the_named_read(tmp_path):
    async with secured(tmp_path) as (cluster, client):
        tokens = await prepared(client)
        await allow(cluster, "User:token:operator")
        assert await statuses(client, tokens) == {"viewer": 403, "operator": 200, "admin": 200}
        refused = json.loads((await client.ask("GET", RECORDS, bearer(tokens["viewer"]))).text)
        assert refused["kafka_error_name"] == "TOPIC_AUTHORIZATION_FAILED"
        assert "User:token:viewer may not read topic 'orders'" in refused["detail"]
        assert "oncelog acls add --principal User:token:viewer" in refused["detail"]


async def test_an_acl_of_another_topic_closes_this_one(tmp_path):
    async with secured(tmp_path) as (cluster, client):
        tokens = await prepared(client)
        await allow(cluster, "User:token:viewer", topic="payments")
        assert (await statuses(client, tokens))["viewer"] == 403


async def test_a_deny_and_a_host_count_as_at_a_listener(tmp_path):
    async with secured(tmp_path) as (cluster, client):
        tokens = await prepared(client)
        await allow(cluster, "User:*")
        await allow(cluster, "User:token:operator", permission=Permission.DENY)
        await allow(cluster, "User:token:viewer", permission=Permission.DENY, host="192.0.2.1")
        assert await statuses(client, tokens) == {"viewer": 200, "operator": 403, "admin": 200}


async def test_the_setting_acl_closes_a_gateway_on_loopback(tmp_path):
    async with gateway_cluster(tmp_path, record_access="acl") as cluster:
        await cluster.create_topic("orders")
        assert (await cluster.get(RECORDS)).status == 403


@pytest.mark.parametrize(("principal", "status"), [("User:ANONYMOUS", 200), ("User:alice", 403)])
async def test_who_did_not_log_in_is_kafkas_anonymous(tmp_path, principal, status):
    """A gateway on loopback lets everybody of its machine in; the listeners' ACLs must not be lost by that."""
    async with gateway_cluster(tmp_path) as cluster:
        await cluster.create_topic("orders")
        assert (await cluster.get(RECORDS)).status == 200
        await allow(cluster, principal)
        assert (await cluster.get(RECORDS)).status == status


async def test_a_topic_that_is_not_there_is_not_told_to_the_refused(tmp_path):
    async with secured(tmp_path) as (cluster, client):
        tokens = await prepared(client)
        await allow(cluster, "User:alice")
        missing = await client.ask("GET", "/v1/topics/nowhere/records", bearer(tokens["viewer"]))
        assert missing.status == 403
