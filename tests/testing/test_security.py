"""A test broker with users and TLS: who gets in, with which settings, in each client library."""

import asyncio
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.settings.options import MEMORY, Listen, SecurityProtocol, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.testing import Broker, SettingsError, WrongArgument, effects
from groupkeeper.testing.client_settings import ClientSettings
from groupkeeper.testing.control.parts import ServedBroker
from groupkeeper.testing.control.process import ServedBench
from groupkeeper.testing.security import PASSWORD_MECHANISMS
from tests.access.conversations import SCRAM_512, Talk, scram
from tests.access.record import SocketLine
from tests.support.raw_member import address
from tests.support.wire import Client, Gone

USERS = {"alice": 'sec"ret\\', "bob": "bob-secret"}
SECURE: dict[str, dict[str, Any]] = {
    "PLAINTEXT": {},
    "SSL": {"tls": True},
    "SASL_PLAINTEXT": {"users": USERS},
    "SASL_SSL": {"users": USERS, "tls": True},
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:bob",
}
WAIT_S = 60.0
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def with_kafka_python(broker: Broker, user: str | None) -> bytes | None:
    consumer = KafkaConsumer(
        "orders", auto_offset_reset="earliest", **broker.for_kafka_python(user)
    )
    try:
        return next(consumer).value  # type: ignore[no-any-return]
    finally:
        consumer.close()


