"""TLS, logins and access control together: real clients join a group, commit, and are refused after
their right was revoked.

One listener has SASL_SSL with SCRAM, one certificates of clients.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka import KafkaError as Error
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition
from kafka.errors import GroupAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from groupkeeper.access.users import user_key
from groupkeeper.topics.topics import wall_ms
from tests.access.secured import stored
from tests.support.certificates import SUBJECT, Certificates
from tests.support.secure_server import WAIT_S, SecureServer

pytestmark = pytest.mark.clients

LOGIN, MUTUAL = "SASL_SSL", "MUTUAL"
PASSWORDS = {"admin": "PLANTED-of-admin", "member": "PLANTED-of-member"}
WHO = {LOGIN: "User:member", MUTUAL: f"User:{SUBJECT}"}
TOPIC = "orders"
SCRAM = "SCRAM-SHA-512"


class Guarded(SecureServer):
    """A server on which the administrator may do everything, and all others nothing."""

    def __init__(self, made: Certificates) -> None:
        self.made = made
        super().__init__(
            [
                *made.settings(),
                f"listeners={LOGIN}://localhost:0,{MUTUAL}://localhost:0",
                f"listener.security.protocol.map={LOGIN}:SASL_SSL,{MUTUAL}:SSL",
                "listener.name.mutual.ssl.client.auth=required",
                f"sasl.enabled.mechanisms={SCRAM}",
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users=User:admin",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=2",
            ]
        )
        entries = [(user_key(name, SCRAM), stored(SCRAM, PASSWORDS[name])) for name in PASSWORDS]
        self.run(self.server.topics.catalog.change_access(entries, wall_ms()))
        self.admin = AdminClient(self.librdkafka(LOGIN, "admin"))
        self.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_S)

    def librdkafka(self, listener: str, user: str = "member") -> dict[str, Any]:
        """Settings of a client."""
        found = {
            "bootstrap.servers": self.address(listener),
            "ssl.ca.location": str(self.made.ca),
            "broker.address.family": "any",
        }
        if listener == MUTUAL:
            both = str(self.made.client_pem)
            return found | {
                "security.protocol": "SSL",
                "ssl.certificate.location": both,
                "ssl.key.location": both,
            }
        return found | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def kafka_python(self, listener: str) -> dict[str, Any]:
        """Settings of a client."""
        found = {"bootstrap_servers": self.address(listener), "ssl_cafile": str(self.made.ca)}
        if listener == MUTUAL:
            certificate = str(self.made.client_pem)
            return found | {"security_protocol": "SSL", "ssl_certfile": certificate}
        return found | {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": SCRAM,
            "sasl_plain_username": "member",
            "sasl_plain_password": PASSWORDS["member"],
        }

    def allow(self, who: str, kind: ResourceType, name: str) -> None:
        """Let somebody read."""
        literal = ResourcePatternType.LITERAL, who, "*", AclOperation.READ, AclPermissionType.ALLOW
        binding = AclBinding(kind, name, *literal)
        self.admin.create_acls([binding])[binding].result(WAIT_S)

    def revoke(self, who: str, group: str) -> None:
        """Revoke the right to read a group."""
        literal = ResourcePatternType.LITERAL, who, "*", AclOperation.READ, AclPermissionType.ALLOW
        binding = AclBindingFilter(ResourceType.GROUP, group, *literal)
        assert len(self.admin.delete_acls([binding])[binding].result(WAIT_S)) == 1

    def committed(self, group: str) -> list[int]:
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(WAIT_S)
        return [each.offset for each in found.topic_partitions]

    def denied(self, api: str) -> int:
        return self.server.metrics.denied[api, "GROUP"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    running = Guarded(Certificates(tmp_path_factory.mktemp("certificates")))
    yield running
    running.stop()


class OfKafkaPython:
    """A member by kafka-python."""

    def __init__(self, guarded: Guarded, listener: str, group: str) -> None:
        self._consumer = KafkaConsumer(
            TOPIC,
            group_id=group,
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            **guarded.kafka_python(listener),
        )
        # Else it may assign partitions before it knows any, and does not look again for minutes.
        assert self._consumer.partitions_for_topic(TOPIC)

    def join(self) -> bool:
        try:
            self._consumer.poll(timeout_ms=200)
        except GroupAuthorizationFailedError:
            raise PermissionError from None
        return bool(self._consumer.assignment())

    def commit(self) -> None:
        try:
            self._consumer.commit({Partition(TOPIC, 0): OffsetAndMetadata(7, "", -1)})
        except GroupAuthorizationFailedError:
            raise PermissionError from None

    def close(self) -> None:
        self._consumer.close()


class OfConfluent:
    """A member by confluent-kafka."""

    def __init__(self, guarded: Guarded, listener: str, group: str) -> None:
        more = {"group.id": group, "enable.auto.commit": False, "heartbeat.interval.ms": 100}
        self._consumer = Consumer({**guarded.librdkafka(listener), **more})
        self._consumer.subscribe([TOPIC])

    def join(self) -> bool:
        message = self._consumer.poll(0.2)
        error = None if message is None else message.error()
        if error is not None and error.code() == Error.GROUP_AUTHORIZATION_FAILED:
            raise PermissionError
        return bool(self._consumer.assignment())

    def commit(self) -> None:
        try:
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        except KafkaException as failed:
            if failed.args[0].code() == Error.GROUP_AUTHORIZATION_FAILED:
                raise PermissionError from None
            raise

    def close(self) -> None:
        self._consumer.close()


CLIENTS = {"kafka-python": OfKafkaPython, "confluent": OfConfluent}


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def refused(member: OfKafkaPython | OfConfluent) -> bool:
    try:
        member.join()
    except PermissionError:
        return True
    return False


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("listener", WHO)
def test_a_member_is_refused_once_its_right_is_revoked(
    guarded: Guarded, listener: str, client: str
) -> None:
    who, group = WHO[listener], f"{client}-{listener}"
    guarded.allow(who, ResourceType.TOPIC, TOPIC)
    guarded.allow(who, ResourceType.GROUP, group)
    member = CLIENTS[client](guarded, listener, group)
    try:
        until(member.join)
        member.commit()
        assert guarded.committed(group) == [7]
        assert (listener, who) in guarded.principals()
        beats = guarded.denied("Heartbeat")
        guarded.revoke(who, group)
        until(lambda: guarded.denied("Heartbeat") > beats or refused(member))
        with pytest.raises(PermissionError):
            member.commit()
    finally:
        member.close()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("listener", WHO)
def test_who_has_no_right_does_not_join(guarded: Guarded, listener: str, client: str) -> None:
    guarded.allow(WHO[listener], ResourceType.TOPIC, TOPIC)
    member = CLIENTS[client](guarded, listener, "of others")
    try:
        until(lambda: refused(member))
    finally:
        member.close()
