"""Cipher suites of TLS under Java's names, as brokers' files have them, and under OpenSSL's.

Source: RFC 5246, appendix A.5, and its successors, whose names Java uses; OpenSSL's `ciphers`.
"""

import re
import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

SETTING: Final = "ssl.cipher.suites"
TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""All suites of TLS 1.3 that OpenSSL offers by itself; Python cannot choose among them."""
_NO_SUITE: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
"""A signal that Java lists among its suites."""
_JAVA: Final = re.compile(r"TLS_(?:(\w+)_)?WITH_(\w+)")


class CipherSuites(NamedTuple):
    """The cipher suites that `ssl.cipher.suites` allows."""

    tls_1_2: str
    """OpenSSL's list; empty if there is none."""
    tls_1_3: bool


def cipher_suites(names: Iterable[str]) -> CipherSuites:
    """Return what is allowed by Java's or OpenSSL's names. Raises ValueError with a message."""
    available = _available()
    given = [name for name in names if name != _NO_SUITE]
    new = TLS_1_3.intersection(given)
    if new and new != TLS_1_3:
        raise ValueError(
            f"TLS 1.3 with some of its suites only: give all of {', '.join(sorted(TLS_1_3))}, or "
            "none, which leaves TLS 1.2"
        )
    old = list[str]()
    for name in given:
        if name in new:
            continue
        ours = name if name in available else _openssl_name(name)
        if ours not in available:
            raise ValueError(
                f"{name!r} is no cipher suite that this OpenSSL has for TLS 1.2 or 1.3"
            )
        old.append(ours)
    return CipherSuites(":".join(old), bool(new))


def _available() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:!aNULL:!eNULL:!PSK:!SRP")
    return frozenset(each["name"] for each in context.get_ciphers()) - TLS_1_3


def _openssl_name(java: str) -> str:
    """Translate a name such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; empty if it is none."""
    found = _JAVA.fullmatch(java)
    if found is None:
        return ""
    exchange, cipher = found[1] or "", found[2]
    if cipher.startswith("CHACHA20_POLY1305_"):
        cipher = "CHACHA20_POLY1305"  # the hash is not part of OpenSSL's name
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher)
    cipher = re.sub(r"^((?:AES|CAMELLIA)\d+)_CBC_", r"\1_", cipher)
    parts = [] if exchange == "RSA" else [exchange]
    return "-".join((*parts, cipher)).replace("_", "-")
