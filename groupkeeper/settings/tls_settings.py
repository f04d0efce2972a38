"""The settings of TLS, `ssl.*`, and of who may use the HTTP port: a part of the table of settings
(see table.py).

Those of TLS may be given for one listener, too: `listener.name.outside.ssl.client.auth`.
Source: Kafka's `SslConfigs` and `BrokerSecurityConfigs`; KIP-651 (PEM).
"""

from dataclasses import dataclass

from groupkeeper.settings.setting import boolean, choice, words, written

OPEN_PATHS = ("/healthz", "/metrics", "/readyz")
"""Paths of the HTTP port that may be open where others need a token."""
STORE_TYPES = ("JKS", "PEM", "PKCS12")
"""JKS is Kafka's default, and refused with the command that converts the file."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)  # only the table is made
class TlsSettings:
    """Keys, trusted certificates, what may be negotiated, and tokens of the HTTP port."""

    http_open_paths: str = words(
        "",
        OPEN_PATHS,
        "Paths of the HTTP port that are answered without a token, if `http.tokens.file` is set.",
    )
    http_tls: bool = boolean(
        False,
        "Serve the HTTP port over TLS, with the key of `ssl.keystore.*`, or of "
        "`listener.name.http.ssl.keystore.*`.",
    )
    http_tokens_file: str | None = written(
        "FILE",
        "Answer on the HTTP port only requests with a bearer token of this file, which "
        "`groupkeeper tokens` makes; its roles say who may change something. The file is looked at "
        "every 5 s.",
    )
    ssl_cipher_suites: str | None = written(
        "NAME,...",
        "Cipher suites for TLS, under Java's or OpenSSL's names; not set for OpenSSL's choice. "
        "TLS 1.3 needs all of its own, or none.",
    )
    ssl_client_auth: str = choice(
        "none",
        ("none", "requested", "required"),
        "Whether clients show a certificate of the trust store. With SASL_SSL it is asked for only "
        "if `listener.name.<name>.ssl.client.auth` says so.",
    )
    ssl_enabled_protocols: str = words(
        "TLSv1.2,TLSv1.3", ("TLSv1.2", "TLSv1.3"), "Versions of TLS that clients may use."
    )
    ssl_key_password: str | None = written(
        "text", "Password of an encrypted private key.", secret=True
    )
    ssl_keystore_certificate_chain: str | None = written(
        "PEM", "Certificate of the server and its issuers, as text.", secret=True
    )
    ssl_keystore_key: str | None = written(
        "PEM", "Private key of the server, as text.", secret=True
    )
    ssl_keystore_location: str | None = written(
        "FILE",
        "Private key and certificates of the server. Files are looked at every 5 s: new "
        "connections get changed ones.",
    )
    ssl_keystore_password: str | None = written(
        "text", "Password of a PKCS12 file with the key.", secret=True
    )
    ssl_keystore_type: str = choice(
        "JKS", STORE_TYPES, "Format of the key. PKCS12 needs the extra `tls`; JKS is not read."
    )
    ssl_principal_mapping_rules: str | None = written(
        "RULE:pattern/replacement/[LU],...",
        "Rules that make a principal's name from the subject of a client's certificate; the first "
        "that matches counts.",
        default="DEFAULT",
    )
    ssl_protocol: str = choice(
        "TLSv1.3",
        ("TLS", "TLSv1.2", "TLSv1.3"),
        "Read because brokers have it; `ssl.enabled.protocols` decides.",
    )
    ssl_truststore_certificates: str | None = written(
        "PEM", "Certificates that sign those of clients, as text.", secret=True
    )
    ssl_truststore_location: str | None = written(
        "FILE", "Certificates that sign those of clients."
    )
    ssl_truststore_password: str | None = written(
        "text", "Password of a PKCS12 file with trusted certificates.", secret=True
    )
    ssl_truststore_type: str = choice("JKS", STORE_TYPES, "Format of the trusted certificates.")
