"""A provider of access tokens for tests: its keys, and the tokens that it signs."""

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

NOW_S = 1_800_000_000
CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
ISSUER = "https://login.example.org"
AUDIENCE = "oncelog"


def make_key(algorithm, bits=2048):
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "Ed448":
        return ed448.Ed448PrivateKey.generate()
    return rsa.generate_private_key(65537, bits)


def jwk_of(key, kid, **more):
    """The public half, as a provider publishes it."""
    if isinstance(key, rsa.RSAPrivateKey):
        kind = jwt.algorithms.RSAAlgorithm
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        kind = jwt.algorithms.ECAlgorithm
    else:
        kind = jwt.algorithms.OKPAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, **more}


def key_set(*keys):
    return json.dumps({"keys": keys})


def claims_of(now_s=NOW_S, **changed):
    """A claim that is changed to None is left out."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": now_s - 10,
        "exp": now_s + 600,
        **changed,
    }
    return {name: value for name, value in claims.items() if value is not None}


def sign(key, algorithm="ES256", kid="first", headers=None, **changed):
    return jwt.encode(claims_of(**changed), key, algorithm, headers={"kid": kid, **(headers or {})})
