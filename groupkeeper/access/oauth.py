"""OAUTHBEARER: the client brings a token (JWT) that an issuer has signed.

Only signatures with public keys are accepted: an algorithm is one of RS, PS and ES, and nothing in
a token can choose another. joserfc verifies, on a thread. Which claims are checked, and how, is
Kafka's: `exp` and `iat` are required, `iss` and `aud` are compared with what is expected, and a
token with an audience is refused if none is expected.

Source: RFC 7628, RFC 7519; Kafka's `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse`,
`ValidatorAccessTokenValidator`; KIP-768.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.access.jwks import JsonWebKey, Jwks
from groupkeeper.access.sasl import SaslFailed, SaslStep, told

ALGORITHMS: Final = tuple(
    f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)
)
INVALID: Final = '{"status":"invalid_token"}'
"""The server's challenge after a token that is not accepted; the client answers with one byte."""
AGAIN: Final = b"\x01"
HEADER_BYTES: Final = 8 * 1024
"""Longest header of a token."""
TOKEN_BYTES: Final = 128 * 1024
"""Longest token that is verified."""
MESSAGE_BYTES: Final = TOKEN_BYTES + HEADER_BYTES
"""Longest message of a client: a token, a name and extensions."""

_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_PAIRS: Final = r"(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01){0,100}+"
_FIRST: Final = re.compile(rf"n,(?:a=({_SASLNAME}))?,\x01({_PAIRS})\x01", re.DOTALL)
_AUTH: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


@dataclass(slots=True, frozen=True)
class TokenRules:
    """The claims that a token must have."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    skew_s: int = 30
    """Difference of clocks that is allowed."""
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class Bearer:
    """The owner of an accepted token."""

    __slots__ = ("expires_ms", "name")

    def __init__(self, name: str, expires_ms: int) -> None:
        self.name = name
        self.expires_ms = expires_ms


class UnknownKeyError(SaslFailed):
    """The token names a key that is not in the set."""


Validate = Callable[[str], Awaitable[Bearer]]
"""Verifies a token. Raises SaslFailed."""


def verified(token: str, keys: Sequence[JsonWebKey], rules: TokenRules, now_s: float) -> Bearer:
    """Verify a token, on a thread. Raises SaslFailed. `now_s`: Unix time."""
    if len(token) > TOKEN_BYTES:
        raise SaslFailed(f"a token of more than {TOKEN_BYTES} bytes")
    return _bearer(_claims(token, keys), rules, now_s)


def _claims(token: str, keys: Sequence[JsonWebKey]) -> dict[str, Any]:
    """Return the claims of a token whose signature is right."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    header = _header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise SaslFailed("a token with an algorithm that is not accepted")
    kind = "EC" if algorithm.startswith("ES") else "RSA"
    fitting = [each for each in keys if each.key_type == kind and (not kid or each.kid == kid)]
    if not fitting:
        raise UnknownKeyError("a token that is signed with an unknown key")
    registry = JWSRegistry(algorithms=[algorithm])
    registry.max_header_length = HEADER_BYTES
    why = ""
    for key in fitting:
        try:
            return dict(jwt.decode(token, key, registry=registry).claims)
        except (JoseError, ValueError, TypeError) as error:
            why = f"{type(error).__name__}"
    raise SaslFailed(f"a token that cannot be verified ({why})")


def _header(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != len(("header", "payload", "signature")):
        raise SaslFailed("a token that is not a signed JWT")
    try:
        header = json.loads(urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise SaslFailed("a token without a header")
    return header


def _bearer(claims: dict[str, Any], rules: TokenRules, now_s: float) -> Bearer:
    """Check claims, in the order of jose4j and Kafka."""
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    begins = _time(claims, "nbf") if "nbf" in claims else issued
    if now_s - rules.skew_s >= expires:
        raise SaslFailed("a token that has expired")
    if "nbf" in claims and now_s + rules.skew_s < begins:
        raise SaslFailed("a token that is not valid yet")
    if expires < max(issued, begins):
        raise SaslFailed("a token that ends before it begins")
    if ("aud" in claims or rules.audiences) and not _audiences(claims) & rules.audiences:
        raise SaslFailed("a token for another audience")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise SaslFailed("a token of another issuer")
    _check_scope(claims.get(rules.scope_claim), rules.scope_claim)
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip():
        raise SaslFailed(f"a token without {rules.sub_claim}")
    return Bearer(name.strip(), int(expires * 1000))


def _audiences(claims: dict[str, Any]) -> set[str]:
    given = claims.get("aud")
    return {each for each in (given if isinstance(given, list) else [given]) if type(each) is str}


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**43:
        raise SaslFailed(f"a token without {name}")
    return value


def _check_scope(given: object, claim: str) -> None:
    scopes = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    found = [each.strip() for each in scopes if isinstance(each, str)]
    if len(found) != len(scopes) or not all(found) or len({*found}) != len(found):
        raise SaslFailed(f"a token whose {claim} has empty or repeated values")


class OAuthConversation:
    """One login: a token, and one more step if it is not accepted."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused = ""
        self.tried = ""

    def step(self, token: bytes) -> SaslStep | Awaitable[SaslStep]:
        """Take the client's response. Raises SaslFailed."""
        if token == AGAIN and self._refused:
            raise SaslFailed(self._refused, INVALID)
        self._refused = ""
        if len(token) > MESSAGE_BYTES:
            raise SaslFailed(f"a message of more than {MESSAGE_BYTES} bytes")
        found = _FIRST.fullmatch(token.decode(errors="replace"))
        if found is None:
            raise SaslFailed("a first message that is not OAUTHBEARER's")
        pairs = dict(each.split("=", 1) for each in found[2].split("\x01") if each)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None or auth[1].lower() != "bearer":
            raise SaslFailed("a first message without a bearer token")
        return self._accept(auth[2], found[1] or "")

    async def _accept(self, token: str, other_id: str) -> SaslStep:
        try:
            bearer = await self._validate(token)
        except SaslFailed as failure:
            self._refused = str(failure)
            return SaslStep(INVALID.encode())
        self.tried = bearer.name
        if other_id not in ("", bearer.name):
            raise told(
                "Authentication failed: Client requested an authorization id "
                f"({other_id}) that is different from the token's principal name ({bearer.name})"
            )
        return SaslStep(b"", bearer.name, bearer.expires_ms)


_OnThread = Callable[[Callable[[], Bearer]], Awaitable[Bearer]]


def validator(
    jwks: Jwks, rules: TokenRules, on_thread: _OnThread, now_s: Callable[[], float]
) -> Validate:
    """Return what verifies tokens with the keys of an issuer."""

    async def validate(token: str) -> Bearer:
        keys = await jwks.keys()
        try:
            return await on_thread(lambda: verified(token, keys, rules, now_s()))
        except UnknownKeyError:
            jwks.unknown()
            raise

    return validate
