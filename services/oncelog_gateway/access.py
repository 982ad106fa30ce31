"""Finds who sends a request to the gateway, by the API token or the console session that comes with the request."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import KafkaError
from oncelog.rpc.metadata import MetadataFollower
from oncelog.runtime.clock import Clock
from oncelog.security.api_tokens import PREFIX, ApiToken, Role, digest_of, role_of
from oncelog.security.sasl import AcceptedToken, TokenRefusedError
from oncelog_gateway.access_settings import AccessSettings
from oncelog_gateway.core.failed_logins import FailedLogins
from oncelog_gateway.roles import Roles, raise_for
from oncelog_gateway.sessions import Session, Sessions
from oncelog_gateway.ways_in import WaysIn

log = logging.getLogger("oncelog.gateway")

USE_REPORTED_EVERY_MS: Final = 3_600_000
"""A token's use is reported to the controller's journal at most this often."""
LOGOUT_REPORTED_EVERY_S: Final = 1.0
"""A logout that no controller has received is reported again at this interval."""
ADMIN_FILE: Final = "admin-token-file"


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    """The caller's name: `token:NAME`, `oidc:SUBJECT`, `admin-token-file` or `anonymous`."""
    role: Role | None
    """The caller's role; None: the caller is known, and may do nothing."""
    expires_ms: int = 0
    """Time at which the token or the session ends; 0: never."""
    digest: str = field(default="", repr=False)
    session: Session | None = None
    csrf_token: str = field(default="", repr=False)


