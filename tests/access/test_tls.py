"""TLS of a listener from settings and files: what is read, what is refused, what is reloaded."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.access import key_store
from groupkeeper.access import tls as access_tls
from groupkeeper.access.tls import ListenerTls
from groupkeeper.observe.metrics import Metrics
from groupkeeper.server.tls import LOOK_S, ListenersTls
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.table import SettingsError, load
from tests.support.certificates import PASSWORD, SUBJECT, Certificates
from tests.support.served import Lines

PLAIN, SSL, SASL_SSL = (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def tls(*assignments: str, protocol: SecurityProtocol = SSL) -> ListenerTls:
    return ListenerTls(Listen("OUTSIDE", protocol=protocol), load(assignments=assignments)[0])


def handshake(found: ListenerTls, client: ssl.SSLContext) -> tuple[str, bytes | None]:
    """The version of TLS, and the client's certificate. Raises the errors of both sides."""
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        found.context.wrap_bio(*ends, server_side=True),
        client.wrap_bio(*reversed(ends), server_hostname="localhost"),
    ]
    for side in sides[::-1] * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    version = sides[0].version()
    assert version is not None
    return version, sides[0].getpeercert(True)


def text_of(made: Certificates, kind: str) -> str:
    text = made.server.read_text()
    split = text.index("-----BEGIN CERTIFICATE")
    return text[:split] if kind == "key" else text[split:]


# -- what keys are read from ----------------------------------------------------------------------


def test_a_pem_file_has_key_and_certificates(made: Certificates) -> None:
    assert handshake(tls(*made.settings()), made.context()) == ("TLSv1.3", None)


