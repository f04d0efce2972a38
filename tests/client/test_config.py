"""Properties files of Kafka's clients."""

import ssl
import subprocess
from pathlib import Path

import pytest

from groupkeeper.client.config import ConfigError, read_config

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password='
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("pem")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout"
    subprocess.run(
        [*command.split(), str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return certificate, key


def test_without_security(file: Path) -> None:
    file.write_text("# ours\nclient.id=ops\nretries=7\nbootstrap.servers=b:1\n")
    assert read_config(file) == {"security_protocol": "PLAINTEXT", "client_id": "ops"}


def test_plain(file: Path) -> None:
    file.write_text(SASL + f'sasl.jaas.config={JAAS}"se\\\\"cret";\n')
    assert read_config(file) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "al",
        "sasl_plain_password": 'se"cret',
    }


def test_kerberos(file: Path) -> None:
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.kerberos.service.name=broker\n"
    )
    assert read_config(file)["sasl_kerberos_service_name"] == "broker"


def test_tls_with_files(file: Path, pem: tuple[Path, Path]) -> None:
    certificate, key = pem
    both = file.with_name("both.pem")
    both.write_text(key.read_text() + certificate.read_text())
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificate}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={both}\n"
    )
    context = read_config(file)["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_tls_with_certificates_in_the_file(file: Path, pem: tuple[Path, Path]) -> None:
    certificate, key = (each.read_text().replace("\n", "\\n") for each in pem)
    file.write_text(
        "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
        f"ssl.truststore.certificates={certificate}\n"
        f"ssl.keystore.certificate.chain={certificate}\nssl.keystore.key={key}\n"
    )
    context = read_config(file)["ssl_context"]
    assert not context.check_hostname
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("security.protocol=TLS\n", "security.protocol must be one of PLAINTEXT, SSL"),
        ("ssl.engine.factory.class=X\n", "ssl.engine.factory.class is not supported"),
        ("security.protocol=SASL_SSL\n", "sasl.mechanism must be PLAIN, SCRAM-SHA-256"),
        (SASL, 'sasl.jaas.config has no username="..." and password="..."'),
        ("security.protocol=SSL\nssl.truststore.location=/a.jks\n", "ssl.truststore.type is JKS"),
        (
            "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/a\n",
            "ssl.keystore.type is PKCS12: only PEM is supported",
        ),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such\n",
            "No such file",
        ),
        ("security.protocol=SSL\nssl.truststore.certificates=x\n", ""),
    ],
)
def test_what_cannot_be_used_is_one_line_with_the_file(text: str, told: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_config(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
