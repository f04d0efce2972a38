"""One run: a server is killed again and again while users and ACLs are changed.

Two clients change: one sets and removes three users with each request, the other creates and
deletes three ACLs, sometimes three hundred. After every start all are asked for: what was
acknowledged is there, and the request that was under way is there as a whole, or not at all. In the
end every user logs in with the password that was set last.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from groupkeeper.access.users import MIN_ITERATIONS, SCRAM_SHA_512, TYPE_OF, salted_password
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupkeeper.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from groupkeeper.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from tests.access.conversations import SASL, Talk, scram
from tests.access.record import SocketLine
from tests.support.process import Process, assigned, tail
from tests.support.wire import Address, Client, connect

SETTINGS = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{SASL}://127.0.0.1:0",
    "sasl.enabled.mechanisms": SCRAM_SHA_512,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
}
UP_SECONDS = (0.02, 0.5)
"""How long a server lives after its start was checked."""
LEAST_KILLS = 3
"""However many changes a fast server makes in its first life."""
TOGETHER, MANY = 3, 300
NAMES = 12
"""Users, and principals with ACLs, at most."""
SALT = b"salt-of-a-client"
ANY = 1

State = Mapping[Hashable, int]
"""What there is: a user with its rounds, which tell when it was set; an ACL with 1."""


@dataclass
class Report:
    """What happened."""

    changes: int = 0
    kills: int = 0
    under_way: int = 0
    """Kills while a request was not answered, by whether it is there in the end."""
    kept: int = 0
    users: int = 0
    acls: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Changing:
    """One client's changes, and what there has to be because of them."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.acknowledged: dict[Hashable, int] = {}
        self.under_way: dict[Hashable, int] | None = None
        """What there is as well if the request that is not answered is done."""
        self.count = 0
        self.chance = Random(seed)

    def request(self, number: int) -> tuple[int, Any]:
        """The version and the next request; `under_way` is told."""
        raise NotImplementedError

    def found(self, client: Client) -> State:
        """What the server has."""
        raise NotImplementedError

    def change(self, client: Client, number: int) -> None:
        """Raises OSError if the server is killed."""
        version, request = self.request(number)
        answer = client.call(version, request)
        rows = answer.filter_results if hasattr(answer, "filter_results") else answer.results
        assert not [row for row in rows if row.error_code], answer
        assert self.under_way is not None
        self.acknowledged, self.under_way = self.under_way, None
        self.count += 1

    def check(self, client: Client, report: Report) -> None:
        """After a start."""
        there = self.found(client)
        if self.under_way is not None:
            report.under_way += 1
            if there == self.under_way:
                report.kept += 1
                self.acknowledged = self.under_way
            self.under_way = None
        if there != self.acknowledged:
            differs = sorted(map(str, dict(self.acknowledged).items() ^ there.items()))
            report.wrong.append(f"kill {report.kills}, {self.name}: {', '.join(differs[:6])}")
            self.acknowledged = dict(there)


class Users(Changing):
    def request(self, number: int) -> tuple[int, Any]:
        names = [f"u{each}" for each in self.chance.sample(range(NAMES), TOGETHER)]
        wanted = self.under_way = dict(self.acknowledged)
        deletions, upsertions = [], []
        for name in names:
            if name in wanted and self.chance.random() < 0.4:
                del wanted[name]
                row = ScramCredentialDeletion(name=name, mechanism=TYPE_OF[SCRAM_SHA_512])
                deletions.append(row)
                continue
            rounds = wanted[name] = MIN_ITERATIONS + number
            salted = salted_password(SCRAM_SHA_512, password(name, rounds), SALT, rounds)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=name,
                    mechanism=TYPE_OF[SCRAM_SHA_512],
                    iterations=rounds,
                    salt=SALT,
                    salted_password=salted,
                )
            )
        return 0, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)

    def found(self, client: Client) -> State:
        rows = client.call(0, DescribeUserScramCredentialsRequest(users=None)).results
        return {row.user: each.iterations for row in rows for each in row.credential_infos}


def password(name: str, rounds: int) -> str:
    return f"password of {name} with {rounds}"


