"""Who comes in by what, and how far: real HTTP against the real application and a real controller."""

import asyncio
import http.client
import json
import ssl
import time
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest
from tests.access_tokens import AUDIENCE, ISSUER, jwk_of, key_set, make_key, sign
from tests.certificates import Authority
from tests.integration.gateway.gateway_cluster import gateway_cluster

from oncelog.errors import OncelogError
from oncelog.telemetry.history import History, LocalFeed

ADMIN = "a" * 64
KEY = make_key("ES256")
HTML = {"Accept": "text/html"}
FORM = "application/x-www-form-urlencoded"
SECURITY_HEADERS = {
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Client:
    """Follows no redirect and keeps no cookie."""

    def __init__(self, cluster, context=None):
        self.cluster, self._context = cluster, context
        scheme = "http" if context is None else "https"
        self.origin = f"{scheme}://localhost:{cluster.port}"

    async def ask(self, method, path, headers=None, body=None):
        return await asyncio.to_thread(self._ask, method, path, headers or {}, body)

    def _ask(self, method, path, headers, body):
        if self._context is None:
            connection = http.client.HTTPConnection("localhost", self.cluster.port, timeout=90)
        else:
            connection = http.client.HTTPSConnection(
                "localhost", self.cluster.port, timeout=90, context=self._context
            )
        if isinstance(body, dict) and headers.get("Content-Type") != FORM:
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        elif isinstance(body, dict):
            body = urlencode(body)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    async def create(self, name, role, lifetime_ms=60_000):
        body = {"name": name, "role": role, "lifetime_ms": lifetime_ms}
        answer = await self.ask("POST", "/v1/tokens", bearer(ADMIN), body)
        assert answer.status == 201, answer.text
        return json.loads(answer.text)["token"]

    async def log_in(self, token, next_path="/"):
        headers = {"Content-Type": FORM, "Origin": self.origin}
        return await self.ask("POST", "/login", headers, {"token": token, "next": next_path})


@asynccontextmanager
async def secured(tmp_path, **settings):
    file = tmp_path / "admin-token"
    file.write_text(ADMIN + "\n")
    settings = {"authentication": "required", "admin_token_file": file, **settings}
    async with gateway_cluster(tmp_path, **settings) as cluster:
        yield cluster, Client(cluster)


@pytest.fixture
async def client(tmp_path):
    async with secured(tmp_path) as (_, made):
        yield made


def cookie_of(answer):
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


async def test_nobody_comes_in_without_a_token(client):
    for method, path, status in (
        ("GET", "/v1/topics", 401),
        ("POST", "/v1/topics", 401),
        ("GET", "/metrics", 401),
        ("GET", "/openapi.json", 401),
        ("GET", "/nowhere", 401),
        ("GET", "/", 401),
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
        ("GET", "/login", 200),
        ("GET", "/console.js", 200),
        ("GET", "/console.css", 200),
    ):
        answer = await client.ask(method, path)
        assert answer.status == status, (path, answer.text)
        assert {name.lower() for name, _ in answer.getheaders()} >= SECURITY_HEADERS, path
    response = await client.ask("DELETE", "/v1/topics/orders")
    assert "--role admin" in response.text
    assert response.headers["www-authenticate"].startswith("Bearer")
    for wrong in ({"Authorization": "Basic YTpi"}, bearer("oncelog_x"), bearer("a.b.c")):
        assert (await client.ask("GET", "/v1/topics", wrong)).status == 401
    page = await client.ask("GET", "/transaction?id=a%2Fb", HTML)
    assert page.status == 303
    assert page.headers["location"] == "/login?next=%2Ftransaction%3Fid%3Da%252Fb"


async def test_a_role_opens_its_routes_and_no_other(client):
    tokens = {role: await client.create(role, role) for role in ("viewer", "operator", "admin")}
    topic = {"name": "orders", "partition_count": 1}
    for role, statuses in (
        ("viewer", (200, 403, 403, 403)),
        ("operator", (200, 201, 403, 403)),
        ("admin", (200, 409, 204, 200)),
    ):
        head = bearer(tokens[role])
        responses = [
            await client.ask("GET", "/v1/topics", head),
            await client.ask("POST", "/v1/topics", head, topic),
            await client.ask("DELETE", "/v1/topics/orders", head),
            await client.ask("GET", "/v1/tokens", head),
        ]
        assert tuple(one.status for one in responses) == statuses, role
        if role == "viewer":
            assert "needs the role operator, and token:viewer has the role viewer" in (
                responses[1].text
            )
    response = await client.ask("GET", "/v1/whoami", bearer(tokens["operator"]))
    assert json.loads(response.text)["caller"] == "token:operator"
    assert tokens["viewer"] not in client.cluster.audit_path.read_text()


async def test_a_revoked_token_is_refused_and_its_stream_ends(tmp_path):
    history = History()
    events = LocalFeed(history, "coordinator", 1)
    async with secured(tmp_path, history=history) as (_, client):
        token = await client.create("ci", "viewer")
        head = bearer(token)
        stream = asyncio.create_task(
            client.ask("GET", "/v1/events", {**head, "Accept": "text/event-stream"})
        )
        assert (await client.ask("GET", "/v1/topics", head)).status == 200
        async with asyncio.timeout(30):
            while not history.subscriber_count:  # noqa: ASYNC110 (it sets no event)
                await asyncio.sleep(0.01)
        assert (await client.ask("DELETE", "/v1/tokens/ci", bearer(ADMIN))).status == 204
        assert (await client.ask("GET", "/v1/topics", head)).status == 401
        events.publish("transaction", transactional_id="secret")
        received = await asyncio.wait_for(stream, 30)
        assert received.text == ": live events of oncelog\n\n"
        missing = await client.ask("DELETE", "/v1/tokens/ci", bearer(ADMIN))
        assert (missing.status, "oncelog tokens list" in missing.text) == (404, True)


async def test_a_token_ends_by_itself_and_its_use_is_known(client):
    token = await client.create("ci", "viewer", lifetime_ms=5_000)
    assert (await client.ask("GET", "/v1/topics", bearer(token))).status == 200
    async with asyncio.timeout(30):
        while (await client.ask("GET", "/v1/topics", bearer(token))).status == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    (row,) = json.loads((await client.ask("GET", "/v1/tokens", bearer(ADMIN))).text)["tokens"]
    assert (row["name"], row["role"], row["is_expired"]) == ("ci", "viewer", True)
    assert row["created_by"] == "admin-token-file"
    assert row["last_used_time_ms"] >= row["created_time_ms"]


async def test_a_providers_token_has_the_role_of_its_claim(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(key_set(jwk_of(KEY, "first")))
    settings = {
        "oidc_jwks": str(keys),
        "oidc_issuer": ISSUER,
        "oidc_audience": AUDIENCE,
        "oidc_role_claim": "realm_access.roles",
        "oidc_roles": "ops=operator,all=viewer",
    }

    def token(roles, **changed):
        claims = {"sub": "alice", "realm_access": {"roles": roles}, **changed}
        return sign(KEY, kid="first", now_s=int(time.time()), **claims)

    async with secured(tmp_path, **settings) as (cluster, client):
        head = bearer(token(["all", "ops", "other"]))
        caller = json.loads((await client.ask("GET", "/v1/whoami", head)).text)
        assert (caller["caller"], caller["role"]) == ("oidc:alice", "operator")
        reason = {"Oncelog-Reason": "ticket%207%20%E2%9C%93"}
        topic = {"name": "billing", "partition_count": 1}
        assert (await client.ask("POST", "/v1/topics", {**head, **reason}, topic)).status == 201
        line = json.loads(cluster.audit_path.read_text().splitlines()[-2])
        assert line["caller"] == "oidc:alice"
        assert line["role"] == "operator"
        assert line["route"] == "POST /v1/topics"
        assert line["reason"] == "ticket 7 ✓"
        assert line["target"]["name"] == "billing"
        none = await client.ask("GET", "/v1/topics", bearer(token(["other"])))
        assert (none.status, "no role here" in none.text) == (403, True)
        for wrong in (token(["ops"], aud="other"), token(["ops"], iss="https://evil")):
            assert (await client.ask("GET", "/v1/topics", bearer(wrong))).status == 401


async def test_a_refused_act_is_in_the_audit_log(client):
    head = bearer(await client.create("reader", "viewer"))
    assert (await client.ask("DELETE", "/v1/topics/orders", head)).status == 403
    attempted, ended = map(json.loads, client.cluster.audit_path.read_text().splitlines()[-2:])
    assert (attempted["caller"], attempted["action"]) == ("token:reader", "refused_act")
    assert attempted["route"] == "DELETE /v1/topics/{name}"
    assert attempted["target"] == {"path": "/v1/topics/orders"}
    assert ended["outcome"] == "refused"


async def test_wrong_tokens_of_an_address_are_limited(tmp_path):
    async with secured(tmp_path, failed_logins_max=3) as (_, client):
        token = await client.create("ci", "viewer")
        for _ in range(3):
            assert (await client.ask("GET", "/v1/topics", bearer("wrong"))).status == 401
        limited = await client.ask("GET", "/v1/topics", bearer("wrong"))
        assert limited.status == 429
        assert 0 < int(limited.headers["retry-after"]) <= 60
        assert (await client.log_in("wrong")).status == 429
        # Who has a token does not wait for others behind the same address.
        assert (await client.ask("GET", "/v1/topics", bearer(token))).status == 200


async def test_a_session_acts_only_from_its_own_page(client):
    token = await client.create("mira", "admin")
    wrong = await client.log_in("wrong")
    assert (wrong.status, wrong.headers["set-cookie"]) == (401, None)
    no_origin = await client.ask("POST", "/login", {"Content-Type": FORM}, {"token": token})
    assert no_origin.status == 403
    entered = await client.log_in(token, "//evil.test/")
    assert (entered.status, entered.headers["location"]) == (303, "/")
    flags = entered.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert token not in flags
    cookie = cookie_of(entered)
    page = await client.ask("GET", "/groups", {**cookie, **HTML})
    assert "token:mira" in page.text
    csrf = page.text.partition('name="csrf-token" content="')[2].partition('"')[0]
    topic, origin = {"name": "orders", "partition_count": 1}, {"Origin": client.origin}
    for headers, status in (
        (origin, 403),
        ({"X-CSRF-Token": csrf}, 403),
        ({**origin, "X-CSRF-Token": csrf[:-1] + "x"}, 403),
        ({"Origin": "http://evil.test", "X-CSRF-Token": csrf}, 403),
        ({**origin, "X-CSRF-Token": csrf}, 201),
    ):
        answer = await client.ask("POST", "/v1/topics", {**cookie, **headers}, topic)
        assert answer.status == status, (headers, answer.text)
    form = {**cookie, **origin, "Content-Type": FORM}
    assert (await client.ask("POST", "/logout", form, {})).status == 403
    left = await client.ask("POST", "/logout", form, {"csrf_token": csrf})
    assert left.status == 303
    assert (await client.ask("GET", "/groups", {**cookie, **HTML})).status == 303


async def test_a_stream_ends_with_the_logout_of_its_session(tmp_path):
    history = History()
    events = LocalFeed(history, "coordinator", 1)
    async with secured(tmp_path, history=history) as (_, client):
        cookie = cookie_of(await client.log_in(ADMIN))
        live = {**cookie, "Accept": "text/event-stream"}
        stream = asyncio.create_task(client.ask("GET", "/v1/events", live))
        async with asyncio.timeout(30):
            while not history.subscriber_count:  # noqa: ASYNC110 (it sets no event)
                await asyncio.sleep(0.01)
        page = await client.ask("GET", "/groups", {**cookie, **HTML})
        csrf = page.text.partition('name="csrf-token" content="')[2].partition('"')[0]
        form = {**cookie, "Origin": client.origin, "Content-Type": FORM}
        left = await client.ask("POST", "/logout", form, {"csrf_token": csrf})
        assert left.status == 303
        events.publish("transaction", transactional_id="secret")
        received = await asyncio.wait_for(stream, 30)
        assert received.text == ": live events of oncelog\n\n"


@pytest.mark.parametrize("path", ["/login", "/logout"])
async def test_a_form_of_too_many_fields_is_refused(client, path):
    form = {"Content-Type": FORM, "Origin": client.origin}
    fields = {str(number): "" for number in range(11)}
    assert (await client.ask("POST", path, form, fields)).status in (303, 415)


async def test_a_session_ends_with_its_token(client):
    cookie = cookie_of(await client.log_in(await client.create("mira", "viewer")))
    assert (await client.ask("GET", "/v1/topics", cookie)).status == 200
    await client.ask("DELETE", "/v1/tokens/mira", bearer(ADMIN))
    assert (await client.ask("GET", "/v1/topics", cookie)).status == 401


async def test_https_has_a_cookie_of_this_host_alone(tmp_path):
    authority = Authority(tmp_path)
    files = authority.issue("localhost")
    tls = {"tls_certificate_file": files.certificate_chain, "tls_key_file": files.key}
    async with secured(tmp_path, **tls) as (cluster, _):
        client = Client(cluster, ssl.create_default_context(cafile=authority.pem))
        entered = await client.log_in(await client.create("mira", "viewer"))
        flags = entered.headers["set-cookie"]
        assert flags.startswith("__Host-oncelog-session=")
        assert "Secure" in flags
        assert (await client.ask("GET", "/v1/topics", cookie_of(entered))).status == 200
        plain = {"Cookie": cookie_of(entered)["Cookie"].removeprefix("__Host-")}
        assert (await client.ask("GET", "/v1/topics", plain)).status == 401


async def test_metrics_may_be_open(tmp_path):
    async with secured(tmp_path, metrics_without_login=True) as (_, client):
        assert (await client.ask("GET", "/metrics")).status == 200
        assert (await client.ask("GET", "/v1/cluster")).status == 401


async def test_beyond_loopback_a_gateway_does_not_start_open(tmp_path):
    with pytest.raises(OncelogError, match="ONCELOG_GATEWAY_AUTHENTICATION"):
        async with gateway_cluster(tmp_path, host="0.0.0.0"):
            pass
