"""Members of groups on a server that lets in who belongs: by password, certificate or token.

Each client goes through one group's life in each of its ways, with the rights that it needs and no
others.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Final, Self

from tests.clients.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3, Library
from tests.clients.process import Worker, wait_until
from tests.clients.scene import Group, consumed, moves
from tests.clients.server import External
from tests.suites import versions
from tests.suites.checks import UnmetError, checked, wait_for
from tests.suites.secure_server import (
    ADMIN,
    BY_CERTIFICATE,
    BY_PASSWORD,
    BY_TOKEN,
    IN_SESSIONS,
    LIFETIME_MS,
    LOGIN,
    SecureServer,
    Way,
    settings_of,
)
from tests.suites.suite import Outcome, Result, Results, Suite, Target
from tests.truth.foreign import FRANZ_GO, JAVA, KAFKAJS, OLDER_JAVA, SARAMA, make
from tests.truth.play import AllWorkers

CLIENTS: Final = (KAFKA_PYTHON_3, AIOKAFKA, CONFLUENT, OLDER_JAVA, JAVA, FRANZ_GO, SARAMA, KAFKAJS)
WITH_TOKENS: Final = (OLDER_JAVA, JAVA, CONFLUENT, FRANZ_GO)
CASES: Final = (
    *((client, way) for way in (BY_PASSWORD, BY_CERTIFICATE) for client in CLIENTS),
    *((client, BY_TOKEN) for client in WITH_TOKENS),
)
REAUTHENTICATIONS: Final = 20
_CASE_S: Final = 240.0
_START_S: Final = 90.0
_RESTARTED: Final = "a static member is restarted without a rebalance"


class Secure(Suite):
    """One server for all cases; each has a group, a topic, and a limit in time."""

    name = "secure"
    about = "members over TLS with SCRAM, certificates and tokens, with no more rights than needed"
    needs = ("java", "javac", "mvn", "go", "node", "npm", "openssl")
    versions: ClassVar = {
        "kafka-python": versions.KAFKA_PYTHON,
        "aiokafka": "0.14",
        "confluent-kafka": "2.16",
        "org.apache.kafka:kafka-clients": f"2.8.2, {versions.KAFKA}",
        "franz-go": versions.FRANZ_GO,
        "sarama": versions.SARAMA,
        "kafkajs": versions.KAFKAJS,
    }
    limit_s = 1_800.0
    known: ClassVar = {
        f"kafkajs-*: {_RESTARTED}": "it has no static members: one that is closed leaves, and "
        "joins as another one, with a rebalance each time; it gets back what was committed"
    }

    def prepare(self, folder: Path) -> None:
        make(CLIENTS)

    def run(self, target: Target, folder: Path) -> Results:
        with SecureServer(folder) as server, ExitStack() as ending:
            bare = AllWorkers(External(server.address(LOGIN)), folder)
            ending.callback(bare.end)
            observer = bare.start(CONFLUENT)
            observer.ask("connect", more=server.librdkafka(LOGIN, ADMIN))
            for client, way in CASES:
                with Case(server, observer, client, way, folder) as case:
                    yield from case.life()
            with Case(server, observer, JAVA, IN_SESSIONS, folder) as case:
                yield from case.sessions()
        yield checked("no password, key or token is in a file of the suite", server.check_secrets)


class Case:
    """A group of one client that gets in one way."""

    def __init__(
        self, server: SecureServer, observer: Worker, client: Library, way: Way, folder: Path
    ) -> None:
        self._server = server
        self._client = client
        self._way = way
        self._name = f"{client.name}, {way.name}"
        place = folder / self._name.replace(" ", "-")
        place.mkdir(exist_ok=True)
        self._workers = AllWorkers(External(server.address(way.listener)), place)
        self._group = Group(client, self._workers, observer)
        self._sent: list[tuple[str, int, int]] = []
        self._limit = threading.Timer(_CASE_S, self._workers.end)

    def __enter__(self) -> Self:
        self._limit.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self._workers.end()

    def life(self) -> Iterator[Result]:
        """Two join, the static one is restarted, which leads, the other one leaves, another one
        comes.
        """
        yield from self._played(
            ("two members join, consume and commit", self._join),
            (_RESTARTED, self._restart),
            ("one leaves, and the next goes on at its offsets", self._hand_over),
            ("no right was missing", self._nothing_denied),
        )

    def sessions(self) -> Iterator[Result]:
        """Members log in again and again, and nothing moves."""
        title = f"{REAUTHENTICATIONS} re-authentications without a rebalance"
        yield from self._played(
            ("two members join, consume and commit", self._join), (title, self._stay)
        )

    def _played(self, *steps: tuple[str, Callable[[], None]]) -> Iterator[Result]:
        missing = ""
        for title, step in steps:
            name = f"{self._name}: {title}"
            if missing:
                yield Result(name, Outcome.FAILED, detail=f"not played after: {missing}")
                continue
            result = checked(name, step)
            if result.outcome is Outcome.FAILED and title != _RESTARTED:
                missing = title
            yield result

    # -- steps -------------------------------------------------------------------------------------

    def _join(self) -> None:
        group = self._group
        self._denied = self._server.samples("denied_total")
        self._server.allow(self._way.principal, group.topic, group.name)
        names = ["static", "other"]
        if self._client is KAFKA_PYTHON_3:  # its leader begins rebalances of its own
            names.reverse()
        members = {}
        for each in names:  # the first one leads
            members[each] = self._member(each, "static" if each == "static" else None)
            self._settle(*members.values())
        self._static, self._other = members["static"], members["other"]
        self._consume(self._static, self._other)

    def _settle(self, *members: Worker) -> None:
        """Wait until they share the topic; they may have to start first, on a machine that has
        other work.
        """
        wait_until(lambda: all(each.assigned for each in members), list(members), _START_S)
        self._group.settle(*members)

    def _member(self, name: str, instance_id: str | None = None) -> Worker:
        settings = settings_of(self._server, self._client, self._way)
        return self._group.join(instance_id, more={"client.id": name, **settings})

    def _consume(self, *members: Worker) -> None:
        sent = self._group.send()
        self._sent += sent
        self._group.await_records(sent, *members)
        self._group.commit(*members)

    def _restart(self) -> None:
        old, other = self._static, self._other
        held, before = old.assigned, (self._generation(), moves(other))
        if self._client is KAFKAJS:
            old.ask("close")
        else:
            old.kill()
        self._static = self._member("static", "static")
        self._settle(self._static, other)
        self._consume(self._static, other)
        if (now := (self._generation(), moves(other))) != before:
            raise UnmetError(f"generation and what the other gave up: {before}, then {now}")
        if self._static.assigned != held:
            raise UnmetError(f"{held} became {self._static.assigned}")

    def _generation(self) -> int:
        return int(self._server.group(self._group.name)["generation"])

    def _hand_over(self) -> None:
        self._other.ask("close")
        self._settle(self._static)
        self._consume(self._static)
        newcomer = self._member("newcomer")
        self._settle(self._static, newcomer)
        self._consume(self._static, newcomer)
        if (found := consumed(*self._workers.all)) != sorted(self._sent):
            raise UnmetError(f"{len(found)} records consumed, {len(self._sent)} sent")

    def _nothing_denied(self) -> None:
        if more := self._server.samples("denied_total") - self._denied:
            raise UnmetError(f"{more} requests denied: see {self._server.log}")

    def _stay(self) -> None:
        """Longer than so many sessions: connections that stay open have logged in each time."""
        server, members = self._server, (self._static, self._other)
        before = self._generation(), moves(*members)
        logins = server.logins("succeeded"), server.logins("expired")
        again = server.logins("reauthenticated")
        until = time.monotonic() + (REAUTHENTICATIONS + 1) * LIFETIME_MS / 1000
        while time.monotonic() < until:
            self._consume(*members)
            time.sleep(LIFETIME_MS / 1000)
        connections = 2 * len(members)  # to fetch, and to the coordinator
        wait_for(
            lambda: server.logins("reauthenticated") - again >= REAUTHENTICATIONS * connections,
            f"{REAUTHENTICATIONS} re-authentications of {connections} connections",
        )
        if (now := (server.logins("succeeded"), server.logins("expired"))) != logins:
            raise UnmetError(f"logins and sessions that ended: {logins}, then {now}")
        if (after := (self._generation(), moves(*members))) != before:
            raise UnmetError(f"generation and what was given up: {before}, then {after}")
