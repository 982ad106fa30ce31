"""Access tokens: JSON Web Tokens that a provider signed, checked against the keys that it publishes.

A token is accepted when all of this holds:

- its algorithm is one of ten with a public key (never `none`, never an HMAC), and so is the key's type and curve;
- a key of the provider, found by `kid`, made its signature;
- `iss` is the provider, `aud` names this cluster, and `scope` holds what is required;
- it carries `exp` and `iat`, has not ended, and `nbf` has passed, give or take the clock skew;
- the principal's claim is a text.

The texts of `TokenRefusedError` are for our log. The client reads `invalid_token`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from oncelog.security.sasl import AcceptedToken, TokenRefusedError

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

ALGORITHMS: Mapping[str, tuple[str, frozenset[str | None]]] = {
    **{name: ("RSA", frozenset({None})) for name in ("RS256", "RS384", "RS512")},
    **{name: ("RSA", frozenset({None})) for name in ("PS256", "PS384", "PS512")},
    "ES256": ("EC", frozenset({"P-256"})),
    "ES384": ("EC", frozenset({"P-384"})),
    "ES512": ("EC", frozenset({"P-521"})),
    "EdDSA": ("OKP", frozenset({"Ed25519", "Ed448"})),
}
"""Algorithm → the type and the curves of its keys."""

RSA_BITS_MIN = 2048
TOKEN_LETTERS_MAX = 65_536
KEYS_MAX = 100


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of the token provider, with which its signatures are checked."""

    kid: str | None
    kty: str
    crv: str | None
    algorithm: str | None
    """The one algorithm that the key may be used with, if the provider names one."""
    key: "AllowedPublicKeys" = field(repr=False)

    def fits(self, algorithm: str) -> bool:
        kty, curves = ALGORITHMS[algorithm]
        is_allowed = self.algorithm in (None, algorithm)
        return is_allowed and self.kty == kty and self.crv in curves


class KeySource(Protocol):
    """The interface through which a validator gets the provider's keys. Both methods may wait for the provider, and
    raise `TokenRefusedError`."""

    def keys(self) -> tuple[VerificationKey, ...]: ...

    def refresh(self) -> bool:
        """Look for new keys now, unless that was done a moment ago. True: `keys` may have changed."""
        ...


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The settings by which tokens are accepted: issuer, audience, scope and more. As in Kafka, a rule for issuer and
    audience must be given or waived."""

    issuer: str | None
    audiences: frozenset[str]
    allows_any_issuer: bool = False
    allows_any_audience: bool = False
    required_scopes: frozenset[str] = frozenset()
    scope_claim: str = "scope"
    principal_claim: str = "sub"
    clock_skew_s: int = 30
    algorithms: frozenset[str] = frozenset(ALGORITHMS)

    def __post_init__(self) -> None:
        unknown = sorted(self.algorithms - ALGORITHMS.keys())
        if unknown or not self.algorithms:
            raise ValueError(
                f"token algorithms {unknown}: choose of {', '.join(ALGORITHMS)}; none and HS* prove nothing here"
            )
        if not self.issuer and not self.allows_any_issuer:
            raise ValueError(
                "tokens need an expected issuer (the provider's URL), or allow any issuer explicitly"
            )
        if not self.audiences and not self.allows_any_audience:
            raise ValueError(
                "tokens need an expected audience (this cluster's name at the provider), or allow any explicitly"
            )
        if not 0 <= self.clock_skew_s <= 600:
            raise ValueError(f"a clock skew of {self.clock_skew_s} s: 0 to 600 are allowed")


class JwtValidator:
    """Checks access tokens (JWT) by the rules and the provider's keys."""

    def __init__(self, rules: TokenRules, source: KeySource, clock: Callable[[], float]) -> None:
        """Keep the rules and the keys. `clock` returns the wall clock in seconds."""
        self._rules, self._source, self._clock = rules, source, clock

    def validate(self, token: str) -> AcceptedToken:
        import jwt

        if len(token) > TOKEN_LETTERS_MAX:
            raise TokenRefusedError(
                f"it has {len(token)} letters; at most {TOKEN_LETTERS_MAX} are read"
            )
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise TokenRefusedError(f"it is no JSON Web Token: {error}") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            raise TokenRefusedError(f"its algorithm {algorithm!r} is not allowed")
        if "crit" in header:
            raise TokenRefusedError(
                f"it has critical headers that are not known: {header['crit']!r}"
            )
        key = self._key(algorithm, kid)
        checked_below = ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
        try:
            claims: dict[str, object] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                options={f"verify_{claim}": False for claim in checked_below},  # type: ignore[arg-type]
            )
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise TokenRefusedError(f"{error} (key {kid!r}, {algorithm})") from None
        return self._accept(claims)

    def _key(self, algorithm: str, kid: object) -> VerificationKey:
        def fitting() -> list[VerificationKey]:
            keys = self._source.keys()
            return [key for key in keys if key.fits(algorithm) and kid in (None, key.kid)]

        found = fitting()
        if not found and self._source.refresh():
            found = fitting()
        if not found:
            raise TokenRefusedError(f"the provider has no key {kid!r} for {algorithm}")
        if len(found) > 1:
            raise TokenRefusedError(f"{len(found)} keys of the provider fit the key id {kid!r}")
        return found[0]

    def _accept(self, claims: dict[str, object]) -> AcceptedToken:
        rules, now = self._rules, self._clock()
        expires = _time(claims, "exp")
        _time(claims, "iat")
        if now >= expires + rules.clock_skew_s:
            raise TokenRefusedError(f"it ended {now - expires:.0f} s ago")
        if "nbf" in claims and _time(claims, "nbf") > now + rules.clock_skew_s:
            raise TokenRefusedError(f"it begins in {_time(claims, 'nbf') - now:.0f} s")
        if not rules.allows_any_issuer and claims.get("iss") != rules.issuer:
            raise TokenRefusedError(f"its issuer {claims.get('iss')!r} is not {rules.issuer!r}")
        audiences = _texts(claims, "aud")
        if not rules.allows_any_audience and not rules.audiences.intersection(audiences):
            raise TokenRefusedError(
                f"its audience {audiences} is none of {sorted(rules.audiences)}"
            )
        scopes = frozenset(" ".join(_texts(claims, rules.scope_claim)).split())
        if not rules.required_scopes <= scopes:
            missing = sorted(rules.required_scopes - scopes)
            raise TokenRefusedError(f"it lacks the scope {', '.join(missing)}")
        name = claims.get(rules.principal_claim)
        if not isinstance(name, str) or not name.strip():
            raise TokenRefusedError(f"its claim {rules.principal_claim!r} is no text")
        return AcceptedToken(name.strip(), int(expires * 1000), scopes, claims)


