"""What a server needs that has ports with TLS and logins beside the plain one.

Certificates, an issuer's keys and users are made anew for each server. The attacks and those who
behave know them; none is of any use elsewhere.
"""

from collections.abc import Mapping
from pathlib import Path

import trustme

from tests.access.conversations import PLAIN_USERS
from tests.access.record import MODULES
from tests.access.tokens import AUDIENCE, ISSUER
from tests.support.certificates import Certificates

PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""By the names of the listeners. `MUTUAL` asks clients for a certificate."""
SILENT = "silent.invalid"
"""In a setting: the address of who takes connections, and never answers."""
RECEIVE_BYTES = 524_288
"""`sasl.server.max.receive.size`, if it is not set."""


def settings(folder: Path) -> Mapping[str, str]:
    """Write certificates into the folder `tls`; the settings of a server that uses them. The keys
    of tokens are read from the file of `keys_in`, which an attack writes.
    """
    made = Certificates(_tls(folder))
    made.authority.private_key_pem.write_to_path(_tls(folder) / "ca-key.pem")
    users = " ".join(f'user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    module = f"{MODULES}.plain.PlainLoginModule required {users};"
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.ca),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": module,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": module,
        "sasl.oauthbearer.jwks.endpoint.url": keys_in(folder).as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def keys_in(folder: Path) -> Path:
    """The file with the public keys of tokens."""
    return folder.absolute() / "jwks.json"


def server_pem(folder: Path) -> Path:
    """The file with key and certificate of the server."""
    return _tls(folder) / "server.pem"


def authority_pem(folder: Path) -> Path:
    return _tls(folder) / "ca.pem"


def authority(folder: Path) -> trustme.CA:
    """Who signs the certificates of this server and of its clients."""
    key = (_tls(folder) / "ca-key.pem").read_bytes()
    return trustme.CA.from_pem(authority_pem(folder).read_bytes(), key)


def _tls(folder: Path) -> Path:
    made = folder.absolute() / "tls"
    made.mkdir(exist_ok=True)
    return made
