"""What a check is played with: a group with policies, on a server of its own, and what is seen of
it: by its members, by requests, and in the events that are stored about it.

*Nobody* was disturbed means that the listeners of the other members were not called, and that the
generation is the same.
"""

import json
import re
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from groupkeeper.protocol.embedded import decode_assignment
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.apis.config_calls import GROUP, SET, alter_request, outcomes
from tests.clients.process import Partition, Worker, wait_until
from tests.clients.scene import HEARTBEAT_MS, PARTITIONS, QUIET_SECONDS, Group
from tests.policies.clients import COOPERATIVE, Client
from tests.suites.checks import UnmetError
from tests.truth.incidents.stage import Stage
from tests.truth.incidents.verdicts import ALSO
from tests.truth.play import PARTITIONS as LOGS
from tests.truth.reading import Story

GRACE: Final = "classic.scheduled.rebalance.max.delay.ms"
NO_GRACE: Final = {GRACE: "0"}
RESERVE_ON: Final = "classic.reserve.on"
MATCH: Final = "classic.seat.match"
GRACE_MS: Final = 120_000
"""Longer than a play."""
SESSION_MS: Final = 6_000
LONG_SESSION_MS: Final = 25_000
"""Longer than any client takes to start."""
NO_REBALANCE: Final = "no rebalance_started"
TOLD_S: Final = 30.0
AT_ONCE_MS: Final = 2 * HEARTBEAT_MS + 1_900
"""Two heartbeats, on a machine with other work. Waiting for a lost member takes its session."""

_SECOND_ROUND: Final = {"leader_rejoined", "member_rejoined"}
"""Of the rebalances in which a cooperative group gives away what was revoked in the first."""
_COMMITS: Final = re.compile(
    r'^groupkeeper_answers_total\{api="OffsetCommit",error="(\w+)"\} (\S+)$', re.MULTILINE
)


