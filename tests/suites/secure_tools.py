"""Kafka's tools with logins, on a broker of Apache Kafka and on our server: they print the same.

Both have SASL, the same users, and StandardAuthorizer or its like.
"""

import asyncio
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.access.conversations import PLAIN_USERS, SASL, SCRAM_512, SESSIONS
from tests.access.record import MODULES, SecureKafka, settings
from tests.suites.checks import UnmetError, checked, wait_for
from tests.suites.kafka_checks import CLASSES
from tests.suites.process import Lines
from tests.suites.secure_words import (
    ADMIN,
    ASKED,
    GROUP,
    NEWCOMER,
    PASSWORD,
    STRANGER,
    TOPIC,
    Asked,
    compared,
    differences,
)
from tests.suites.suite import Results
from tests.support.process import Process, assigned

_TOOL_S: Final = 60.0
_WAIT_S: Final = 30.0
_SHOWN: Final = 8
_GUARDED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # the broker speaks with itself on a listener without logins
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
}
_TLS_LESS: Final = {"security.protocol": "SASL_PLAINTEXT"}


def secure_tools(java: list[str], folder: Path) -> Results:
    """Ask everything on both, and compare."""
    place = folder / "secure"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    files = {name: _properties(place, name) for name in (*PLAIN_USERS, NEWCOMER, STRANGER)}
    with _kafka(place) as theirs, _ours(place) as ours, ThreadPoolExecutor(2) as pool:
        for address in (theirs, ours):
            _fill(address)

        def same(asked: Asked) -> None:
            def printed(address: str) -> list[str]:
                where = ["--bootstrap-server", address, "--command-config", str(files[asked.user])]
                command = [*java, CLASSES[asked.tool], *where, *asked.words.split()]
                with Lines(command, folder, limit_s=_TOOL_S) as lines:
                    return [*lines, f"exit code {lines.returncode}"]

            of_kafka, of_ours = (compared(each) for each in pool.map(printed, (theirs, ours)))
            if not re.search(asked.says, "\n".join(of_kafka)):
                raise UnmetError("\n".join([f"Kafka does not say {asked.says}", *of_kafka]))
            if more := differences(of_kafka, of_ours):
                raise UnmetError("\n".join(more[:_SHOWN]))

        for each in ASKED:
            yield checked(each.title, lambda each=each: same(each))


@contextmanager
def _kafka(place: Path) -> Iterator[str]:
    """A broker of Apache Kafka; the address of its listener with logins."""
    folder = place / "kafka"
    folder.mkdir()
    kafka = SecureKafka(folder, _GUARDED)
    try:
        asyncio.run(kafka.start())
        yield f"127.0.0.1:{kafka.ports[SASL]}"
    finally:
        kafka.kill()


@contextmanager
def _ours(place: Path) -> Iterator[str]:
    given = settings({SASL: 0}, place / "kafka" / "jwks.json")
    own = {
        key: value
        for key, value in given.items()
        if SESSIONS.lower() not in key and key != "inter.broker.listener.name"
    }
    del own["advertised.listeners"]
    words = ("--http", "off", "--data-dir", str(place / "data"))
    log = place / "server.log"
    with Process(*words, *assigned(own | _GUARDED), listen=None, log=log) as server:
        yield "{}:{}".format(*server.ready().kafka)
        server.stop()


def _properties(place: Path, name: str) -> Path:
    """A file for Kafka's tools."""
    if name in PLAIN_USERS:
        mechanism, module, password = "PLAIN", "plain.PlainLoginModule", PLAIN_USERS[name]
    else:
        mechanism, module = SCRAM_512, "scram.ScramLoginModule"
        password = PASSWORD if name == NEWCOMER else "wrong"
    login = f'{MODULES}.{module} required username="{name}" password="{password}";'
    rows = {**_TLS_LESS, "sasl.mechanism": mechanism, "sasl.jaas.config": login}
    path = place / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in rows.items()), encoding="utf-8")
    return path


def _fill(address: str) -> None:
    """A topic, and a group without members that has committed."""
    about = {
        "bootstrap.servers": address,
        **_TLS_LESS,
        "sasl.mechanism": "PLAIN",
        "sasl.username": ADMIN,
        "sasl.password": PLAIN_USERS[ADMIN],
    }
    admin = AdminClient(about)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(_WAIT_S)
    wait_for(lambda: TOPIC in admin.list_topics(timeout=5).topics, "the topic is there")
    consumer = Consumer({**about, "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    consumer.close()
