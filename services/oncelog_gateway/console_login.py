"""Login and logout of the console. The user shows an API token once; then a cookie is sent that scripts cannot read and
other sites cannot send.
"""

import logging
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from oncelog.errors import KafkaError
from oncelog_gateway.access import CALLER, Access, Caller, Refused
from oncelog_gateway.access_guard import COOKIE, SECURE_COOKIE, is_secure
from oncelog_gateway.console_pages import Pages
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import plain_problem, respond

log = logging.getLogger("oncelog.gateway")

FORM_BYTES_MAX: Final = 70_000
"""Maximum size of a login form in bytes. A provider's token may have 65,536 letters."""
FIELDS_MAX: Final = 10
STILL_TO_TELL: Final = (
    "You are logged out at this gateway. No controller took it down yet, so the other gateways do not know; "
    "this one tries again each second."
)
FORM: Final = "application/x-www-form-urlencoded"


def add_login(router: APIRouter, pages: Pages, access: Access, operators: Operators) -> None:
    def login_page(next_path: str, problem: str = "", status: int = 200) -> HTMLResponse:
        page = pages.page("login.html", "/login", next=next_path, problem=problem)
        page.status_code = status
        return page

    @router.get("/login")
    async def login(next: str = "/") -> Response:
        if not access.is_login_required:
            return RedirectResponse(own_path(next), 303)
        return login_page(own_path(next))

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return respond(
                plain_problem(
                    415,
                    f"the body must be {FORM} of at most {FORM_BYTES_MAX} bytes and {FIELDS_MAX} fields",
                )
            )
        if "origin" not in request.headers:
            return respond(
                plain_problem(
                    403, "a browser sends Origin with this form; a script shows a token instead"
                )
            )
        next_path = own_path(form.get("next", "/"))
        try:
            caller = await access.by_token(form.get("token", ""), operators.address_of(request))
        except Refused as refused:
            status = 429 if refused.wait_ms else 401
            return login_page(
                next_path, f"{refused.detail[:1].upper()}{refused.detail[1:]}.", status
            )
        if caller.role is None:
            return login_page(next_path, f"{caller.name} has no role here.", 403)
        answer = RedirectResponse(next_path, 303)
        _give_cookie(answer, caller, access, is_tls=is_secure(request, operators))
        return answer

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        form = await _form(request)
        caller = CALLER.get()
        session = caller.session if caller is not None else None
        answer: Response = RedirectResponse("/login", 303)
        if session is not None:
            if form is None or not access.sessions.is_csrf_token(
                session, form.get("csrf_token", "")
            ):
                return respond(
                    plain_problem(403, "log out by the button of a page of this gateway")
                )
            try:
                await access.log_out(session)
            except KafkaError as error:
                log.warning(
                    "other gateways do not know yet of a logout of %s: %s", session.name, error
                )
                answer = login_page("/", STILL_TO_TELL, 503)
        for name, secure in ((COOKIE, False), (SECURE_COOKIE, True)):
            answer.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
        return answer


def _give_cookie(answer: Response, caller: Caller, access: Access, *, is_tls: bool) -> None:
    session = access.open_session(caller)
    answer.set_cookie(
        SECURE_COOKIE if is_tls else COOKIE,
        access.sessions.sealed(session),
        max_age=access.seconds_left(session),
        path="/",
        secure=is_tls,
        httponly=True,
        samesite="strict",
    )


async def _form(request: Request) -> dict[str, str] | None:
    """Return the fields of a login form, the first value of each; None: the body is no form or is too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
        return None
    # No body comes here without its length (`strict_http.py`).
    if int(request.headers.get("content-length", 0)) > FORM_BYTES_MAX:
        return None
    body = await request.body()
    try:
        fields = parse_qs(
            body.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX
        )
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}


def own_path(text: str) -> str:
    """Return the text if it is the path of a page of this gateway, else `/`. So a link cannot lead to another site
    after the login.
    """
    is_own = text.startswith("/") and not text.startswith("//")
    return text if is_own and text.isprintable() and "\\" not in text else "/"