def parse_key_set(text: str | bytes) -> tuple[VerificationKey, ...]:
    """Return the keys in a JWKS (RFC 7517) that can verify signatures. Raises ValueError."""
    try:
        found = json.loads(text)["keys"]
        listed = [entry for entry in found if isinstance(entry, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('it is no JSON Web Key Set: {"keys": [...]}') from None
    if len(listed) > KEYS_MAX:
        raise ValueError(f"it has {len(listed)} keys; at most {KEYS_MAX} are read")
    # Providers list keys for encryption, and of new types, beside those for signatures: these are left out.
    keys = tuple(key for entry in listed if (key := _parse_key(entry)) is not None)
    if not keys:
        raise ValueError(
            f"none of its {len(listed)} keys can verify a token (RSA of {RSA_BITS_MIN} bits, EC or OKP)"
        )
    return keys


def _parse_key(entry: dict[str, object]) -> VerificationKey | None:
    import jwt

    kty, crv, kid, algorithm = (entry.get(name) for name in ("kty", "crv", "kid", "alg"))
    if not isinstance(crv, str | None):
        return None
    if not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        return None
    is_known = any(kty == known and crv in curves for known, curves in ALGORITHMS.values())
    if not is_known or entry.get("use", "sig") != "sig":
        return None
    if algorithm is not None and algorithm not in ALGORITHMS:
        return None
    public = {name: value for name, value in entry.items() if name not in ("d", "alg")}
    default = next(
        name for name, (known, curves) in ALGORITHMS.items() if known == kty and crv in curves
    )
    try:
        key = jwt.PyJWK.from_dict(public, default).key
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise ValueError(f"its key {kid!r} is damaged: {error}") from None
    if kty == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    return VerificationKey(kid, str(kty), crv, algorithm, key)


def _time(claims: Mapping[str, object], claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise TokenRefusedError(f"its claim {claim!r} is no time: {value!r}")
    return value


def _texts(claims: Mapping[str, object], claim: str) -> list[str]:
    """Return the values of a claim as a list: the claim is a text, a list of texts, or absent. Raises TokenRefusedError
    for another type."""
    value = claims.get(claim, [])
    values: object = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise TokenRefusedError(f"its claim {claim!r} is neither a text nor a list of texts")
    return values
