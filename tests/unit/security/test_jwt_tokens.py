"""Access tokens: which are accepted, and what the log says of each other one."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from oncelog.security.jwt_tokens import (
    ALGORITHMS,
    JwtValidator,
    TokenRules,
    parse_key_set,
)
from oncelog.security.sasl import AcceptedToken, TokenRefusedError

NOW = 1_800_000_000
RSA = rsa.generate_private_key(65537, 2048)
KEYS = {
    "RS256": RSA,
    "RS384": RSA,
    "RS512": RSA,
    "PS256": RSA,
    "PS384": RSA,
    "PS512": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
CLAIMS = {"iss": "https://id", "aud": "oncelog", "sub": "alice", "iat": NOW - 10, "exp": NOW + 60}
RULES = TokenRules("https://id", frozenset({"oncelog"}))


def jwk(algorithm, key=None, **more):
    """The public key as a provider publishes it."""
    public = (key or KEYS[algorithm]).public_key()
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(public, as_dict=True)
    return {**made, "kid": algorithm, **more}


def key_set(*keys):
    return json.dumps({"keys": keys})


class Published:
    """A `KeySource` of key sets that a provider publishes one after the other."""

    def __init__(self, *key_sets):
        self.parsed = [parse_key_set(one) for one in key_sets]
        self.refreshes = 0

    def keys(self):
        return self.parsed[0]

    def refresh(self):
        self.refreshes += 1
        if len(self.parsed) > 1:
            self.parsed.pop(0)
            return True
        return False


def token(claims=None, algorithm="ES256", key=None, header=None, **more):
    filled = {**(CLAIMS if claims is None else claims), **more}
    given = {name: value for name, value in filled.items() if value is not None}
    headers = {"kid": algorithm, **(header or {})}
    named = {name: value for name, value in headers.items() if value is not None}
    return jwt.encode(given, key or KEYS[algorithm], algorithm, named)


def validator(rules=RULES, source=None, now=NOW):
    return JwtValidator(rules, source or Published(key_set(jwk("ES256"))), lambda: now)


def refusal(given, **how):
    with pytest.raises(TokenRefusedError) as refused:
        validator(**how).validate(given)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_every_allowed_algorithm_verifies(algorithm):
    source = Published(key_set(jwk(algorithm)))
    accepted = validator(source=source).validate(token(algorithm=algorithm))
    assert accepted == AcceptedToken("alice", (NOW + 60) * 1000)


def test_ed448_is_an_eddsa_key():
    key = ed448.Ed448PrivateKey.generate()
    source = Published(key_set(jwk("EdDSA", key)))
    assert validator(source=source).validate(token(algorithm="EdDSA", key=key)).name == "alice"


def unsigned(**header):
    parts = [{"typ": "JWT", "kid": "ES256", **header}, CLAIMS]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts]
    return ".".join(part.decode().rstrip("=") for part in encoded) + "."


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, ["none"]])
def test_a_token_without_signature_is_refused(algorithm):
    assert "algorithm" in refusal(unsigned(alg=algorithm))


def test_a_public_key_is_no_hmac_secret():
    """The old attack: sign with HMAC, and with the provider's public key as the secret."""
    public = KEYS["ES256"].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, _ = unsigned(alg="HS256").split(".")
    signature = hmac.digest(pem, f"{head}.{body}".encode(), hashlib.sha256)
    forged = f"{head}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    assert refusal(forged) == "its algorithm 'HS256' is not allowed"


def test_a_foreign_key_with_a_known_id_is_refused():
    foreign = ec.generate_private_key(ec.SECP256R1())
    assert "Signature verification failed" in refusal(token(key=foreign))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_part_is_refused(part):
    parts = token().split(".")
    other = token({**CLAIMS, "sub": "admin"}, header={"x": "y"}).split(".")
    parts[part] = other[part]
    assert "Signature verification failed" in refusal(".".join(parts))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"exp": NOW - 30}, "it ended 30 s ago"),
        ({"exp": None}, "its claim 'exp' is no time: None"),
        ({"exp": "tomorrow"}, "its claim 'exp' is no time: 'tomorrow'"),
        ({"exp": True}, "its claim 'exp' is no time: True"),
        ({"exp": 1e300}, "its claim 'exp' is no time: 1e+300"),
        ({"iat": None}, "its claim 'iat' is no time: None"),
        ({"nbf": NOW + 31}, "it begins in 31 s"),
        ({"iss": "https://other"}, "its issuer 'https://other' is not 'https://id'"),
        ({"iss": None}, "its issuer None is not 'https://id'"),
        ({"aud": "billing"}, "its audience ['billing'] is none of ['oncelog']"),
        ({"aud": None}, "its audience [] is none of ['oncelog']"),
        ({"aud": {"a": 1}}, "its claim 'aud' is neither a text nor a list of texts"),
        ({"aud": [1]}, "its claim 'aud' is neither a text nor a list of texts"),
        ({"sub": None}, "its claim 'sub' is no text"),
        ({"sub": " "}, "its claim 'sub' is no text"),
        ({"sub": 7}, "its claim 'sub' is no text"),
    ],
)
def test_a_claim_that_does_not_fit_is_named(change, said):
    assert refusal(token(**change)) == said


@pytest.mark.parametrize(
    "change", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"iat": NOW + 5}, {"aud": ["x", "oncelog"]}]
)
def test_clocks_may_differ_by_the_skew(change):
    assert validator().validate(token(**change)).name == "alice"


