"""Ten thousand tries at the guard, with tokens and sessions that are good, old, revoked, forged or another's: it lets
in whom a model of five lines lets in, and nobody else."""

import random
import re
from types import SimpleNamespace

from starlette.routing import Route

from oncelog.ids import Millis
from oncelog.rpc.security_image import SecurityImage
from oncelog.security.api_tokens import ApiToken, Role, digest_of
from oncelog_gateway.access import Access
from oncelog_gateway.access_guard import COOKIE, CSRF_HEADER, AccessGuard
from oncelog_gateway.core.route_roles import OPEN, ROLE_OF
from oncelog_gateway.operators import Operators
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.ways_in import NO_WAYS_IN

TRIES = 10_000
HOUR_MS = 3_600_000


class World:
    """A guard before an application that answers 200 to everything, and a clock and tokens that a test moves."""

    def __init__(self):
        self.now = Millis(1_000_000_000)
        self.image = SecurityImage()
        settings = GatewaySettings(authentication="required", failed_logins_max=1_000)
        metadata = SimpleNamespace(image=SimpleNamespace(security=None))
        metadata.image = self
        self.access = Access(
            settings, NO_WAYS_IN, metadata, SimpleNamespace(now=lambda: self.now), self
        )
        routes = [
            Route(path, endpoint=self.ok, methods=[method])
            for method, path in (*ROLE_OF, *OPEN)
            if method != "HEAD"
        ]
        self.guard = AccessGuard(self.ok, self.access, routes, Operators(""), self, False)

    @property
    def security(self):
        return self.image

    async def ask_controller(self, *_):
        """A use is told to nobody."""

    async def refused(self, *_):
        """No audit log."""

    async def ok(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def put(self, token):
        kept = {one.digest: one for one in self.image.tokens.values() if one.name != token.name}
        self.image = SecurityImage(tokens={**kept, token.digest: token})

    def revoke(self, digest):
        kept = {one: token for one, token in self.image.tokens.items() if one != digest}
        self.image = SecurityImage(tokens=kept)

    async def status(self, method, path, headers):
        found = []

        async def send(message):
            if message["type"] == "http.response.start":
                found.append(message["status"])

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        }
        await self.guard(scope, None, send)
        return found[0]


def a_path(path, draw):
    return re.sub(r"\{(\w+)(:path)?\}", lambda _: draw.choice(["a", "7", "x-1"]), path)


async def test_nobody_comes_in_who_may_not():
    draw, world = random.Random(7), World()
    secrets, sessions, outcomes = [], [], set()
    for number in range(TRIES):
        world.now = Millis(world.now + draw.randrange(60_000))
        if draw.random() < 0.05:
            secret = f"oncelog_{number}"
            role = draw.choice([*(one.word for one in Role), "root"])
            ends = world.now + draw.randrange(1, 3 * HOUR_MS)
            name = f"t{draw.randrange(20)}"
            world.put(ApiToken(name, digest_of(secret), role, world.now, ends))
            secrets.append(secret)
        if secrets and draw.random() < 0.03:
            world.revoke(digest_of(draw.choice(secrets)))
        if secrets and draw.random() < 0.1:
            caller = world.access._by_digest(digest_of(draw.choice(secrets[-20:])))
            if caller is not None and caller.role is not None:
                sessions.append(world.access.open_session(caller))
        outcomes.add(await one_try(draw, world, secrets, sessions))
    assert outcomes == {(True, 200), (False, 401), (False, 403)}


async def one_try(draw, world, secrets, sessions):
    """What the model and the guard say of one request."""
    (method, path), needed = draw.choice(list(ROLE_OF.items()))
    method = "GET" if method == "HEAD" else method
    headers, digest, may_act, is_over = [], None, True, False
    kind = draw.choice(["token", "session", "none", "wrong"])
    if kind == "token" and secrets:
        secret = draw.choice(secrets[-20:])
        headers, digest = [("Authorization", f"Bearer {secret}")], digest_of(secret)
    elif kind == "session" and sessions:
        session = draw.choice(sessions[-20:])
        cookie, digest = world.access.sessions.sealed(session), session.digest
        is_over = world.now >= session.expires_ms
        if draw.random() < 0.1:
            cookie, is_over = cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), True
        headers = [("Cookie", f"{COOKIE}={cookie}")]
        owner = session if draw.random() < 0.8 else draw.choice(sessions)
        has_origin = draw.random() < 0.8
        headers.append((CSRF_HEADER, world.access.sessions.csrf_token(owner)))
        headers += [("Origin", "http://localhost")] if has_origin else []
        is_own = has_origin and owner.session_id == session.session_id
        may_act = method == "GET" or is_own
    elif kind == "wrong":
        headers = [("Authorization", draw.choice(["Bearer x", "Basic x", "Bearer", "x", ""]))]
    token = world.image.tokens.get(digest)
    is_in = token is not None and world.now < token.expires_ms and not is_over
    role = {one.word: one for one in Role}.get(token.role, 0) if is_in else 0
    may = is_in and may_act and role >= needed
    status = await world.status(method, a_path(path, draw), headers)
    assert (status == 200) is may, (method, path, needed, kind, token, status)
    return may, status
