"""Access tokens and key sets.

The first byte says what follows: a token as a client sends it; or the claims of one, which the provider signs; or the
key set that the provider publishes.
"""

import json
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

from oncelog.security.jwt_tokens import JwtValidator, TokenRules, parse_key_set
from oncelog.security.sasl import TokenRefusedError

NOW = 1_800_000_000
RAW, CLAIMS, KEY_SET = range(3)
GOOD = {"iss": "https://id", "aud": "oncelog", "sub": "alice", "iat": NOW - 10, "exp": NOW + 60}


@cache
def key():
    return ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@cache
def key_set():
    public = jwt.get_algorithm_by_name("EdDSA").to_jwk(key().public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": "1"}]})


class Published:
    def keys(self):
        return parse_key_set(key_set())

    def refresh(self):
        return False


@cache
def validator():
    return JwtValidator(TokenRules("https://id", frozenset({"oncelog"})), Published(), lambda: NOW)


def fed(data):
    kind, rest = data[:1], data[1:]
    if not kind:
        return False
    if kind[0] % 3 == KEY_SET:
        try:
            return bool(parse_key_set(rest))
        except ValueError:
            return False
    if kind[0] % 3 == RAW:
        token = rest.decode("utf-8", "replace")
    else:
        token = jwt.api_jws.encode(rest, key(), "EdDSA", headers={"kid": "1"})
    try:
        accepted = validator().validate(token)
    except TokenRefusedError:
        return False
    assert accepted.name.strip()
    return True


def seeds():
    signed = jwt.encode(GOOD, key(), "EdDSA", headers={"kid": "1"})
    more = {**GOOD, "aud": ["oncelog", "other"], "nbf": NOW, "scope": "a b"}
    return [
        bytes([RAW]) + signed.encode(),
        bytes([CLAIMS]) + json.dumps(GOOD).encode(),
        bytes([CLAIMS]) + json.dumps(more).encode(),
        bytes([KEY_SET]) + key_set().encode(),
    ]