@pytest.mark.parametrize("in_memory", [True, False])
def test_keys_may_be_text(
    made: Certificates, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_memory:
        monkeypatch.delattr("os.memfd_create", raising=False)
    given = made.settings(
        keystore_location="",
        truststore_location="",
        keystore_key=text_of(made, "key"),
        keystore_certificate_chain=text_of(made, "chain"),
        truststore_certificates=made.ca.read_text(),
        client_auth="required",
    )
    found = tls(*given)
    _, certificate = handshake(found, made.context(with_key=True))
    assert found.principal_of(certificate) == f"User:{SUBJECT}"


def test_a_key_may_be_encrypted(made: Certificates) -> None:
    given = made.settings(keystore_location=str(made.encrypted()), key_password=PASSWORD)
    handshake(tls(*given), made.context())


@pytest.mark.parametrize("called", ["PKCS12", "JKS"])
def test_pkcs12_is_read_whatever_its_type_is_called(made: Certificates, called: str) -> None:
    given = made.settings(
        keystore_location=str(made.pkcs12()),
        keystore_type=called,
        keystore_password=PASSWORD,
        truststore_location=str(made.trusted_pkcs12()),
        truststore_type=called,
        truststore_password=PASSWORD,
        client_auth="required",
    )
    _, certificate = handshake(tls(*given), made.context(with_key=True))
    assert certificate is not None


def test_pkcs12_without_the_package_names_the_extra(
    made: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cryptography.hazmat.primitives.serialization"
    path = made.pkcs12()
    monkeypatch.setitem(sys.modules, name, None)
    given = made.settings(
        keystore_location=str(path), keystore_type="PKCS12", keystore_password=PASSWORD
    )
    with pytest.raises(SettingsError, match="pip install cryptography"):
        tls(*given)


def test_what_is_in_the_trust_store_is_trusted_even_if_it_is_no_root(made: Certificates) -> None:
    text = made.client_pem.read_text()
    own = made.folder / "own.pem"
    own.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    given = made.settings(truststore_location=str(own), client_auth="required")
    handshake(tls(*given), made.context(with_key=True))


# -- what is refused ------------------------------------------------------------------------------


Change = dict[str, str]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"keystore_location": ""}, "TLS needs a key: give ssl.keystore.type=PEM"),
        ({"keystore_location": "/nowhere"}, "location = /nowhere: No such file"),
        ({"keystore_location": "ca"}, "ca.pem: no private key in PEM"),
        ({"keystore_location": "key"}, "key.pem: no certificate in PEM"),
        ({"keystore_location": "encrypted"}, "the key is encrypted: give its password in ssl.key"),
        (
            {"keystore_location": "encrypted", "key_password": "x" * 2_000},
            "ssl.keystore: password cannot be longer than 1024 bytes",
        ),
        (
            {"keystore_location": "encrypted", "key_password": "wrong"},
            "the key cannot be decrypted: is ssl.key.password its password",
        ),
        (
            {"keystore_location": "mixed"},
            "the private key does not belong to the first certificate",
        ),
        ({"keystore_location": "p12"}, "not PEM: write ssl.keystore.type=PKCS12"),
        (
            {"keystore_location": "jks"},
            "a JKS file, which only Java reads: convert it with keytool",
        ),
        ({"keystore_type": "JKS"}, "this is PEM: write ssl.keystore.type=PEM"),
        ({"keystore_password": "x"}, "ssl.keystore.password: a PEM file has none"),
        (
            {"keystore_location": "p12", "keystore_type": "PKCS12"},
            "give its password in ssl.keystore.password",
        ),
        (
            {"keystore_location": "p12", "keystore_type": "PKCS12", "keystore_password": "wrong"},
            "not PKCS12, or ssl.keystore.password is not its password",
        ),
        ({"keystore_location": "jks", "keystore_type": "JKS"}, "-destkeystore store.p12"),
        ({"keystore_key": "x"}, "ssl.keystore.key and ssl.keystore.certificate.chain belong"),
        (
            {"keystore_key": "x", "keystore_certificate_chain": "x"},
            "ssl.keystore.key and ssl.keystore.location are mutually exclusive",
        ),
        (
            {
                "keystore_key": "x",
                "keystore_certificate_chain": "x",
                "keystore_location": "",
                "keystore_type": "JKS",
            },
            "ssl.keystore.key is PEM: write ssl.keystore.type=PEM",
        ),
        (
            {"client_auth": "required", "truststore_location": ""},
            "ssl.client.auth = required: give the certificates that sign",
        ),
        (
            {"client_auth": "required", "truststore_location": "key"},
            "ssl.truststore.location = .*key.pem: no certificate in it",
        ),
        (
            {"client_auth": "required", "truststore_location": "", "truststore_certificates": "x"},
            "ssl.truststore.certificates: no certificate in PEM",
        ),
        (
            {"client_auth": "required", "truststore_location": "jks", "truststore_type": "JKS"},
            "-nokeys -out store.pem, and write ssl.truststore.type=PEM",
        ),
        ({"cipher_suites": "NONE_SUCH"}, "ssl.cipher.suites: 'NONE_SUCH' is no cipher suite"),
        (
            {"cipher_suites": "AES128-SHA", "enabled_protocols": "TLSv1.3"},
            "ssl.cipher.suites: none of them is for TLSv1.3, the ssl.enabled.protocols",
        ),
        ({"principal_mapping_rules": "wrong"}, "ssl.principal.mapping.rules: 'wrong' does not"),
    ],
)
def test_what_cannot_be_used_is_one_line_that_says_what_to_do(
    made: Certificates, change: Change, problem: str
) -> None:
    files = {
        "ca": made.ca,
        "encrypted": made.encrypted(),
        "p12": made.pkcs12(),
        **{name: made.folder / f"{name}.pem" for name in ("key", "mixed", "jks")},
    }
    files["key"].write_text(text_of(made, "key"))
    files["mixed"].write_text(text_of(made, "key") + made.ca.read_text())
    files["jks"].write_bytes(b"\xfe\xed\xfe\xed" + bytes(40))
    given = {key: str(files.get(value, value)) for key, value in change.items()}
    with pytest.raises(SettingsError, match=problem) as raised:
        tls(*made.settings(**given))
    assert "\n" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


