"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84), both sides.

```
client                                             server
n,,n=alice,r=<client nonce>           ──────────▶  looks up alice's credential
                                      ◀──────────  r=<client nonce><server nonce>,s=<salt>,i=<iterations>
c=biws,r=<both nonces>,p=<proof>      ──────────▶  H(proof XOR HMAC(stored key, messages)) == stored key?
                                      ◀──────────  v=HMAC(server key, messages)
```

The proof covers every byte of the messages before it, and both sides choose a nonce. So a changed byte and a replayed
message are refused. An unknown user gets a salt too, always the same one (`scram_salts.py`). The refusal comes with the
second message, as for a wrong password. Kafka refuses an unknown user at the first message, which shows who exists.

As in Kafka, passwords are taken as their UTF-8 bytes without SASLprep, user names are ASCII, and there is no channel
binding. Delegation tokens are not supported.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from oncelog.security.principal import Principal
from oncelog.security.sasl import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    IllegalSaslStateError,
    SaslAuthenticationError,
    SaslServer,
    ScramCredential,
)
from oncelog.security.scram_salts import SALT_BITS, salt_of

HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
"""Kafka's largest number of iterations of a stored credential."""
ITERATIONS_CLIENT_MAX = 1_000_000
"""The most iterations that a client computes, whatever a server wants: half a second."""

_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_BASE_64 = r"[a-zA-Z0-9/+]*={0,2}"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE_64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<covered>c=(?P<binding>{_BASE_64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE_64})",
    re.DOTALL,
)
_SERVER_FINAL = re.compile(
    rf"v=(?P<signature>{_BASE_64}){_EXTENSIONS}|e=(?P<error>[\x01-\x2b\x2d-\x3c\x3e-\x7f]+)",
    re.DOTALL,
)
_NO_BINDING = "n,,"


def make_credential(
    mechanism: str, password: str, iterations: int = ITERATIONS_MIN, salt: bytes | None = None
) -> ScramCredential:
    """Return what a server stores of this password (salt and derived keys), so that it can check a login."""
    salt = new_salt() if salt is None else salt
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def new_salt() -> bytes:
    """Return a new random salt, in the form that unknown users get, too. Another form would show that its user
    exists."""
    return salt_of(secrets.randbits(SALT_BITS))


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, which an administrator sends instead of the password. Raises ValueError for
    iterations that no server stores."""
    _check_iterations(iterations)
    return _salted_password(mechanism, password, salt, iterations)


def credential_of_salted_password(
    mechanism: str, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a server stores of a salted password, which `AlterUserScramCredentials` carries (KIP-554)."""
    _check_iterations(iterations)
    _, stored_key, server_key = _keys(mechanism, salted_password)
    return ScramCredential(salt, stored_key, server_key, iterations)


class ScramServer(SaslServer):
    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential | None],
        *,
        unknown_salt: Callable[[str], tuple[bytes, int]],
        is_reauthentication: bool = False,
        nonce: str | None = None,
    ) -> None:
        super().__init__(mechanism, is_reauthentication=is_reauthentication)
        self._find = find
        self._unknown_salt = unknown_salt
        self._server_nonce = _nonce() if nonce is None else nonce
        self._next: Callable[[str], str] | None = self._client_first
        # Parts of the first message, for the second one.
        self._user = self._gs2 = self._messages = self._nonce = ""
        self._credential = ScramCredential(b"", b"", b"", 0)
        self._is_known = False

    def evaluate(self, message: bytes) -> bytes:
        step = self._next
        if step is None:
            raise IllegalSaslStateError(f"the {self._mechanism} exchange has ended")
        self._next = None  # a refused exchange cannot go on
        try:
            text = message.decode("ascii")
        except UnicodeDecodeError:
            raise self._refused("a message is not ASCII") from None
        return step(text).encode("ascii")

    def _client_first(self, text: str) -> str:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise self._refused("the client's first message is malformed")
        if re.search(r",tokenauth=true(?:,|$)", first["extensions"], re.IGNORECASE):
            raise SaslAuthenticationError(
                "Authentication failed: delegation tokens (tokenauth) are not supported; use a user's password"
            )
        user = _user_name(first["name"])
        if first["authzid"] is not None and _user_name(first["authzid"]) != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential = self._find(user)
        self._is_known = credential is not None and credential.iterations >= ITERATIONS_MIN
        if credential is None or not self._is_known:
            credential = self._of_unknown(user)
        self._user, self._gs2, self._credential = user, first["gs2"], credential
        self._nonce = first["nonce"] + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{first['bare']},{answer}"
        self._next = self._client_final
        return answer

    def _client_final(self, text: str) -> str:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise self._refused("the client's final message is malformed")
        if final["nonce"] != self._nonce:
            raise self._refused("the nonce is of another exchange")
        # Kafka's client leaves the authorization id out here.
        if _decoded(final["binding"]) not in (self._gs2.encode(), _NO_BINDING.encode()):
            raise self._refused("the channel binding is not the one of the first message")
        messages = f"{self._messages},{final['covered']}".encode()
        signature = _hmac(self._mechanism, self._credential.stored_key, messages)
        proof = _decoded(final["proof"])
        if proof is None or len(proof) != len(signature):
            raise self._refused("the proof is malformed")
        client_key = _xor(proof, signature)
        stored_key = _hash(self._mechanism, client_key)
        is_right = hmac.compare_digest(stored_key, self._credential.stored_key)
        if not self._is_known:
            raise self._refused(f"user {self._user[:100]!r} has no credential here")
        if not is_right:
            raise self._refused(f"wrong password of user {self._user[:100]!r}")
        self._principal = Principal.user(self._user)
        verifier = _hmac(self._mechanism, self._credential.server_key, messages)
        return f"v={base64.b64encode(verifier).decode()}"

    def _of_unknown(self, user: str) -> ScramCredential:
        salt, iterations = self._unknown_salt(user)
        nobodys_key = secrets.token_bytes(hashlib.new(HASHES[self._mechanism]).digest_size)
        return ScramCredential(salt, nobodys_key, nobodys_key, iterations)


