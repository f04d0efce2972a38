"""Real clients on a server with a plain and a TLS port, with and without certificates of theirs.

The server runs in this process, so that a test sees whom it takes a client for.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from groupkeeper.cli import main
from groupkeeper.settings.options import format_address
from tests.support.certificates import SUBJECT, Certificates
from tests.support.process import Process
from tests.support.secure_server import WAIT_S, SecureServer

pytestmark = pytest.mark.clients

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://localhost:0,MUTUAL://[::1]:0"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL"
ANYBODY, ALICE = "", f"User:{SUBJECT}"


class Running(SecureServer):
    """A server with all three listeners."""

    def __init__(self, made: Certificates) -> None:
        self.made = made
        super().__init__(
            [
                *made.settings(),
                f"listeners={LISTENERS}",
                f"listener.security.protocol.map={PROTOCOLS}",
                "listener.name.mutual.ssl.client.auth=required",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=2",
            ]
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def running(made: Certificates) -> Iterator[Running]:
    running = Running(made)
    yield running
    running.stop()


@pytest.fixture(params=["SSL", "MUTUAL"])
def listener(request: pytest.FixtureRequest, running: Running) -> Iterator[str]:
    """The listener that clients use, who are seen as whom its rules say."""
    running.forget()
    yield str(request.param)
    expected = ALICE if request.param == "MUTUAL" else ANYBODY
    assert {who for name, who in running.principals() if name == request.param} == {expected}


def test_kafka_python_in_a_group(running: Running, listener: str) -> None:
    security = {
        "bootstrap_servers": running.address(listener),
        "security_protocol": "SSL",
        "ssl_cafile": str(running.made.ca),
    }
    if listener == "MUTUAL":
        security |= {"ssl_certfile": str(running.made.client_pem)}
    topic = f"kafka-python-{listener}"
    producer = KafkaProducer(**security)
    sent = [b"%d" % number * 2_000 for number in range(20)]
    for value in sent:
        producer.send(topic, value)
    producer.flush(WAIT_S)
    producer.close()
    for part in (sent, []):
        consumer = KafkaConsumer(
            topic,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **security,
        )
        assert consumer.partitions_for_topic(topic)  # else it may assign before it knows them
        found: list[bytes] = []
        until = time.monotonic() + (WAIT_S if part else 1.0)
        while len(found) < len(sent) and time.monotonic() < until:
            polled = consumer.poll(timeout_ms=200)
            found += [record.value for records in polled.values() for record in records]
        assert found == part, "the second one begins where the first has committed"
        consumer.commit()
        consumer.close()


async def test_aiokafka_in_a_group(running: Running, listener: str) -> None:
    context = running.made.context(with_key=listener == "MUTUAL")
    servers = {"bootstrap_servers": running.address(listener), "security_protocol": "SSL"}
    topic = f"aiokafka-{listener}"
    async with AIOKafkaProducer(**servers, ssl_context=context) as producer:
        await producer.send_and_wait(topic, b"value")
    consumer = AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **servers, ssl_context=context
    )
    async with asyncio.timeout(WAIT_S), consumer:
        assert (await consumer.getone()).value == b"value"
        await consumer.commit()


def test_confluent_kafka_in_a_group(running: Running, listener: str) -> None:
    security = {
        "bootstrap.servers": running.address(listener),
        "security.protocol": "ssl",
        "ssl.ca.location": str(running.made.ca),
        "broker.address.family": "any",
    }
    if listener == "MUTUAL":
        both = str(running.made.client_pem)
        security |= {"ssl.certificate.location": both, "ssl.key.location": both}
    topic = f"confluent-{listener}"
    producer = Producer(security)
    producer.produce(topic, b"value")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**security, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"value")
    consumer.commit(message, asynchronous=False)
    consumer.close()


def test_our_commands_speak_tls(
    running: Running, listener: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"bootstrap.servers={running.address(listener)}",
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={running.made.ca}",
    ]
    if listener == "MUTUAL":
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={running.made.client_pem}"]
    config = tmp_path / "client.properties"
    config.write_text("\n".join(lines))
    assert main(["groups", "list", "--command-config", str(config), "--json"]) == 0
    found = capsys.readouterr().out
    assert all(json.loads(line) for line in found.splitlines())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "TLS needs a key: give ssl.keystore.type=PEM"),
        (["ssl.keystore.location=/nowhere.jks"], "ssl.keystore.location = /nowhere.jks: No such"),
        (["ssl.principal.mapping.rules=x"], "ssl.principal.mapping.rules: 'x' does not begin"),
    ],
)
def test_a_server_without_a_usable_key_does_not_start(
    tmp_path: Path, given: list[str], problem: str
) -> None:
    settings = [
        word for each in ("listeners=SSL://127.0.0.1:0", *given) for word in ("--set", each)
    ]
    folder = tmp_path / "data"
    with Process(*settings, "--data-dir", str(folder), "--http", "off", listen=None) as process:
        assert process.wait() == 2
    assert process.errors.startswith(f"groupkeeper: listener SSL: {problem}")
    assert process.errors.count("\n") == 1
    assert not folder.exists(), "nothing was touched"


def test_the_http_port_speaks_tls_with_a_key_of_its_own(tmp_path: Path, made: Certificates) -> None:
    words = [
        *made.settings(keystore_location="/nowhere", client_auth="required"),
        f"listener.name.http.ssl.keystore.location={made.server}",
        "http.tls=true",
    ]
    given = [word for each in words for word in ("--set", each)]
    log = tmp_path / "log"
    with Process(*given, "--dev", "--memory", "--http", "localhost:0", log=log) as process:
        http = process.ready().http
        context = made.context()
        for page in ("/readyz", "/metrics", "/api/v1/groups", "/"):
            with urlopen(f"https://{http}{page}", context=context, timeout=WAIT_S) as answer:
                assert answer.status == 200
                assert answer.read()
        with pytest.raises(OSError, match=r"reset|end of file|closed|disconnected|without"):
            urlopen(f"http://{http}/readyz", timeout=WAIT_S)
        process.stop()
    told = log.read_text()
    assert "an HTTP request: this port speaks TLS" in told
    assert "has no effect" not in told
    assert "Traceback" not in told


def test_the_expiry_of_certificates_is_a_metric(running: Running) -> None:
    with urlopen(f"http://{format_address(running.http)}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    name = "groupkeeper_certificate_expires_seconds"
    found = {
        line.partition(" ")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if name in line and line[0] != "#"
    }
    assert [*found] == [f'{name}{{listener="{each}"}}' for each in ("SSL", "MUTUAL")]
    assert min(found.values()) > 86_400
    assert any(
        line.startswith("groupkeeper_connections_handshakes_failed_total ") for line in lines
    )
