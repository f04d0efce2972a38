"""Makes an authority, and certificates that it signs, for a first server with TLS.

Keys are on P-256: a handshake then costs a server a third of what RSA takes. Needs the package
cryptography (`groupkeeper[tls]`).
"""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Names that every server certificate has."""
AUTHORITY_DAYS: Final = 3650
DAYS: Final = 825
"""Validity of certificates; several systems refuse a server's with more."""
_EARLIER: Final = timedelta(minutes=5)
"""Clocks of clients may be slow."""


class CertificateFiles(NamedTuple):
    """The files made in a folder. Files with keys have mode 0600."""

    authority: Path
    authority_key: Path
    server: Path
    """Key and certificate."""
    client: Path
    """Key and certificate."""


class _Issuer(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def files_in(folder: Path) -> CertificateFiles:
    """Return the paths of all files, made or not."""
    return CertificateFiles(
        *(folder / f"{name}.pem" for name in ("ca", "ca-key", "server", "client"))
    )


def make_certificates(folder: Path, hosts: Sequence[str], client: str) -> CertificateFiles:
    """Make all files; `client` is the common name of the client's certificate.

    Raises FileExistsError if one of them exists, before any is written, and other OSErrors.
    """
    files = files_in(folder)
    for each in files:
        if each.exists():
            raise FileExistsError(f"{each} exists already: choose another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    authority = _authority()
    server = _issued(authority, (*hosts, *LOOPBACK)[0], (*hosts, *LOOPBACK))
    for path, content in (
        (files.authority, _pem(authority.certificate)),
        (files.authority_key, _key_pem(authority.key)),
        (files.server, server),
        (files.client, _issued(authority, client, ())),
    ):
        has_key = path != files.authority
        mode = 0o600 if has_key else 0o644
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
    return files


def _authority() -> _Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Groupkeeper's own authority")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _Issuer(builder.sign(key, hashes.SHA256()), key)


def _issued(authority: _Issuer, name: str, hosts: Iterable[str]) -> bytes:
    """Return key and certificate: of a server with these hosts, or of a client without any."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [_host(each) for each in dict.fromkeys(hosts)]
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_name(name), authority.certificate.subject, key, DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(signer, critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _key_pem(key) + _pem(builder.sign(authority.key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key())
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


# Any: the general names that the library has.
def _host(text: str) -> Any:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