def with_confluent(broker: Broker, user: str | None) -> bytes | None:
    groups = {"group.id": f"of {user}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**groups, **broker.for_confluent(user)})
    consumer.subscribe(["orders"])
    try:
        found = consumer.poll(WAIT_S)
        assert found is not None and found.error() is None
        return found.value()
    finally:
        consumer.close()


def with_aiokafka(broker: Broker, user: str | None) -> bytes | None:
    async def read() -> bytes | None:
        settings = broker.for_aiokafka(user)
        async with AIOKafkaConsumer("orders", auto_offset_reset="earliest", **settings) as consumer:
            record = await asyncio.wait_for(consumer.getone(), WAIT_S)
        return record.value

    return asyncio.run(read())


Read = Callable[[Broker, str | None], bytes | None]
CLIENTS: dict[str, Read] = {
    "kafka-python": with_kafka_python,
    "confluent": with_confluent,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", SECURE)
def test_each_client_connects_with_the_settings_it_is_given(protocol: str, client: str) -> None:
    with Broker(topics={"orders": 1}, **SECURE[protocol]) as broker:
        broker.produce("orders", "first")
        for user in broker._bench._security.users or (None,):
            assert CLIENTS[client](broker, user) == b"first"
        assert broker.for_confluent(user)["security.protocol"] == protocol


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_settings_choose_the_mechanism(mechanism: str) -> None:
    settings = {"sasl.enabled.mechanisms": mechanism}
    with Broker(topics={"orders": 1}, users=USERS, settings=settings) as broker:
        broker.produce("orders", "first")
        assert broker.for_kafka_python("alice")["sasl_mechanism"] == mechanism
        assert with_kafka_python(broker, "alice") == b"first"


def test_a_wrong_password_does_not_get_in() -> None:
    with Broker(users={"alice": "secret"}) as broker:
        assert not logs_in(broker, "wrong")
        assert any("login failed" in line for line in broker.logs)
        assert not any("wrong" in line or "secret" in line for line in broker.logs)


def test_nobody_gets_in_without_a_login() -> None:
    with Broker(users={"alice": "secret"}) as broker, plain(broker) as client:
        client.send(4, ListGroupsRequest())
        with pytest.raises((Gone, ConnectionError)):
            client.take()


# -- TLS -------------------------------------------------------------------------------------------


def plain(broker: Broker) -> Client:
    return Client(socket.create_connection(address(broker), timeout=WAIT_S))


def encrypted(broker: Broker, *, shows: bool = True) -> Client:
    """A connection with TLS, on which the client shows its certificate if it is asked."""
    settings = broker.for_kafka_python()
    context = ssl.create_default_context(cafile=settings["ssl_cafile"])
    if shows:
        context.load_cert_chain(settings["ssl_certfile"], settings["ssl_keyfile"])
    host, port = address(broker)
    raw = socket.create_connection((host, port), timeout=WAIT_S)
    return Client(context.wrap_socket(raw, server_hostname=host))


def test_a_client_may_be_asked_for_its_certificate() -> None:
    settings = {"ssl.client.auth": "required", **AUTHORIZER, "super.users": "User:CN=client"}
    with Broker(tls=True, settings=settings) as broker:
        with encrypted(broker) as client:
            assert client.call(4, ListGroupsRequest()).error_code == 0
        with pytest.raises((OSError, Gone)), encrypted(broker, shows=False) as client:
            client.call(4, ListGroupsRequest())


@pytest.mark.parametrize("effect", [effects.close(), effects.truncated(), effects.slow_reading(60)])
def test_faults_reach_encrypted_connections(effect: effects.Effect) -> None:
    with Broker(tls=True) as broker, encrypted(broker) as client, encrypted(broker) as other:
        broker.fault(effect, api="ListGroups", times=1)
        is_slow = "Slow" in type(effect).__name__
        if is_slow:
            client.call(4, ListGroupsRequest())
            began = time.monotonic()
            client.call(5, DescribeGroupsRequest(groups=["g" * 20]))
            assert time.monotonic() - began > 0.5
        else:
            with pytest.raises((Gone, ConnectionError, ssl.SSLError)):
                client.call(4, ListGroupsRequest())
        assert other.call(4, ListGroupsRequest()).error_code == 0


def test_each_node_is_as_secure_as_the_first() -> None:
    with Broker(topics={"orders": 2}, brokers=2, tls=True, users={"alice": "x"}) as broker:
        broker.produce_many("orders", ["a", "b"])
        consumer = KafkaConsumer(
            "orders", auto_offset_reset="earliest", **broker.for_kafka_python()
        )
        assert {next(consumer).value, next(consumer).value} == {b"a", b"b"}
        consumer.close()
        for node in broker.nodes:
            host, port = node.address.split(":")
            with Client(socket.create_connection((host, int(port)))) as client:
                client.send(4, ListGroupsRequest())
                with pytest.raises((Gone, ConnectionError)):
                    client.read_frame()


def test_certificates_are_gone_with_their_process() -> None:
    program = (
        "import os\n"
        "from groupkeeper.testing import Broker\n"
        "with Broker(tls=True) as broker:\n"
        "    print(broker.for_java()['ssl.truststore.location'], flush=True)\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "    assert os.path.exists(broker.for_java()['ssl.truststore.location'])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=WAIT_S
    )
    [authority] = found.stdout.split()
    assert not Path(authority).parent.exists()


def test_tls_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from groupkeeper.testing import security

    security._certificates.cache_clear()
    monkeypatch.setitem(sys.modules, "groupkeeper.access.own_certificates", None)
    with pytest.raises(SettingsError, match="cryptography: pip install cryptography"):
        Broker(tls=True)


# -- users and rights ------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[Broker]:
    """A broker where bob may do everything, and alice nothing yet."""
    with Broker(topics={"orders": 1}, users=USERS, settings=AUTHORIZER) as broker:
        yield broker


def test_the_test_itself_may_do_everything(guarded: Broker) -> None:
    guarded.produce("orders", "first")
    guarded.create_topic("payments", 2)
    guarded.commit("billing", {("orders", 0): 1})
    assert [each.value for each in guarded.records("orders")] == [b"first"]
    assert guarded.committed("billing") == {("orders", 0): 1}
    assert guarded.groups() == ["billing"]


def test_clients_may_do_what_they_are_allowed(guarded: Broker) -> None:
    admins = {user: KafkaAdminClient(**guarded.for_kafka_python(user)) for user in USERS}
    assert "orders" in admins["bob"].list_topics()
    assert "orders" not in admins["alice"].list_topics()
    for admin in admins.values():
        admin.close()


def logs_in(broker: Broker, password: str) -> bool:
    line = SocketLine(address(broker)[1])
    talk = Talk(line)
    scram(talk, SCRAM_512, "alice", password)
    line.close()
    return talk.heard[-1] == "ListGroups error 0"


def test_users_are_there_again_after_a_reset_and_a_restart() -> None:
    with Broker(users={"alice": "secret"}) as broker:
        for again in (broker.restart, broker.reset, lambda: None):
            assert logs_in(broker, "secret")
            again()
        assert [line for line in broker.logs if "logged in" not in line] == []


def test_a_password_that_was_changed_stays_until_a_reset() -> None:
    with Broker(users={"alice": "secret"}) as broker:
        admin = KafkaAdminClient(**broker.for_kafka_python())
        other = UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "other")
        admin.alter_user_scram_credentials([other])
        admin.close()
        broker.restart()
        assert logs_in(broker, "other")
        assert not logs_in(broker, "secret")
        broker.reset()
        assert logs_in(broker, "secret")


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"users": ["alice"]}, "users= is a dict such as {'alice': 'secret'}, not"),
        ({"users": {"alice": 3}}, "the password of 'alice' is a str, not 3"),
        ({"users": {"": "x"}}, "have characters"),
        ({"users": {"alice": ""}}, "name and password of 'alice'"),
        ({"tls": "yes"}, "tls= is True or False, not 'yes'"),
        ({"user": {"alice": "x"}}, "unexpected keyword argument 'user'"),
        ({"tls": True, "settings": {"ssl.keystore.location": "x"}}, "has ssl.keystore.location"),
    ],
)
def test_a_wrong_argument_is_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises((TypeError, ValueError)) as failed:
        Broker(**given)
    assert line in str(failed.value) and "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("given", "user", "line"),
    [
        ({"users": USERS}, None, "user=None: give one of alice, bob"),
        ({"users": USERS}, "carol", "user='carol': give one of alice, bob"),
        ({}, "alice", "none: this broker has no users="),
    ],
)
def test_a_wrong_user_is_one_line(given: dict[str, Any], user: str | None, line: str) -> None:
    with Broker(**given) as broker, pytest.raises(WrongArgument, match=line):
        broker.for_aiokafka(user)


