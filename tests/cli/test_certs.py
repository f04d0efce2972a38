"""`groupkeeper certs`, and `groupkeeper serve --dev --tls`."""

import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from groupkeeper.access import own_certificates
from groupkeeper.access.certificate import subject_of
from groupkeeper.cli import main
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.settings.outside import parse_properties
from groupkeeper.settings.table import load
from tests.support.process import Process
from tests.support.wire import Client

Capture = pytest.CaptureFixture[str]
NAMES = ["ca-key.pem", "ca.pem", "client.pem", "server.pem"]


def certificate_in(path: Path) -> x509.Certificate:
    text = path.read_bytes()
    return x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERTIFICATE") :])


def test_an_authority_a_server_and_a_client_are_made(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "new" / "certificates"
    assert main(["certs", str(folder), "--host", "kafka.example", "--host", "[fd00::1]"]) == 0
    assert sorted(each.name for each in folder.iterdir()) == NAMES
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    assert modes.pop("ca.pem") & 0o077 == 0o044
    assert set(modes.values()) == {0o600}
    server = certificate_in(folder / "server.pem")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kafka.example", "localhost"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [*map(str, addresses)] == ["fd00::1", "127.0.0.1", "::1"]
    client = (folder / "client.pem").read_text()
    client = client[client.index("-----BEGIN CERTIFICATE") :]
    assert subject_of(ssl.PEM_cert_to_DER_cert(client)) == "CN=client"
    printed = capsys.readouterr().out
    assert "PRIVATE" not in printed
    assert f"openssl pkcs12 -export -in {folder / 'client.pem'} " in printed, "for Kafka 2.8"
    part = printed.partition("# properties of a client")[0]
    settings = dict(parse_properties(part))
    assert settings["ssl.keystore.location"] == str(folder / "server.pem")
    assert settings["advertised.listeners"] == "SSL://kafka.example:9093"
    config = tmp_path / "server.properties"
    config.write_text(part)
    assert load(config)[1] == (), "a server reads what is printed"


def test_both_are_verified_by_the_authority_for_their_purpose(tmp_path: Path) -> None:
    files = own_certificates.make_certificates(tmp_path, (), "a")
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(files.authority)
    server.load_cert_chain(files.server)
    client = ssl.create_default_context(cafile=str(files.authority))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(files.client)
    sides = (
        client.wrap_bio(*ends, server_hostname="localhost"),
        server.wrap_bio(*reversed(ends), server_side=True),
    )
    with pytest.raises(ssl.SSLWantReadError):
        sides[0].do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        sides[1].do_handshake()
    for side in sides:
        side.do_handshake()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_overwritten(tmp_path: Path, capsys: Capture, name: str) -> None:
    (tmp_path / name).write_text("mine")
    assert main(["certs", str(tmp_path)]) == 1
    assert f"{name} exists already: choose another folder" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "wrong", [["--host", "a b"], ["--host", "https://a"], ["--host", "*"], ["--client", ""]]
)
def test_wrong_names_are_usage_errors(tmp_path: Path, wrong: list[str], capsys: Capture) -> None:
    assert main(["certs", str(tmp_path / "x"), *wrong]) == 2
    assert not (tmp_path / "x").exists()


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from groupkeeper.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "certs", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install cryptography" in done.stderr


# -- serve --dev --tls -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--tls"], "--tls is for development: it requires --dev"),
        (["--dev", "--tls", "--memory"], "--tls and --memory are mutually exclusive"),
        (["--dev", "--tls", "--control"], "--tls and --control are mutually exclusive"),
        (
            ["--dev", "--tls", "--set", "listeners=A://h:1"],
            "--tls and listeners are mutually exclusive: name a listener SSL instead",
        ),
        (
            ["--dev", "--tls", "--set", "ssl.keystore.location=x"],
            "--tls makes a key of its own: leave out ssl.keystore.location",
        ),
    ],
)
def test_tls_of_a_development_server_excludes_others(
    arguments: list[str], problem: str, capsys: Capture
) -> None:
    assert main(["serve", *arguments]) in (1, 2)
    assert problem in capsys.readouterr().err


def test_a_development_server_makes_certificates_once_and_serves_tls(tmp_path: Path) -> None:
    made = set()
    for run in range(2):
        arguments = ("--dev", "--tls", "--http", "off", "--data-dir", str(tmp_path / "data"))
        with Process(*arguments, log=tmp_path / f"log{run}") as process:
            address = process.ready().kafka
            folder = tmp_path / "data" / "tls"
            made.add((folder / "server.pem").read_text())
            context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            plain = socket.create_connection(address, timeout=30)
            client = Client(context.wrap_socket(plain, server_hostname="localhost"))
            metadata = client.call(12, MetadataRequest(topics=None))
            assert (metadata.brokers[0].host, metadata.brokers[0].port) == address
            client.close()
            process.stop()
        told = (tmp_path / f"log{run}").read_text()
        assert f"ssl.truststore.location={folder / 'ca.pem'}" in told
        assert "unknown" not in told, "the folder is expected there"
    assert len(made) == 1
