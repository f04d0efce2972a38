"""Tokens of an issuer for tests, good ones and others, and its public keys.

Made anew for each run: times are those of now.
"""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER, AUDIENCE = "https://issuer.example", "groups"
NAME = "dave"
RSA, EC, STRANGER = "rsa", "ec", "stranger"


@cache
def key(kid: str) -> Any:
    """The key pair of this id."""
    if kid == EC:
        return ECKey.generate_key("P-256", {"kid": EC, "use": "sig"})
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def write_keys(path: Path) -> None:
    """Write the set of public keys."""
    rows = [key(each).as_dict(private=False) for each in (RSA, EC)]
    path.write_text(json.dumps({"keys": rows}), encoding="utf-8")


def claims(**changed: Any) -> dict[str, Any]:
    """Claims of a good token; those that are None are left out."""
    now = int(time.time())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": NAME, "iat": now, "exp": now + 3600}
    return {name: value for name, value in (good | changed).items() if value is not None}


def signed(kid: str = RSA, algorithm: str = "RS256", header_kid: str = "", **changed: Any) -> str:
    header = {"alg": algorithm, "kid": header_kid or kid}
    return jwt.encode(header, claims(**changed), key(kid), registry=_registry(algorithm))


def _registry(algorithm: str) -> JWSRegistry:
    return JWSRegistry(algorithms=[algorithm])


def good() -> str:
    return signed()


def unsigned() -> str:
    """`alg: none`, without a signature."""
    return _parts({"alg": "none", "typ": "JWT"}) + "."


def confused() -> str:
    """HS256 with the public key of the issuer, in PEM, as the secret: joserfc makes no such one."""
    text = _parts({"alg": "HS256", "kid": RSA})
    secret = key(RSA).as_pem(private=False)
    return f"{text}.{_base64(hmac.digest(secret, text.encode(), 'sha256'))}"


def _parts(header: dict[str, str]) -> str:
    return ".".join(_base64(json.dumps(each).encode()) for each in (header, claims()))


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def tampered() -> str:
    """The claims of one token with the signature of another."""
    head, _, signature = signed().split(".")
    return f"{head}.{signed(sub='root').split('.')[1]}.{signature}"


def ago(seconds: int) -> int:
    return int(time.time()) - seconds


KINDS: dict[str, Callable[[], str]] = {
    "RS256": good,
    "PS256": lambda: signed(algorithm="PS256"),
    "ES256": lambda: signed(EC, "ES256"),
    "none": unsigned,
    "HS256 with the public key": confused,
    "tampered": tampered,
    "of a stranger": lambda: signed(STRANGER),
    "of a stranger under a known key": lambda: signed(STRANGER, header_kid=RSA),
    "expired": lambda: signed(iat=ago(7200), exp=ago(3600)),
    "expired within the skew": lambda: signed(iat=ago(7200), exp=ago(10)),
    "without an end": lambda: signed(exp=None),
    "without a beginning": lambda: signed(iat=None),
    "not yet valid": lambda: signed(nbf=ago(-600)),
    "of another issuer": lambda: signed(iss="https://other.example"),
    "without an issuer": lambda: signed(iss=None),
    "for another audience": lambda: signed(aud="others"),
    "for several audiences": lambda: signed(aud=["others", AUDIENCE]),
    "without an audience": lambda: signed(aud=None),
    "without a name": lambda: signed(sub=None),
    "with an empty name": lambda: signed(sub=" "),
    "with a scope": lambda: signed(scope="read"),
    "with a list of scopes": lambda: signed(scope=["read", "write"]),
    "with a repeated scope": lambda: signed(scope=["read", "read"]),
    "not a token": lambda: "abc",
    "two parts": lambda: ".".join(good().split(".")[:2]),
}