def test_the_session_ends_with_the_token():
    assert validator().validate(token(exp=NOW + 1.5)).expires_at_ms == NOW * 1000 + 1500


@pytest.mark.parametrize("scope", ["read write", ["read", "write"], "write  read other"])
def test_a_required_scope_is_found(scope):
    rules = TokenRules("https://id", frozenset({"oncelog"}), required_scopes=frozenset({"read"}))
    accepted = validator(rules).validate(token(scope=scope))
    assert {"read", "write"} <= accepted.scopes


@pytest.mark.parametrize("scope", [None, "", "readwrite", "write"])
def test_a_missing_scope_is_named(scope):
    rules = TokenRules("https://id", frozenset({"oncelog"}), required_scopes=frozenset({"read"}))
    assert refusal(token(scope=scope), rules=rules) == "it lacks the scope read"


def test_other_claims_may_hold_principal_and_scope():
    rules = TokenRules(
        None,
        frozenset(),
        allows_any_issuer=True,
        allows_any_audience=True,
        principal_claim="email",
        scope_claim="scp",
    )
    accepted = validator(rules).validate(token(email="a@b.c", scp="x", iss=None, aud=None))
    assert (accepted.name, accepted.scopes) == ("a@b.c", {"x"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "it is no JSON Web Token"),
        ("a.b.c", "it is no JSON Web Token"),
        ("x" * 70_000, "it has 70000 letters; at most 65536 are read"),
    ],
)
def test_what_is_no_token_is_refused(given, said):
    assert refusal(given).startswith(said)


def test_a_token_of_an_unknown_kind_of_header_is_refused():
    assert "critical" in refusal(token(header={"crit": ["b64"], "b64": False}))


def test_an_unknown_key_id_looks_for_new_keys_once():
    new = ec.generate_private_key(ec.SECP256R1())
    source = Published(key_set(jwk("ES256")), key_set(jwk("ES256", new, kid="new")))
    checked = validator(source=source)
    assert checked.validate(token(key=new, header={"kid": "new"})).name == "alice"
    assert source.refreshes == 1
    with pytest.raises(TokenRefusedError, match="no key 'ES256' for ES256"):
        checked.validate(token())
    assert source.refreshes == 2


def test_without_a_key_id_the_only_fitting_key_counts():
    source = Published(key_set(jwk("ES256"), jwk("RS256")))
    assert validator(source=source).validate(token(header={"kid": None})).name == "alice"
    two = Published(key_set(jwk("ES256"), jwk("ES256", kid="2")))
    assert refusal(token(header={"kid": None}), source=two).startswith("2 keys of the provider fit")


@pytest.mark.parametrize(
    "published",
    [
        jwk("RS256", kid="ES256"),
        jwk("ES384", kid="ES256"),
        jwk("RS256", kid="ES256", alg="ES256"),
    ],
)
def test_a_key_of_another_kind_does_not_count(published):
    assert refusal(token(), source=Published(key_set(published))) == (
        "the provider has no key 'ES256' for ES256"
    )


def test_a_key_serves_its_own_algorithm_alone():
    source = Published(key_set(jwk("RS256", alg="RS256", kid="one")))
    good = token(algorithm="RS256", header={"kid": "one"})
    assert validator(source=source).validate(good).name == "alice"
    other = token(algorithm="PS256", header={"kid": "one"})
    assert refusal(other, source=source) == "the provider has no key 'one' for PS256"


def test_keys_that_cannot_verify_are_left_out():
    small = rsa.generate_private_key(65537, 1024)
    left_out = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "hmac"},
        jwk("RS256", small, kid="small"),
        jwk("ES256", use="enc"),
        jwk("ES256", alg="ECDH-ES"),
        {"kty": "EC", "crv": "secp256k1", "kid": "bitcoin"},
        {"kty": "EC", "crv": ["P-256"]},
        {"kty": "new"},
        "text",
    ]
    assert [key.kid for key in parse_key_set(key_set(*left_out, jwk("ES256")))] == ["ES256"]
    with pytest.raises(ValueError, match="none of its 7 keys can verify"):
        parse_key_set(key_set(*left_out))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 7}', "{", '"keys"', b"\xff"])
def test_what_is_no_key_set_is_refused(text):
    with pytest.raises(ValueError, match="no JSON Web Key Set"):
        parse_key_set(text)


def test_a_damaged_key_is_named():
    with pytest.raises(ValueError, match="its key 'ES256' is damaged"):
        parse_key_set(key_set(jwk("ES256", x="AAAA")))


def test_a_key_set_has_a_bound():
    with pytest.raises(ValueError, match="101 keys; at most 100"):
        parse_key_set(key_set(*[jwk("ES256")] * 101))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": None}, "need an expected issuer"),
        ({"issuer": ""}, "need an expected issuer"),
        ({"audiences": frozenset()}, "need an expected audience"),
        ({"clock_skew_s": 601}, "a clock skew of 601 s"),
        ({"algorithms": frozenset({"HS256"})}, r"\['HS256'\]"),
        ({"algorithms": frozenset({"none"})}, r"\['none'\]"),
        ({"algorithms": frozenset()}, "choose of"),
    ],
)
def test_rules_that_let_too_much_in_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        TokenRules(**{"issuer": "https://id", "audiences": frozenset({"oncelog"}), **given})
