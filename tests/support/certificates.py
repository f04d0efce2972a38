"""Certificates for tests: an authority, a server on loopback, and clients.

made = Certificates(tmp_path)
settings = made.settings(client_auth="required")
connect(address, made.client(CLIENT))
"""

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

HOSTS = ("localhost", "127.0.0.1", "::1")
PASSWORD = "PLANTED-password"
SUBJECT = "CN=alice,OU=Payments,O=Example\\, Inc."
"""Of the client."""


class Certificates:
    """Files in a folder, in PEM: `server.pem` and `client.pem` with key and chain, `ca.pem`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.server, self.client_pem, self.ca = (
            folder / name for name in ("server.pem", "client.pem", "ca.pem")
        )
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()
        client = self.authority.issue_cert(
            "alice@example.org",
            common_name="alice",
            organization_name="Example, Inc.",
            organization_unit_name="Payments",
        )
        client.private_key_and_cert_chain_pem.write_to_path(self.client_pem)

    def renew(self) -> None:
        """Write a new certificate of the server."""
        issued = self.authority.issue_cert(*HOSTS)
        issued.private_key_and_cert_chain_pem.write_to_path(self.server)

    def settings(self, **ssl_settings: str) -> list[str]:
        """Assignments of a server with TLS; names are without `ssl.`, with underscores."""
        given = {
            "keystore_type": "PEM",
            "keystore_location": str(self.server),
            "truststore_type": "PEM",
            "truststore_location": str(self.ca),
            **ssl_settings,
        }
        return [f"ssl.{key.replace('_', '.')}={value}" for key, value in given.items() if value]

    def context(self, *, with_key: bool = False) -> ssl.SSLContext:
        """What a client needs: with a key it shows its certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if with_key:
            context.load_cert_chain(self.client_pem)
        return context

    def encrypted(self) -> Path:
        """The server's file, with an encrypted key."""
        text = self.server.read_bytes()
        key = load_pem_private_key(text, None)
        hidden = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
        )
        path = self.folder / "encrypted.pem"
        path.write_bytes(hidden + text[text.index(b"-----BEGIN CERTIFICATE") :])
        return path

    def pkcs12(self) -> Path:
        """The server's key and certificate in PKCS12."""
        text = self.server.read_bytes()
        certificate = load_pem_x509_certificate(text[text.index(b"-----BEGIN CERTIFICATE") :])
        hiding = BestAvailableEncryption(PASSWORD.encode())
        key = load_pem_private_key(text, None)
        assert isinstance(key, pkcs12.PKCS12PrivateKeyTypes)
        path = self.folder / "server.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, hiding)
        )
        return path

    def trusted_pkcs12(self) -> Path:
        """The authority's certificate in PKCS12."""
        certificate = load_pem_x509_certificate(self.ca.read_bytes())
        path = self.folder / "ca.p12"
        path.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(certificate, b"ca")],
                BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        return path