class Party:
    """A group, once it has begun: `begin`. `configs`: of the group. `cable`: between
    clients and server, so that clients may come from another host.
    """

    def __init__(
        self,
        client: Client,
        folder: Path,
        configs: Mapping[str, str],
        *,
        group: str | None = None,
        cable: bool = False,
    ) -> None:
        self.stage = Stage(client.library, folder, session_ms=SESSION_MS, cable=cable)
        self.group = self.stage.group
        self.has_begun = False
        self.more: dict[str, int] = {}
        """Settings of members that are started from now on."""
        self._client = client
        self._name = group or self.group.name
        self._story = Story(self._name, LOGS)
        self._others: dict[Worker, tuple[int, int]] = {}
        self._generation = 0
        self.configure({GRACE: str(GRACE_MS), **configs})

    def close(self) -> None:
        """End all processes."""
        self.stage.close()

    @property
    def way(self) -> str:
        """How the clients assign."""
        return self._client.way

    def configure(self, configs: Mapping[str, str], operation: int = SET) -> None:
        """Change configs of the group."""
        changes = [(key, operation, value) for key, value in configs.items()]
        with self.stage.client() as client:
            [outcome] = outcomes(client.call(1, alter_request((GROUP, self._name, changes))))
        assert outcome == (0, None), outcome

    def grow(self, partitions: int) -> None:
        """Let the topic have so many partitions."""
        topic = self.group.topic
        wanted = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        with self.stage.client() as client:
            asked = CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000)
            [result] = client.call(1, asked).results
        assert result.error_code == 0, result
        self.group.partitions = {(topic, number) for number in range(partitions)}

    # -- members -----------------------------------------------------------------------------------

    def join(self, name: str, session_ms: int | None = None, *, static: bool = False) -> Worker:
        """Start a process whose client id is the name, and of a static member the instance id."""
        chosen = {**self._client.settings, **self.more}
        settings = {key.replace(".", "__"): value for key, value in chosen.items()}
        how: dict[str, Any] = {"static": static, "session_ms": session_ms, **settings}
        return self.stage.join(name, **how)

    def join_elsewhere(self, name: str) -> tuple[Worker, set[Partition]]:
        """Start a process that subscribes to another topic; also the partitions of that."""
        group, other = self.group, Group(self._client.library, self.stage.workers, self.stage.admin)
        other.name, self.stage.group = group.name, other
        try:
            return self.join(name), other.partitions
        finally:
            self.stage.group = group

    def settled(self, *names: str, session_ms: int | None = None) -> list[Worker]:
        """Members that share the topic and have committed something, joined one by one."""
        members: list[Worker] = []
        for name in names:
            members.append(self.join(name, session_ms))
            self.group.settle(*members)
        self.stage.consumed(*members)
        return members

    def from_host(self, host: str) -> None:
        """Processes that are started from now on come from this host."""
        assert self.stage.cable is not None
        self.stage.cable.host = host

    def leave(self, member: Worker) -> None:
        """Let a process end in order."""
        member.ask("close")
        self.lose(member)

    def lose(self, member: Worker) -> None:
        """Kill a process."""
        member.kill()
        self.stage.members.remove(member)

    # -- what is seen ------------------------------------------------------------------------------

    def begin(self, *others: Worker) -> None:
        """Wait until nothing moves: what happened so far does not count. The others are those that
        nobody may disturb.
        """
        self._await_rest()
        self._story.begin(self.stage.server.kafka)
        self._others = {each: (each.assignments, each.revocations) for each in others}
        self._generation = self.state()["generation"]
        self.has_begun = True

    def _await_rest(self) -> None:
        """Some listeners are called late, or once more, when all partitions have owners already."""
        until = time.monotonic() + TOLD_S
        before: object = None
        while True:
            state, members = self.state(), self.stage.members
            now = [(each.assignments, each.revocations) for each in members], state["generation"]
            if state["state"] == "Stable" and now == before:
                return
            before = now
            assert time.monotonic() < until, "the group does not come to rest"
            time.sleep(QUIET_SECONDS)

    def state(self) -> dict[str, Any]:
        """The group, as the server's pages have it."""
        address = f"http://{self.stage.server.http}/api/v1/groups/{self._name}"
        with urllib.request.urlopen(address, timeout=20) as answer:
            read: dict[str, Any] = json.load(answer)
        return read

    def assignments(self) -> dict[str, tuple[str, bytes]]:
        """Client id and bytes of the assignment, by member id."""
        with self.stage.client() as client:
            [group] = client.call(5, DescribeGroupsRequest(groups=[self._name])).groups
        return {each.member_id: (each.client_id, each.member_assignment) for each in group.members}

    def held_by(self, member: str) -> set[Partition]:
        """The partitions of the only member with this client id or member id, by the group."""
        told = self.assignments().items()
        [data] = [data for key, (name, data) in told if member in (key, name)]
        assigned = decode_assignment(data).assigned_partitions
        return {(each.topic, number) for each in assigned for number in each.partitions}

    def expect(self, *lines: str) -> None:
        """Wait until these events are stored, in their order. Raises UnmetError."""
        found = self._story.hear(self.stage.server.kafka, lines, TOLD_S)
        unmet = [
            f"{told} in the place of: {line}"
            for told, line in zip(found, lines, strict=True)
            if told != line
        ]
        if unmet:
            raise UnmetError("; ".join(unmet))

    def events(self, kind: str) -> list[Event]:
        """All events of a type, of those that were waited for or came before them."""
        return self._story.events(kind)

    def rebalances(self, *, rounds: bool = True) -> list[Event]:
        """The beginnings of all rebalances so far, but for those that this client is known to start
        by itself; `rounds`: with the second ones of cooperative clients.
        """
        self.expect("no server_failed")
        name = self._client.name
        own = {code for beginning, code in ALSO.items() if name.startswith(beginning)}
        if not rounds and self._client.way == COOPERATIVE:
            own |= _SECOND_ROUND
        found = self.events("rebalance_started")
        return [each for each in found if each.fields["cause"]["code"] not in own]

    def expect_rebalances(self, number: int, *, rounds: bool = True) -> None:
        """Raises UnmetError for another number of them."""
        found = [each.fields["cause"]["code"] for each in self.rebalances(rounds=rounds)]
        if len(found) != number:
            raise UnmetError(f"{len(found)} rebalances ({', '.join(found)}), not {number}")

    # -- what has to be so -------------------------------------------------------------------------

    def took_over(self, member: Worker, partitions: set[Partition]) -> None:
        """Wait until the member has these partitions, and everybody consumes what is owned, and
        commits it.
        """
        wait_until(lambda: member.assigned == partitions, [member])
        self.consume()

    def shared_by(self, number: int, seconds: float = TOLD_S) -> list[Worker]:
        """Wait until so many of all members have partitions, the same share each and no partition
        twice, and nothing moves; they consume and commit.
        """
        members = self.stage.members

        def is_shared() -> bool:
            owned = [each.owned for each in members if each.owned]
            sizes = [len(each) for each in owned]
            whole = set[Partition]().union(*owned) == self.group.partitions
            is_even = len(owned) == number and max(sizes) - min(sizes) <= 1
            return whole and is_even and sum(sizes) == len(self.group.partitions)

        wait_until(is_shared, members, seconds)
        self._await_rest()
        wait_until(is_shared, members)
        self.consume()
        return [each for each in members if each.owned]

    def consume(self) -> None:
        """Wait until everybody consumes what is owned, and commits it."""
        owners = [each for each in self.stage.members if each.owned]
        owned = {place for each in owners for place in each.owned}
        sent = [each for each in self.group.send(1) if each[:2] in owned]
        self.group.await_records(sent, *owners)
        self.group.commit(*owners)

    def nobody(self) -> None:
        """Raises UnmetError if one of the others was disturbed."""
        for member, before in self._others.items():
            now = (member.assignments, member.revocations)
            if now != before:
                raise UnmetError(f"another member's listener was called: {before} to {now}")
        generation = self.state()["generation"]
        if generation != self._generation:
            raise UnmetError(f"generation {generation}, not {self._generation}")

    def leader(self, members: Mapping[str, Worker]) -> str:
        """The name of the member that leads."""
        leader = str(self.state()["leader"])
        client_id, _ = self.assignments()[leader]
        assert client_id in members, leader
        return client_id

    def committed(self) -> dict[Partition, int]:
        """The group's offsets."""
        found = self.stage.admin.ask("group_offsets", group=self.group.name)
        return {(topic, number): offset for topic, number, offset in found}

    def commits(self) -> dict[str, int]:
        """How often requests to commit were answered, by error."""
        address = f"http://{self.stage.server.http}/metrics"
        with urllib.request.urlopen(address, timeout=20) as answer:
            found = _COMMITS.findall(answer.read().decode())
        return {error: int(float(number)) for error, number in found}

    def owned_or_reserved(self, lost: str, *living: Worker) -> None:
        """Wait until each partition has one owner among the living and the seat of the lost member,
        and each has the same share. Raises UnmetError.
        """
        until = time.monotonic() + TOLD_S
        while True:
            shares = [self.held_by(lost), *(set(each.assigned or ()) for each in living)]
            whole = set[Partition]().union(*shares) == self.group.partitions
            sizes = [len(each) for each in shares]
            if whole and sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1:
                return
            if time.monotonic() > until:
                raise UnmetError(f"seat and living members have {sizes} of {PARTITIONS} partitions")
            time.sleep(0.1)
