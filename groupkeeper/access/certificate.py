"""Reads subject and end of validity of X.509 certificates.

The names of principals have to be Java's, to the byte, and Python's own reading of a certificate
loses the types of strings. Only certificates that OpenSSL has accepted come here.
Source: RFC 5280, RFC 2253; Java's `X500Principal.getName()`.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

_KEYWORDS: Final = {
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
}
"""RFC 2253's attributes; values of others are shown as hexadecimal digits."""
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Tags that Java reads as text: UTF8, Printable, T61, IA5, General and BMP strings."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_UTC_TIME: Final = 0x17
_TIME: Final = re.compile(r"[0-9]{14}Z")
_VERSION: Final = 0xA0

Element = tuple[int, bytes, bytes]
"""Tag, content, and the whole encoding."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate as Java prints it, the last part first.

    Raises ValueError if the bytes are no certificate.
    """
    rdns = _elements(_part(certificate, 4))
    return ",".join(reversed([_rdn(content) for _, content, _ in rdns]))


def expiry_of(certificate: bytes) -> float:
    """Return the Unix time in seconds after which a DER certificate is not valid.

    Raises ValueError if the bytes are no certificate.
    """
    _, (tag, content, _) = _elements(_part(certificate, 3))
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # years 1950 to 2049
        text = f"{'19' if text >= '50' else '20'}{text}"
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is no time of a certificate")
    # Not strptime, whose modules take a megabyte.
    return datetime.fromisoformat(f"{text[:8]}T{text[8:]}").timestamp()


def _part(certificate: bytes, index: int) -> bytes:
    """Return the content of a part of TBSCertificate, counted from the serial number as 0."""
    [(_, whole, _)] = _elements(certificate)
    (_, signed, _), *_ = _elements(whole)
    parts = [each for each in _elements(signed) if each[0] != _VERSION]
    if index >= len(parts):
        raise ValueError("not a certificate: parts are missing")
    return parts[index][1]


def _elements(data: bytes) -> Iterator[Element]:
    """Yield the elements of DER that follow each other. Raises ValueError."""
    start = 0
    while start < len(data):
        size, pos = data[start + 1] if start + 1 < len(data) else 0, start + 2
        if size & 0x80:
            count = size & 0x7F
            size, pos = int.from_bytes(data[pos : pos + count], "big"), pos + count
        end = pos + size
        if end > len(data):
            raise ValueError("not a certificate: it ends too early")
        yield data[start], data[pos:end], data[start:end]
        start = end


def _rdn(content: bytes) -> str:
    return "+".join(_attribute(each) for _, each, _ in _elements(content))


def _attribute(content: bytes) -> str:
    (_, oid, _), (tag, value, whole) = _elements(content)
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or dotted}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Escape like Java: special characters anywhere, white space at both ends."""
    inner = text.strip(" \r")
    at = text.find(inner)
    middle = "".join(f"\\{char}" if char in _ESCAPED else char for char in inner)
    first, last = (
        "".join(f"\\{char}" for char in ends) for ends in (text[:at], text[at + len(inner) :])
    )
    return f"{first}{middle}{last}".replace("\0", "\\00")


def _dotted(oid: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("not a certificate: an attribute without a name")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
