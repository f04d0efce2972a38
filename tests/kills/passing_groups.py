"""Groups that come, grow, commit, shrink and go, one after the other, on a thread.

Their members are models on blocking connections to the coordinator, wherever that is. After any
error all of them go away without a word, and the next group begins.
"""

import threading
import time
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.consumer import Member, dealt, subscription
from tests.support.requests import create_request
from tests.support.wire import Address, Client, connect

TOPIC: Final = "orders"
PARTITIONS: Final = 6
MEMBERS: Final = 3
STEPS: Final = (5, 40)
"""How many things happen to a group."""
PAUSE_SECONDS: Final = (0.002, 0.03)
SESSION_MS: Final = 6_000
ANSWER_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 0.3
TOLD_SECONDS: Final = 5.0
"""Within this time a member hears of a rebalance."""
DELETED: Final = 0.3
"""Share of the groups that are deleted in the end."""


def create_topic(addresses: list[Address]) -> None:
    """Create the topic that all groups read."""
    with connect(addresses[0], ANSWER_SECONDS) as client:
        answer = client.call(5, create_request(TOPIC, partitions=PARTITIONS))
    assert not answer.topics[0].error_code, answer


class PassingGroups(threading.Thread):
    """One thread, which works until `over`."""

    def __init__(
        self,
        number: int,
        seed: int,
        addresses: list[Address],
        over: threading.Event,
        prefix: str = "",
    ) -> None:
        """`prefix`: of what follows `passing-` in the names of groups."""
        super().__init__(name=f"groups {number}", daemon=True)
        self._addresses, self._over = addresses, over
        self._name = f"passing-{prefix}{number}"
        self._chance = Random(f"{seed} {number}")
        self.lives = self.commits = self.failures = 0

    def run(self) -> None:
        """Implements `Thread.run`."""
        while not self._over.is_set():
            try:
                with ExitStack() as stack:
                    group = _Group(f"{self._name}-{self.lives}", self._chance, stack)
                    group.address = self._coordinator(group.name)
                    self._live(group)
            except (OSError, AssertionError):
                self.failures += 1
                self._over.wait(AGAIN_SECONDS)
            self.lives += 1

    def _live(self, group: "_Group") -> None:
        for _ in range(self._chance.randint(*STEPS)):
            if self._over.is_set():
                break
            self.commits += group.step()
            time.sleep(self._chance.uniform(*PAUSE_SECONDS))
        while group.members:
            group.leave()
        if self._chance.random() < DELETED:
            group.delete()

    def _coordinator(self, group: str) -> Address:
        """The address of the coordinator. Raises OSError."""
        address = self._chance.choice(self._addresses)
        with connect(address, ANSWER_SECONDS) as client:
            found: Any = client.call(2, FindCoordinatorRequest(key=group))
        if found.error_code:
            raise OSError(ErrorCode(found.error_code).name)
        return found.host, found.port


class _Group:
    """One group."""

    def __init__(self, name: str, chance: Random, stack: ExitStack) -> None:
        self.name, self.members = name, list[Member]()
        self.address: Address = ("", 0)
        self._chance, self._stack, self._came = chance, stack, 0

    def step(self) -> int:
        """Do one thing. Returns how many offsets were committed."""
        way = self._chance.random()
        if not self.members or (way < 0.15 and len(self.members) < MEMBERS):
            self._join()
        elif way < 0.25 and len(self.members) > 1:
            self.leave()
        else:
            return self._commit(self._chance.choice(self.members))
        return 0

    def _client(self) -> Client:
        client_id = f"client-{self._came}"
        return self._stack.enter_context(connect(self.address, ANSWER_SECONDS, client_id))

    def _join(self) -> None:
        self._came += 1
        about = {"session_ms": SESSION_MS, "metadata": subscription(TOPIC)}
        new = Member(self._client(), self.name, **about)
        new.ask_join()
        for each in self.members:
            _hear(each)
            each.ask_join()
        self.members.append(new)
        self._share()

    def _share(self) -> None:
        """Let all members that have asked to join take part in the generation."""
        plans = {each.member_id: plan for each in self.members if (plan := each.joined())}
        assert len(plans) == 1, "one leader"
        [(leader, ids)] = plans.items()
        for each in sorted(self.members, key=lambda one: one.member_id != leader):
            each.synced(dealt(ids, TOPIC, PARTITIONS) if each.member_id == leader else None)

    def _commit(self, member: Member) -> int:
        number = self.members.index(member)
        places = range(number, PARTITIONS, len(self.members))
        codes = member.committed({(TOPIC, each): self._chance.randrange(1000) for each in places})
        assert codes == {ErrorCode.NONE}, codes
        return len(places)

    def leave(self) -> None:
        """Let a member leave."""
        gone = self._chance.choice(self.members)
        self.members.remove(gone)
        gone.leave()
        for each in self.members:
            each.ask_join()
        if self.members:
            self._share()

    def delete(self) -> None:
        """Delete the group, which is empty."""
        with connect(self.address, ANSWER_SECONDS) as client:
            client.call(1, DeleteGroupsRequest(groups_names=[self.name]))


def _hear(member: Member) -> None:
    """Wait until a member hears of the rebalance that another one has begun."""
    until = time.monotonic() + TOLD_SECONDS
    while member.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
        assert time.monotonic() < until, "no rebalance"
        time.sleep(PAUSE_SECONDS[0])
