"""Sessions of the console: a cookie that the gateway signs, so that no gateway has to store sessions.

The cookie names who logged in and by what, and contains no token. The key that signs it is derived from the admin token
file, which all gateways share. Without that file each gateway draws a key of its own, and only that gateway knows its
sessions, until it ends. The key is not in the journal, so an attacker who reads the journal cannot make a cookie.
"""

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

from oncelog.ids import Millis

COOKIE_LENGTH_MAX: Final = 4_096
LOGGED_OUT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    session_id: str
    name: str
    """The caller's name, as the audit log has it."""
    role: str
    digest: str
    """Digest of the API token or of the admin token. Empty: the login was by a provider's token, whose end ends the
    session.
    """
    expires_ms: int


class Sessions:
    def __init__(self, key: Callable[[], bytes] | None) -> None:
        own = secrets.token_bytes(32)
        self._key = key or (lambda: own)
        self._logged_out: dict[str, int] = {}

    def open(self, name: str, role: str, digest: str, expires_ms: int) -> Session:
        return Session(secrets.token_hex(16), name, role, digest, expires_ms)

    def sealed(self, session: Session) -> str:
        content = urlsafe_b64encode(json.dumps(asdict(session)).encode())
        return (content + b"." + self._signed(b"session", content)).decode()

    def read(self, cookie: str, now: Millis) -> Session | None:
        """Return the session that a cookie holds. None: its signature is wrong, it has expired, or it was logged out at
        this gateway.
        """
        content, _, signature = cookie.encode("latin-1", "replace").partition(b".")
        if len(cookie) > COOKIE_LENGTH_MAX:
            return None
        if not hmac.compare_digest(self._signed(b"session", content), signature):
            return None
        session = Session(**json.loads(urlsafe_b64decode(content)))
        if now >= session.expires_ms or self.is_logged_out(session):
            return None
        return session

    def csrf_token(self, session: Session) -> str:
        """Return the token that each changing request of this session must carry. Only the console's own pages can read
        it, so another site cannot send such requests.
        """
        return self._signed(b"csrf", session.session_id.encode()).decode()

    def is_csrf_token(self, session: Session, shown: str) -> bool:
        expected = self._signed(b"csrf", session.session_id.encode())
        return hmac.compare_digest(expected, shown.encode("latin-1", "replace"))

    def log_out(self, session: Session, now: Millis) -> None:
        """End a session at this gateway. The other gateways learn it from the controller's journal."""
        for one in [one for one, ends in self._logged_out.items() if ends <= now]:
            del self._logged_out[one]
        self._logged_out[session.session_id] = session.expires_ms
        if len(self._logged_out) > LOGGED_OUT_MAX:
            del self._logged_out[next(iter(self._logged_out))]

    def is_logged_out(self, session: Session) -> bool:
        """True if the session was logged out at this gateway."""
        return session.session_id in self._logged_out

    def _signed(self, what: bytes, content: bytes) -> bytes:
        return hmac.digest(self._key(), what + b" " + content, sha256).hex().encode()