def test_properties_for_java_quote_names_and_passwords() -> None:
    with Broker(users=USERS, tls=True) as broker:
        found: ClientSettings = broker.for_java("alice")
    assert found["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        r'username="alice" password="sec\"ret\\";'
    )
    assert Path(found["ssl.truststore.location"]).name == "ca.pem"


def test_users_may_be_none_yet() -> None:
    """So that tokens, or users that an admin client makes, are what lets clients in."""
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": "file:///keys",
    }
    with Broker(users={}, settings=settings) as broker:
        assert broker.for_kafka_python() == {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
        }


# -- as a process ----------------------------------------------------------------------------------


def test_a_controlled_broker_has_listeners_of_any_name_and_an_authorizer() -> None:
    keys = [f"{key}={value}" for key, value in AUTHORIZER.items()]
    settings, _ = load(assignments=[*keys, "sasl.enabled.mechanisms=PLAIN"], dev=True)
    inside = Listen("INSIDE", ("127.0.0.1", 0), protocol=SecurityProtocol.SASL_PLAINTEXT)
    options = ServeOptions(MEMORY, (inside,), http=None, memory=True, settings=settings)
    bench = ServedBench(options, brokers=2, as_version=None)
    bench.start()
    broker = ServedBroker(bench)
    try:
        broker.create_topic("orders", 2)
        broker.produce("orders", "first")
        assert len(broker.records("orders")) == 1
        for node in broker.nodes:
            host, port = node.address.split(":")
            with Client(socket.create_connection((host, int(port)))) as client:
                client.send(4, ListGroupsRequest())
                with pytest.raises((Gone, ConnectionError)):
                    client.read_frame()
    finally:
        bench.stop()