class ScramClient:
    """The client's side of one login by SCRAM. It also checks that the server knows the password."""

    def __init__(
        self, mechanism: str, user: str, password: str, *, nonce: str | None = None
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = _nonce() if nonce is None else nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        if not re.fullmatch(_SASL_NAME, name, re.DOTALL):
            raise ValueError(
                f"user name {user!r}: SCRAM takes one or more ASCII characters, as Kafka"
            )
        self._bare = f"n={name},r={self._nonce}"
        self._verifier = b""
        self._next: Callable[[str], str] | None = self._first
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes:
        step = self._next
        if step is None:
            raise IllegalSaslStateError(f"the {self._mechanism} exchange has ended")
        self._next = None
        return step(challenge.decode("ascii", "replace")).encode("ascii")

    def _first(self, challenge: str) -> str:
        if challenge:
            raise self._refused("it spoke before the client's first message")
        self._next = self._final
        return _NO_BINDING + self._bare

    def _final(self, challenge: str) -> str:
        first = _SERVER_FIRST.fullmatch(challenge)
        salt = first and _decoded(first["salt"])
        if first is None or salt is None:
            raise self._refused("its first message is malformed")
        iterations = int(first["iterations"])
        if not first["nonce"].startswith(self._nonce) or first["nonce"] == self._nonce:
            raise self._refused("its nonce does not extend the client's nonce")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_CLIENT_MAX:
            raise self._refused(
                f"it wants {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_CLIENT_MAX} are allowed"
            )
        salted = _salted_password(self._mechanism, self._password, salt, iterations)
        client_key, stored_key, server_key = _keys(self._mechanism, salted)
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        covered = f"c={binding},r={first['nonce']}"
        messages = f"{self._bare},{challenge},{covered}".encode()
        proof = _xor(client_key, _hmac(self._mechanism, stored_key, messages))
        self._verifier = _hmac(self._mechanism, server_key, messages)
        self._next = self._verify
        return f"{covered},p={base64.b64encode(proof).decode()}"

    def _verify(self, challenge: str) -> str:
        final = _SERVER_FINAL.fullmatch(challenge)
        if final is None:
            raise self._refused("its final message is malformed")
        if final["error"] is not None:
            raise self._refused(f"it says {final['error']}")
        signature = _decoded(final["signature"])
        if signature is None or not hmac.compare_digest(signature, self._verifier):
            raise self._refused("it does not know the password")
        self.is_complete = True
        return ""

    def _refused(self, reason: str) -> SaslAuthenticationError:
        return SaslAuthenticationError(f"{self._mechanism}: the server cannot be trusted: {reason}")


def _check_iterations(iterations: int) -> None:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(
            f"{iterations} iterations: SCRAM takes {ITERATIONS_MIN} to {ITERATIONS_MAX}, as in Kafka"
        )


def _salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    try:
        encoded = password.encode()
    except UnicodeEncodeError:  # its text would show a part of the password
        raise ValueError("the password holds half a surrogate pair: it has no UTF-8 form") from None
    return hashlib.pbkdf2_hmac(HASHES[mechanism], encoded, salt, iterations)


def _keys(mechanism: str, salted_password: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the client key, the stored key and the server key of a salted password."""
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    server_key = _hmac(mechanism, salted_password, b"Server Key")
    return client_key, _hash(mechanism, client_key), server_key


def _hash(mechanism: str, message: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], message).digest()


def _user_name(sasl_name: str) -> str:
    """Return the user of a SASL name. The comma is decoded first: `=3D2C` is the user `=2C`, and not a comma."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def _decoded(text: str) -> bytes | None:
    """Decode base64, and return the bytes. None unless it is the one way to write them: a changed last letter is a
    changed message."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None


def _nonce() -> str:
    return secrets.token_hex(16)