ANONYMOUS: Final = Caller("anonymous", Role.ADMIN)
CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""The caller of the request that is being answered."""


class Refused(Exception):
    """Raised for a token or a session that lets nobody in; the message says why."""

    def __init__(self, detail: str, wait_ms: int = 0) -> None:
        super().__init__(detail)
        self.detail = detail
        self.wait_ms = wait_ms
        """The time in milliseconds for which this address must wait, because it has shown too many wrong tokens; 0: it
        need not wait.
        """


class Access:
    """Finds the caller of a token or of a session cookie, as the settings allow. The files that the settings name were
    read when the gateway started.
    """

    def __init__(
        self,
        settings: AccessSettings,
        ways_in: WaysIn,
        metadata: MetadataFollower,
        clock: Clock,
        roles: Roles,
    ) -> None:
        self._settings = settings
        self._admin_file, self._provider = ways_in
        self._metadata = metadata
        self._clock = clock
        self._roles = roles
        self.sessions = Sessions(self._admin_file.session_key if self._admin_file else None)
        self._failed = FailedLogins(settings.failed_logins_max)
        self._used: dict[str, int] = {}
        self._reports: set[asyncio.Task[None]] = set()

    @property
    def is_login_required(self) -> bool:
        return self._settings.is_login_required

    async def by_token(self, token: str, address: str) -> Caller:
        """Return the caller of a token. oncelog's own API tokens are looked up first, so they work even from an address
        that must wait after too many wrong tokens. Other tokens are checked with the OIDC provider.

        Raises Refused when the token lets nobody in.
        """
        digest = digest_of(token)
        found = self._by_digest(digest)
        if found is not None:
            return found
        now = self._clock.now()
        if wait_ms := self._failed.wait_ms(address, now):
            seconds = -(-wait_ms // 1000)
            raise Refused(
                f"too many wrong tokens from {address}; try again in {seconds} s", wait_ms
            )
        try:
            return await self._by_provider(token)
        except Refused as refused:
            self._failed.failed(address, now)
            log.warning("a token from %s is refused: %s", address, refused.detail)
            raise

    def by_session(self, cookie: str) -> Caller | None:
        """Return the caller of a session cookie. Returns None if the session has ended or never was."""
        session = self.sessions.read(cookie, self._clock.now())
        if session is None or self._is_logged_out(session):
            return None
        role, expires_ms = role_of(session.role), session.expires_ms
        if session.digest:
            found = self._by_digest(session.digest)
            if found is None:
                return None
            role = found.role
        csrf_token = self.sessions.csrf_token(session)
        return Caller(session.name, role, expires_ms, session.digest, session, csrf_token)

    def open_session(self, caller: Caller) -> Session:
        ends_ms = self._clock.now() + self._settings.session_timeout_ms
        if caller.expires_ms:
            ends_ms = min(ends_ms, caller.expires_ms)
        word = caller.role.word if caller.role is not None else ""
        return self.sessions.open(caller.name, word, caller.digest, ends_ms)

    async def log_out(self, session: Session) -> None:
        """End the session: at once at this gateway, and at every other one soon after.

        Raises KafkaError when no controller has received the logout. The gateway then sends it again each second, until
        a controller has it or the session would have ended by itself.
        """
        self.sessions.log_out(session, self._clock.now())
        try:
            await self._report_logout(session)
        except KafkaError:
            self._start_report(self._report_logout_again(session), "a logout")
            raise

    def is_still_in(self, caller: Caller) -> bool:
        """True if the caller's token or session would still be accepted now. A long answer, such as a stream of events,
        is ended when it is not.
        """
        if caller.expires_ms and self._clock.now() >= caller.expires_ms:
            return False
        if caller.session is not None and self._is_logged_out(caller.session):
            return False
        return not caller.digest or self._by_digest(caller.digest) is not None

    def seconds_left(self, session: Session) -> int:
        return max(0, (session.expires_ms - self._clock.now()) // 1000)

    # ------------------------------------------------------------------------------------------ what is shown

    def _by_digest(self, digest: str) -> Caller | None:
        if self._admin_file is not None and self._admin_file.matches(digest):
            return Caller(ADMIN_FILE, Role.ADMIN, digest=digest)
        token = self._metadata.image.security.tokens.get(digest)
        now = self._clock.now()
        if token is None or now >= token.expires_ms:
            return None
        self._note_use(token, now)
        return Caller(f"token:{token.name}", role_of(token.role), token.expires_ms, digest)

    async def _by_provider(self, token: str) -> Caller:
        if self._provider is None or token.startswith(PREFIX):
            raise Refused("the token is not known here, has expired, or was revoked")
        try:
            # Keys may have to be fetched.
            accepted = await asyncio.to_thread(self._provider.validate, token)
        except TokenRefusedError as error:
            log.info("a provider's token is refused: %s", error)
            raise Refused(
                "the token is neither known here nor a valid one of the provider"
            ) from None
        return Caller(f"oidc:{accepted.name}", self._role_of(accepted), accepted.expires_at_ms)

    def _role_of(self, accepted: AcceptedToken) -> Role | None:
        """Return the highest role that the token's role claim names; None if it names no known role."""
        names = claimed(accepted.claims, self._settings.oidc_role_claim)
        known = self._settings.roles_of_claim
        return max((known[name] for name in names if name in known), default=None)

    # -------------------------------------------------------------------------------------------- the last use

    def _note_use(self, token: ApiToken, now: int) -> None:
        noted_ms = max(token.last_used_ms, self._used.get(token.digest, 0))
        if now - noted_ms < USE_REPORTED_EVERY_MS:
            return
        self._used[token.digest] = now
        self._used = {one: at for one, at in self._used.items() if now - at < USE_REPORTED_EVERY_MS}
        self._start_report(self._report_use(token, now), "a token's use")

    async def _report_use(self, token: ApiToken, now: int) -> None:
        """Tell the controller that a token was used. If no controller answers, only the next use an hour later is
        reported.
        """
        use = pb.ApiToken(name=token.name, digest=bytes.fromhex(token.digest), last_used_ms=now)
        request = pb.AlterApiTokensRequest(changes=[pb.AlterApiTokensRequest.Change(use=use)])
        try:
            await self._roles.ask_controller(lambda controller: controller.AlterApiTokens, request)
        except KafkaError as error:
            log.info("the use of token %s is not noted: %s", token.name, error)

    # --------------------------------------------------------------------------------------------- the logouts

    def _is_logged_out(self, session: Session) -> bool:
        """True if the session was logged out at this gateway or, as the cluster's metadata say, at another one."""
        if self.sessions.is_logged_out(session):
            return True
        security = self._metadata.image.security
        return security.is_logged_out(session.session_id, session.expires_ms)

    async def _report_logout(self, session: Session) -> None:
        """Tell the controller that a session was logged out, so that all gateways refuse it. Raises KafkaError."""
        request = pb.EndConsoleSessionRequest(time_ms=self._clock.now())
        request.session.session_id = session.session_id
        request.session.expires_ms = session.expires_ms
        answer = await self._roles.ask_controller(
            lambda controller: controller.EndConsoleSession, request
        )
        raise_for(answer.status.error_code, answer.status.error_message)

    async def _report_logout_again(self, session: Session) -> None:
        while self._clock.now() < session.expires_ms:
            await asyncio.sleep(LOGOUT_REPORTED_EVERY_S)
            with contextlib.suppress(KafkaError):
                await self._report_logout(session)
                return

    def _start_report(self, report: Coroutine[object, object, None], name: str) -> None:
        # The task has a context of its own: the request that starts it has little time left (`time_budget`).
        task = asyncio.create_task(report, name=name, context=Context())
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)


def claimed(claims: Mapping[str, object], path: str) -> list[str]:
    """Return the texts of an OIDC claim: the members of a list, or the words of one text. `path` is tried as the
    claim's name first; then its dots lead into nested claims.
    """
    found: object = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split()
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
