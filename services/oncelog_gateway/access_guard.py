"""Plain ASGI middleware that decides who comes in, and to which routes, before any route sees the request or its
body.
"""

from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.errors import ErrorCode, KafkaError
from oncelog.security.api_tokens import Role
from oncelog_gateway.access import ANONYMOUS, CALLER, Access, Caller, Refused
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.route_roles import METRICS, OPEN, ROLE_OF, RouteKey, without_role
from oncelog_gateway.operators import CALLER_KEY, ROUTE_KEY, Operators
from oncelog_gateway.problems import plain_problem, problem_of, respond
from oncelog_gateway.request_guard import READING_METHODS

COOKIE: Final = "oncelog-session"
SECURE_COOKIE: Final = "__Host-oncelog-session"
CSRF_HEADER: Final = "x-csrf-token"
LOGIN_PATH: Final = "/login"
_NO_PAGES: Final = ("/v1/", "/metrics", "/openapi.json")
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="oncelog"'}


class AccessGuard:
    """Lets a request through if its caller has the role that its route needs, and answers 401 or 403 otherwise.
    `routes` are in the order in which the application tries them.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        routes: Sequence[Route],
        operators: Operators,
        audit: AuditLog,
        metrics_without_login: bool,
    ) -> None:
        self._app = app
        self._access = access
        self._routes = routes
        self._operators = operators
        self._audit = audit
        self._open = OPEN | ({METRICS} if metrics_without_login else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        key = self._key(scope)
        if key is not None:
            scope[ROUTE_KEY] = " ".join(key)
        is_open = key in self._open
        refused: Refused | None = None
        caller: Caller | None = None
        try:
            caller = await self._caller(request)
        except Refused as error:
            refused = error
        answer = None
        if not is_open and caller is None:
            answer = self._not_in(request, key, refused)
        elif caller is not None:
            scope[CALLER_KEY] = caller
            answer = _forged(request, caller)
            if answer is None and not is_open:
                answer = await self._not_allowed(request, key, caller)
        if answer is not None:
            await answer(scope, receive, send)
            return
        CALLER.set(caller)
        if caller is not None and caller is not ANONYMOUS:
            send = self._while_in(caller, send)
        await self._app(scope, receive, send)

    def _key(self, scope: Scope) -> RouteKey | None:
        """Return the method, and the path template of the route that will answer the request; None if no route will."""
        for route in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                return scope["method"], route.path
        return None

    async def _caller(self, request: Request) -> Caller | None:
        """Return the caller of a request by its token or session; None: it has neither. Raises Refused for a token that
        lets nobody in.
        """
        if not self._access.is_login_required:
            return ANONYMOUS
        shown = request.headers.getlist("authorization")
        if shown:
            scheme, _, token = shown[0].partition(" ")
            if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
                raise Refused("the Authorization header must be: Bearer TOKEN")
            return await self._access.by_token(token.strip(), self._operators.address_of(request))
        cookie = session_cookie(request, self._operators)
        if cookie is None:
            return None
        caller = self._access.by_session(cookie)
        if caller is None:
            raise Refused("the session has ended; log in again")
        return caller

    def _not_in(self, request: Request, key: RouteKey | None, refused: Refused | None) -> Response:
        if refused is not None and refused.wait_ms:
            headers = {"Retry-After": str(-(-refused.wait_ms // 1000))}
            return respond(plain_problem(429, refused.detail), headers)
        is_page = request.method == "GET" and not request.url.path.startswith(_NO_PAGES)
        if is_page and "text/html" in request.headers.get("accept", ""):
            path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': path})}", 303)
        why = refused.detail if refused is not None else "this gateway requires a token"
        role = ROLE_OF.get(key, Role.VIEWER) if key is not None else Role.VIEWER
        detail = (
            f"{why}; show one of the role {role.word} or above as Authorization: Bearer TOKEN. "
            f"An admin makes it with: oncelog tokens create NAME --role {role.word}"
        )
        return respond(plain_problem(401, detail), _CHALLENGE)

    async def _not_allowed(
        self, request: Request, key: RouteKey | None, caller: Caller
    ) -> Response | None:
        """Return the error response for a caller without the role that the route needs; None: the caller has that role.

        If the refused request would have changed something, it is in the audit log.
        """
        needed = ROLE_OF[key] if key is not None else Role.VIEWER
        if caller.role is not None and caller.role >= needed:
            return None
        has = f"the role {caller.role.word}" if caller.role is not None else "no role here"
        detail = (
            f"this needs the role {needed.word}, and {caller.name} has {has}; "
            f"an admin makes a token with: oncelog tokens create NAME --role {needed.word}"
        )
        if request.method not in READING_METHODS:
            try:
                refusal = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, detail)
                await self._audit.refused(
                    self._operators.of(request), {"path": request.url.path[:1000]}, refusal
                )
            except KafkaError as error:
                return respond(problem_of(error))
        return respond(plain_problem(403, detail))

    def _while_in(self, caller: Caller, send: Send) -> Send:
        """Return `send`, wrapped so that a long answer ends when its caller would no longer be let in. So a stream ends
        with the token that opened it.
        """
        is_ended = False

        async def sent(message: Message) -> None:
            nonlocal is_ended
            if is_ended:
                return
            lasts = message["type"] == "http.response.body" and message.get("more_body")
            if lasts and not self._access.is_still_in(caller):
                is_ended = True
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sent


async def only_as_guarded(request: Request) -> None:
    """Assert that the route that answers is the very one whose role `AccessGuard` has checked."""
    route = f"{request.method} {request.scope['route'].path}"
    assert request.scope.get(ROUTE_KEY) == route, (request.scope.get(ROUTE_KEY), route)


def with_roles(routes: Sequence[Route]) -> Sequence[Route]:
    """Return the routes unchanged. Asserts that a role is defined for each of them."""
    keys = [(method, route.path) for route in routes for method in sorted(route.methods or ())]
    assert not without_role(keys), f"core/route_roles.py lacks {without_role(keys)}"
    return routes


def is_secure(request: Request, operators: Operators) -> bool:
    """True if the browser's connection uses TLS, to this gateway or to a trusted proxy before it."""
    if request.url.scheme == "https":
        return True
    return operators.is_from_proxy(request) and request.headers.get("x-forwarded-proto") == "https"


def session_cookie(request: Request, operators: Operators) -> str | None:
    """Return the session cookie's value; None: there is none. Over TLS only the cookie with the `__Host-` name counts,
    which neither another host nor a page without TLS can set.
    """
    name = SECURE_COOKIE if is_secure(request, operators) else COOKIE
    cookies = SimpleCookie()
    for header in request.headers.getlist("cookie"):
        try:
            cookies.load(header)
        except CookieError:
            continue
    found = cookies.get(name)
    return None if found is None else str(found.value)


def _forged(request: Request, caller: Caller) -> Response | None:
    """Return the error response for a changing request of a console session that another site may have caused (CSRF).
    None: the request comes from the console's own pages, only reads, or has a token.

    Those pages send an Origin header and the session's CSRF token, which other sites cannot read.
    """
    if caller.session is None or request.method in READING_METHODS:
        return None
    if request.url.path in (LOGIN_PATH, "/logout"):
        return None  # forms: they show it in a field
    shown = request.headers.get(CSRF_HEADER, "")
    # The guard before this one has compared the origin with the host.
    if "origin" in request.headers and shown and shown == caller.csrf_token:
        return None
    return respond(
        plain_problem(
            403,
            f"an act of a console session must come from its own page, with Origin and {CSRF_HEADER}; "
            "a script shows a token instead",
        )
    )
