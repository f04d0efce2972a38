"""The rights that an observer needs, on a server whose ACLs allow nothing else, and the line about
each one that is missing.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.access.acls import Acl, PatternKind, Permission
from groupkeeper.cli import main
from groupkeeper.client import Client
from groupkeeper.client.config import read_config
from groupkeeper.history.coverage import OFFSETS_LOG
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.coordinating import ask_coordinator
from tests.support.guarded import AUTHORIZER, create_acls_request, right
from tests.support.observing import observing
from tests.support.process import PROGRAM, READY_S
from tests.support.requests import (
    commit_request,
    create_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.secure_server import WAIT_S, SecureServer

Capture = pytest.CaptureFixture[str]
LISTENER, GROUP, TOPIC, OBSERVER = "SASL_PLAINTEXT", "billing", "orders", "User:observer"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORDS = {"admin": "PLANTED-of-admin", "observer": "PLANTED-of-observer"}
READ_TOPIC = right(Operation.READ, ResourceKind.TOPIC, OFFSETS_LOG, OBSERVER)
DESCRIBE_TOPIC = right(Operation.DESCRIBE, ResourceKind.TOPIC, OFFSETS_LOG, OBSERVER)
DESCRIBE_GROUP = right(Operation.DESCRIBE, ResourceKind.GROUP, GROUP, OBSERVER)
DESCRIBE_ALL = (
    right(Operation.DESCRIBE, ResourceKind.GROUP, "*", OBSERVER),
    right(Operation.DESCRIBE, ResourceKind.TOPIC, "*", OBSERVER),
)
STAYS = {"session_timeout_ms": 300_000}
Denied = tuple[str, str]
"""API and resource."""
EVERY: dict[str, Any] = {
    "resource_type_filter": ResourceKind.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternKind.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


class Cluster(SecureServer):
    """A server with a group that has rebalanced, an administrator, and a user for the observer."""

    def __init__(self, folder: Path) -> None:
        users = " ".join(f'user_{name}="{each}"' for name, each in PASSWORDS.items())
        super().__init__(
            [
                f"listeners={LISTENER}://127.0.0.1:0",
                "sasl.enabled.mechanisms=PLAIN",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} {users};",
                AUTHORIZER,
                "super.users=User:admin",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=2",
            ]
        )
        self.folder = folder
        asyncio.run(self._play())

    def config(self, user: str) -> Path:
        """A file for `--command-config`."""
        path = self.folder / f"{user}.properties"
        path.write_text(
            f"security.protocol={LISTENER}\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} username="{user}" password="{PASSWORDS[user]}";\n'
        )
        return path

    @property
    def words(self) -> list[str]:
        """Options of a command of the observer's user."""
        address = self.address(LISTENER)
        return ["--bootstrap-server", address, "--command-config", str(self.config("observer"))]

    def _admin(self) -> Client:
        return Client(self.address(LISTENER), **read_config(self.config("admin")))

    async def _play(self) -> None:
        async with self._admin() as admin:
            await admin.call(create_request(TOPIC))
            await self._rejoin(admin)

    def rejoin(self) -> int:
        """Let the member leave, join again and commit; the generation."""

        async def play() -> int:
            async with self._admin() as admin:
                return await self._rejoin(admin, self._member)

        return asyncio.run(play())

    async def _rejoin(self, admin: Client, member: str = "") -> int:
        if member:
            await ask_coordinator(admin, leave_request(member, group_id=GROUP), GROUP)
        joining = join_request(GROUP, group_instance_id="one", **STAYS)
        joined = await ask_coordinator(admin, joining, GROUP)
        self._member, generation = joined.member_id, int(joined.generation_id)
        self.generation = generation
        plan = {self._member: b"plan"}
        commit = commit_request({(TOPIC, 0): 0}, GROUP, self._member, generation)
        for each in (sync_request(self._member, generation, GROUP, plan), commit):
            await ask_coordinator(admin, each, GROUP)
        return generation

    def allow(self, *acls: Acl) -> None:
        """Let the user of the observer do this and nothing else, and forget what was denied."""

        async def change() -> None:
            async with self._admin() as admin:
                await admin.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]))
                if acls:
                    await admin.call(create_acls_request(acls))

        asyncio.run(change())
        self.server.metrics.denied.clear()

    @property
    def denied(self) -> set[Denied]:
        """What was denied."""
        found = [*self.server.metrics.denied.items()]
        return {(each[0], each[1]) for each, count in found if count}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("rights"))
    yield running
    running.stop()


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def refusal(secured: Cluster, data: Path) -> str:
    """What an observer says that ends at once."""
    ran = subprocess.run(
        [*PROGRAM, "observe", *secured.words, "--data", str(data), "--http", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert ran.returncode == 1
    assert "PLANTED" not in ran.stderr
    return ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "acls", "denied"),
    [
        (("--no-ask",), (READ_TOPIC,), set[Denied]()),
        ((), (READ_TOPIC, *DESCRIBE_ALL), set[Denied]()),
        ((), (READ_TOPIC,), {("DescribeGroups", "GROUP"), ("Metadata", "TOPIC")}),
    ],
)
def test_the_rights_suffice_and_nothing_else_is_asked_for(
    options: tuple[str, ...],
    acls: tuple[Acl, ...],
    denied: set[Denied],
    secured: Cluster,
    tmp_path: Path,
) -> None:
    secured.allow(*acls)
    _, address, *config = secured.words
    with observing(address, tmp_path / "data", *config, *options) as observer:
        observer.caught_up()
        generation = secured.rejoin()

        def is_told() -> bool:
            rounds = observer.get(f"/api/v1/groups/{GROUP}/rounds")["rounds"]
            return bool(rounds) and rounds[-1]["generation"] == generation

        def is_asked() -> bool:
            names = ("observer_asks", "observer_lag_asks")
            found = [f"\ngroupkeeper_{each}_total 0.0" for each in names]
            return not any(each in observer.text("/metrics") for each in found)

        until(is_told)
        if not options:
            until(is_asked)
        until(lambda: secured.denied >= denied)
        rounds = observer.get(f"/api/v1/groups/{GROUP}/rounds")["rounds"]
    assert {each["source"] for each in rounds} == {"log"}
    assert (LISTENER, OBSERVER) in secured.principals()
    assert secured.denied == denied
    assert "PLANTED" not in observer.log.read_text()


