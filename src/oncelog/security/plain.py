"""PLAIN (RFC 4616), both sides: one message with the user and the password in clear. Use it over TLS only.

Users come from a file with one user a line. `{SCRYPT}` holds a hash, `{PLAIN}` the password itself:

```
# who may log in with PLAIN
alice:{SCRYPT}ln=14,r=8,p=1$c29tZSBzYWx0$Z2Vu...
bob:{PLAIN}a password, up to the end of the line
```

Every refusal costs one scrypt, also of a user who does not exist or has a `{PLAIN}` password: the time of an answer
does not show who exists. So `evaluate` may take some tens of milliseconds.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog.security.principal import Principal
from oncelog.security.sasl import (
    PLAIN,
    IllegalSaslStateError,
    PasswordVerifier,
    SaslAuthenticationError,
    SaslServer,
)

# The parameters of scrypt's authors for a login: 16 MiB and about 40 ms. The file names them, so a hash may cost more.
_LOG_N, _R, _P = 14, 8, 1
_LOG_N_MAX, _R_MAX, _P_MAX = 17, 16, 16
_SCRYPT = re.compile(
    r"ln=(?P<log_n>\d{1,2}),r=(?P<r>\d{1,2}),p=(?P<p>\d{1,2})\$(?P<salt>[^$]+)\$(?P<hash>[^$]+)"
)
_MEMO_KEY = secrets.token_bytes(32)


@dataclass(slots=True)
class ScryptPassword:
    """The scrypt hash of a password, as the users file has it. A password that matched once is later recognised by a
    fast keyed hash.

    So a thousand clients that reconnect at once do not cost a thousand scrypts.
    """

    log_n: int
    r: int
    p: int
    salt: bytes = field(repr=False)
    hashed: bytes = field(repr=False)
    _memo: bytes = field(default=b"", repr=False, compare=False)

    def matches(self, password: str) -> bool:
        memo = hmac.digest(_MEMO_KEY, _encoded(password), "sha256")
        if hmac.compare_digest(memo, self._memo):
            return True
        hashed = _scrypt(password, self.salt, self.log_n, self.r, self.p, len(self.hashed))
        is_right = hmac.compare_digest(hashed, self.hashed)
        if is_right:
            self._memo = memo
        return is_right


@dataclass(frozen=True, slots=True)
class ClearPassword:
    password: str = field(repr=False)

    def matches(self, password: str) -> bool:
        if hmac.compare_digest(_encoded(password), _encoded(self.password)):
            return True
        return nobodys_password.matches(password)


def hash_password(password: str) -> str:
    """Return the scrypt hash of a password, as the users file has it behind a user's name."""
    salt = secrets.token_bytes(16)
    hashed = _scrypt(password, salt, _LOG_N, _R, _P, 32)
    written = [base64.b64encode(part).decode() for part in (salt, hashed)]
    return f"{{SCRYPT}}ln={_LOG_N},r={_R},p={_P}${'$'.join(written)}"


def parse_users(text: str, file: str) -> dict[str, PasswordVerifier]:
    """Return the users in the text of a users file.
    Raises ValueError with the file and the line, never with a password."""
    users: dict[str, PasswordVerifier] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, verifier = line.partition(":")
        try:
            if not colon or not user:
                raise ValueError("write user:{SCRYPT}hash or user:{PLAIN}password")
            if user in users:
                raise ValueError(f"user {user!r} is there twice")
            users[user] = _parse_verifier(verifier)
        except ValueError as error:
            raise ValueError(f"{file}, line {number}: {error}") from None
    return users


def _parse_verifier(text: str) -> PasswordVerifier:
    if text.startswith("{PLAIN}"):
        password = text.removeprefix("{PLAIN}")
        if not password:
            raise ValueError("the password is empty")
        return ClearPassword(password)
    if not text.startswith("{SCRYPT}"):
        raise ValueError("the user's password begins with neither {SCRYPT} nor {PLAIN}")
    parts = _SCRYPT.fullmatch(text.removeprefix("{SCRYPT}"))
    if parts is None:
        raise ValueError("a hash has the form {SCRYPT}ln=14,r=8,p=1$salt$hash")
    log_n, r, p = int(parts["log_n"]), int(parts["r"]), int(parts["p"])
    if not (1 <= log_n <= _LOG_N_MAX and 1 <= r <= _R_MAX and 1 <= p <= _P_MAX):
        raise ValueError(
            f"ln={log_n},r={r},p={p} is out of bounds: at most ln={_LOG_N_MAX},r={_R_MAX},p={_P_MAX}"
        )
    try:
        salt, hashed = (base64.b64decode(parts[name], validate=True) for name in ("salt", "hash"))
    except binascii.Error:
        raise ValueError("the salt and the hash are written in base64") from None
    if len(hashed) < 16:
        raise ValueError(f"the hash has {len(hashed)} bytes; at least 16 are needed")
    return ScryptPassword(log_n, r, p, salt, hashed)


class PlainServer(SaslServer):
    may_block = True

    def __init__(self, find: Callable[[str], PasswordVerifier | None]) -> None:
        super().__init__(PLAIN)
        self._find = find
        self._has_ended = False

    def evaluate(self, message: bytes) -> bytes:
        if self._has_ended:
            raise IllegalSaslStateError("the PLAIN exchange has ended")
        self._has_ended = True
        tokens = message.decode("utf-8", "replace").split("\0", 3)
        if len(tokens) != 3:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}"
            )
        authorization_id, user, password = tokens
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        verifier = self._find(user)
        if not (verifier or nobodys_password).matches(password):
            raise SaslAuthenticationError(
                "Authentication failed: Invalid username or password",
                f"wrong password of {PLAIN} user {user[:100]!r}"
                if verifier
                else f"no {PLAIN} user is named {user[:100]!r}",
            )
        if authorization_id not in ("", user):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._principal = Principal.user(user)
        return b""


class PlainClient:
    """The client's side of one login by PLAIN."""

    def __init__(self, user: str, password: str) -> None:
        if not user or "\0" in user:
            raise ValueError(f"user name {user!r}: PLAIN takes one or more characters but NUL")
        if not password or "\0" in password:
            raise ValueError(f"the password of user {user!r} is empty or holds a NUL")
        self._message = f"\0{user}\0{password}".encode()
        self._is_sent = False
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes:
        if self.is_complete:
            raise IllegalSaslStateError("the PLAIN exchange has ended")
        if challenge:
            raise SaslAuthenticationError("PLAIN: the server sent a challenge; PLAIN has none")
        self.is_complete = self._is_sent
        message = b"" if self._is_sent else self._message
        self._is_sent = True
        return message


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    memory = 128 * r * (2**log_n + p + 2)
    return hashlib.scrypt(
        _encoded(password), salt=salt, n=2**log_n, r=r, p=p, maxmem=2 * memory, dklen=length
    )


nobodys_password = ScryptPassword(_LOG_N, _R, _P, secrets.token_bytes(16), secrets.token_bytes(32))
"""A password hash that no password matches. The check costs as much as for a user's password."""