class Acls(Changing):
    def request(self, number: int) -> tuple[int, Any]:
        principal = f"User:a{self.chance.randrange(NAMES)}"
        wanted = self.under_way = dict(self.acknowledged)
        mine = [key for key in wanted if isinstance(key, tuple) and key[0] == principal]
        if mine and self.chance.random() < 0.45:
            for key in mine:
                del wanted[key]
            return 3, DeleteAclsRequest(filters=[_of(principal)])
        count = MANY if self.chance.random() < 0.05 else TOGETHER
        rows = [f"t{number}-{at}" for at in range(count)]
        wanted |= {(principal, name): 1 for name in rows}
        return 3, CreateAclsRequest(creations=[_creation(principal, name) for name in rows])

    def found(self, client: Client) -> State:
        described = client.call(3, DescribeAclsRequest(**_filter(None)))
        return {
            (acl.principal, each.resource_name): 1
            for each in described.resources
            for acl in each.acls
        }


def _creation(principal: str, name: str) -> AclCreation:
    return AclCreation(
        resource_type=ResourceKind.TOPIC,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=Operation.READ,
        permission_type=3,
    )


def _filter(principal: str | None) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": principal,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def _of(principal: str) -> DeleteAclsFilter:
    return DeleteAclsFilter(**_filter(principal))


class _Life:
    """Two clients at work on a server that is killed after a while."""

    def __init__(self, kafka: Address, clients: list[Changing], numbers: Callable[[], int]) -> None:
        self._threads = [
            threading.Thread(target=self._work, args=(kafka, each, numbers)) for each in clients
        ]
        self.over = threading.Event()
        self.failed: list[str] = []
        for each in self._threads:
            each.start()

    def _work(self, kafka: Address, changing: Changing, numbers: Callable[[], int]) -> None:
        try:
            with connect(kafka) as client:
                while not self.over.is_set():
                    changing.change(client, numbers())
        except OSError:
            pass  # it is killed
        except AssertionError as error:
            self.failed.append(f"{changing.name}: {error}")

    def join(self) -> None:
        for each in self._threads:
            each.join()


def run(
    changes: int, seed: int, folder: Path, say: Callable[[str], None] = lambda _: None
) -> Report:
    """Until so many changes are acknowledged, and servers were killed. Raises AssertionError if a
    server does not start.
    """
    report, chance, begin = Report(), Random(seed), time.monotonic()
    clients: list[Changing] = [Users("users", seed), Acls("acls", seed + 1)]
    numbers = iter(range(1, MIN_ITERATIONS))
    with contextlib.ExitStack() as stack:
        while not report.wrong and (report.changes < changes or report.kills < LEAST_KILLS):
            process = stack.enter_context(_started(folder))
            ready = process.ready()
            with connect(ready.kafka) as client:
                for each in clients:
                    each.check(client, report)
            life = _Life(ready.kafka, clients, lambda: next(numbers))
            life.over.wait(chance.uniform(*UP_SECONDS))
            process.kill()
            life.over.set()
            life.join()
            report.kills += 1
            report.wrong += life.failed
            report.changes = sum(each.count for each in clients)
            say(f"{report.changes} changes, {report.kills} kills")
        process = stack.enter_context(_started(folder))
        ready = process.ready()
        with connect(ready.kafka) as client:
            for each in clients:
                each.check(client, report)
        _log_in(clients[0].acknowledged, ready.listeners[SASL][1], report)
        if process.stop() != 0:
            report.wrong.append(f"it does not stop: {tail(folder / 'server.log')}")
    report.users, report.acls = (len(each.acknowledged) for each in clients)
    report.seconds = time.monotonic() - begin
    return report


def _started(folder: Path) -> Process:
    where = "--http", "off", "--data-dir", str(folder / "data")
    return Process(*where, *assigned(SETTINGS), listen=None, log=folder / "server.log")


def _log_in(users: State, port: int, report: Report) -> None:
    for name, rounds in users.items():
        line = SocketLine(port)
        talk = Talk(line)
        scram(talk, SCRAM_SHA_512, str(name), password(str(name), rounds))
        line.close()
        if talk.heard[-1] != "ListGroups error 0":
            report.wrong.append(f"{name} cannot log in: {talk.heard[-1]}")


def words(report: Report) -> list[str]:
    changes, kills, seconds = report.changes, report.kills, report.seconds
    lines = [
        f"{changes} changes of users and ACLs acknowledged, {kills} kills in {seconds:.0f} s",
        f"{report.under_way} requests were under way, {report.kept} of them are done",
        f"{report.users} users, who all log in, and {report.acls} ACLs in the end",
    ]
    return [*lines, *(f"LOST {each}" for each in report.wrong)]