@pytest.mark.skipif(not shutil.which("keytool"), reason="needs Java's keytool and openssl")
def test_the_command_that_converts_a_jks_file_works(made: Certificates) -> None:
    jks = made.folder / "store.jks"
    keytool = ("keytool", "-storepass", PASSWORD, "-keypass", PASSWORD)
    names = ("-dname", "CN=localhost", "-alias", "a", "-keyalg", "EC", "-storetype", "JKS")
    subprocess.run([*keytool, "-genkeypair", *names, "-keystore", str(jks)], check=True)
    given = made.settings(keystore_location=str(jks), keystore_type="JKS", keystore_password="x")
    with pytest.raises(SettingsError) as raised:
        tls(*given)
    command = str(raised.value).partition("convert it with ")[2].rpartition(", and write")[0]
    first, second = command.split(" && ")
    secret = f"pass:{PASSWORD}"
    for words in (
        [*first.split(), "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD],
        [*second.split(), "-passin", secret, "-passout", secret],
    ):
        subprocess.run(words, check=True, cwd=made.folder)
    converted = made.settings(
        keystore_location=str(made.folder / "store.pem"), key_password=PASSWORD
    )
    assert tls(*converted).expires_at > 0


# -- what may be negotiated -----------------------------------------------------------------------


def client(made: Certificates, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = made.context()
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ({}, "TLSv1.2 TLSv1.3"),
        ({"enabled_protocols": "TLSv1.3"}, "TLSv1.3"),
        ({"enabled_protocols": "TLSv1.2"}, "TLSv1.2"),
        ({"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2"),
        (
            {
                "cipher_suites": "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384,"
                "TLS_CHACHA20_POLY1305_SHA256"
            },
            "TLSv1.3",
        ),
    ],
)
def test_versions_follow_from_protocols_and_suites(
    made: Certificates, given: Change, served: str
) -> None:
    found = tls(*made.settings(**given))
    versions = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with contextlib.suppress(ssl.SSLError):
            versions.append(handshake(found, client(made, version))[0])
    assert " ".join(versions) == served


# -- who clients are ------------------------------------------------------------------------------


def test_with_sasl_no_certificate_is_asked_for_and_the_login_names_the_client(
    made: Certificates,
) -> None:
    given = made.settings(client_auth="required")
    found = tls(*given, protocol=SASL_SSL)
    assert handshake(found, made.context(with_key=True))[1] is None
    own = "listener.name.outside.ssl.client.auth=required"
    found = tls(*given, own, protocol=SASL_SSL)
    _, certificate = handshake(found, made.context(with_key=True))
    assert certificate is not None
    assert found.principal_of(certificate) == ""


# -- changed files --------------------------------------------------------------------------------


def serial(found: ListenerTls, made: Certificates) -> str:
    """The serial number of the certificate that clients get."""
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = found.context.wrap_bio(*ends, server_side=True)
    side = made.context().wrap_bio(*reversed(ends), server_hostname="localhost")
    for each in (side, server, side):
        with contextlib.suppress(ssl.SSLWantReadError):
            each.do_handshake()
    certificate = side.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_changed_files_are_used_and_a_bad_one_is_told_once(
    made: Certificates, lines: Lines
) -> None:
    found = tls(*made.settings())
    first = serial(found, made)
    found.refresh()
    assert not lines()
    made.renew()
    found.refresh()
    second = serial(found, made)
    assert second != first
    made.server.write_text("-----BEGIN half")
    for _ in range(3):
        found.refresh()
    assert serial(found, made) == second
    made.server.unlink()
    found.refresh()
    made.renew()
    found.refresh()
    assert serial(found, made) not in (first, second)
    told = [(each["level"], each["listener"], each.get("error", "")) for each in lines()]
    assert [level for level, _, _ in told] == ["info", "error", "error", "info"]
    assert {listener for _, listener, _ in told} == {"OUTSIDE"}
    assert "no private key in PEM" in told[1][2]
    assert "No such file" in told[2][2]


def test_a_new_trust_store_is_used(made: Certificates, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    found = tls(*made.settings(client_auth="required"))
    stranger = made.context()
    stranger.load_cert_chain(other.client_pem)
    with pytest.raises(ssl.SSLError):
        handshake(found, stranger)
    made.ca.write_text(made.ca.read_text() + other.ca.read_text())
    found.refresh()
    handshake(found, stranger)


async def test_files_are_looked_at_on_a_thread_from_time_to_time(made: Certificates) -> None:
    assert 2 * LOOK_S <= 10
    settings, _ = load(assignments=made.settings())
    listeners = (Listen("SSL", protocol=SSL), Listen("PLAINTEXT", protocol=PLAIN))
    metrics = Metrics()
    found = ListenersTls(listeners, settings, metrics)
    assert [*found.by_name] == ["SSL"]
    before = found.by_name["SSL"].context
    found.watch(every_s=0.01)
    made.renew()
    async with asyncio.timeout(20):
        while found.by_name["SSL"].context is before:  # noqa: ASYNC110  # set by a thread
            await asyncio.sleep(0.01)
    found.stop()
    assert metrics.certificates()["SSL"] > 0


def test_without_a_tls_listener_there_is_nothing() -> None:
    metrics = Metrics()
    assert not ListenersTls((Listen(),), load()[0], metrics).by_name
    assert metrics.certificates() == {}


def test_no_secret_is_shown(made: Certificates) -> None:
    given = made.settings(keystore_location=str(made.encrypted()), key_password=PASSWORD)
    settings, _ = load(assignments=given)
    pair = key_store.key_pair(settings)
    assert PASSWORD not in repr(pair)
    assert "PRIVATE KEY" not in repr(pair)
    assert PASSWORD not in repr(access_tls.ListenerTls(Listen("A", protocol=SSL), settings))