@pytest.mark.parametrize(("acls", "operation"), [((), "DESCRIBE"), ((DESCRIBE_TOPIC,), "READ")])
def test_a_right_on_the_topic_that_is_missing_is_one_line(
    secured: Cluster, tmp_path: Path, acls: tuple[Acl, ...], operation: str
) -> None:
    secured.allow(*acls)
    assert refusal(secured, tmp_path / "data") == (
        f"groupkeeper: the cluster denies this user {operation} on the topic __consumer_offsets: "
        "grant READ on the topic __consumer_offsets, and DESCRIBE on groups for `groupkeeper why` "
        "and `groupkeeper groups`"
    )


def test_why_needs_to_describe_the_group_as_well(secured: Cluster, capsys: Capture) -> None:
    why = ["why", GROUP, *secured.words, "--http", "off"]
    secured.allow(READ_TOPIC)
    assert main(why) == 1
    assert capsys.readouterr().err == (
        "groupkeeper: FindCoordinator: GROUP_AUTHORIZATION_FAILED (group 'billing'): grant this "
        "user DESCRIBE on the group\n"
    )
    secured.allow(READ_TOPIC, DESCRIBE_GROUP)
    assert main(why) == 0
    out, err = capsys.readouterr()
    assert f"rebalance to generation {secured.generation}" in out
    assert "Now: Stable, 1 member" in out
    assert "causes are inferred from __consumer_offsets" in err
    # It looks for stored events and settings, which other clusters do not have, and goes without.
    assert secured.denied == {("Metadata", "TOPIC"), ("DescribeConfigs", "CLUSTER")}


def test_why_without_the_topic_says_what_is_missing(secured: Cluster, capsys: Capture) -> None:
    secured.allow(DESCRIBE_GROUP)
    assert main(["why", GROUP, *secured.words, "--http", "off"]) == 0
    out, err = capsys.readouterr()
    assert "Now: Stable, 1 member" in out
    assert (
        "as the topic __consumer_offsets may not be read (needed: READ on the topic "
        "__consumer_offsets, DESCRIBE on the group)"
    ) in err
