"""A logout at one of two gateways: the cookie opens neither, also where no controller received it at first."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.integration.gateway.test_gateway_access import ADMIN, FORM, HTML, Client, cookie_of
from tests.targets import cluster_folder

from oncelog_gateway.time_budget import ALL_S
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, GATEWAY, ClusterShape

WAIT_S = 90
SHAPE = ClusterShape(
    controllers=1, storage=1, coordinators=1, marker_senders=1, listeners=1, gateways=2
)


@pytest.fixture(scope="module")
def cluster():
    with cluster_folder() as folder:
        token_file = folder / "admin-token"
        folder.mkdir(parents=True, exist_ok=True)
        token_file.write_text(ADMIN)
        environment = {
            "ONCELOG_GATEWAY_AUTHENTICATION": "required",
            "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE": str(token_file),
        }
        with Cluster(folder, SHAPE, environment=environment) as running:
            yield running


@pytest.fixture
def gateways(cluster):
    return [Client(SimpleNamespace(port=one.port)) for one in cluster.of_role(GATEWAY)]


async def logged_in(client):
    """The cookie, and what a logout must show."""
    cookie = cookie_of(await client.log_in(ADMIN))
    page = await client.ask("GET", "/groups", {**cookie, **HTML})
    csrf = page.text.partition('name="csrf-token" content="')[2].partition('"')[0]
    return cookie, csrf


async def log_out(client, cookie, csrf):
    form = {**cookie, "Origin": client.origin, "Content-Type": FORM}
    return await client.ask("POST", "/logout", form, {"csrf_token": csrf})


async def status(client, cookie):
    return (await client.ask("GET", "/v1/tokens", cookie)).status


async def until_refused(client, cookie):
    async with asyncio.timeout(WAIT_S):
        while await status(client, cookie) == 200:
            pass


async def test_a_logout_holds_at_both_gateways(gateways):
    one, other = gateways
    cookie, csrf = await logged_in(one)
    second, _ = await logged_in(one)
    assert [await status(client, cookie) for client in gateways] == [200, 200]
    left = await log_out(one, cookie, csrf)
    assert (left.status, left.headers["location"]) == (303, "/login")
    assert await status(one, cookie) == 401
    await until_refused(other, cookie)
    assert [await status(client, second) for client in gateways] == [200, 200]


async def test_a_logout_without_a_controller_is_told_later(cluster, gateways):
    one, other = gateways
    cookie, csrf = await logged_in(one)
    (controller,) = cluster.of_role(CONTROLLER)
    cluster.kill(controller.name)
    left = await log_out(one, cookie, csrf)
    assert left.status == 503
    assert "other gateways do not know" in left.text
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert [await status(client, cookie) for client in gateways] == [401, 200]
    # Longer than the page of the logout may wait for the roles: what tells it again has time of its own.
    await asyncio.sleep(ALL_S)
    cluster.restart(controller.name)
    await until_refused(other, cookie)
