"""What group members say: join, sync, heartbeat, follow a rebalance, come back under the same
instance id.

Scripts for crowd.Crowd, and groups of them. A group is settled when all its members hold an
assignment of one generation.
"""

import itertools
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks import wire
from benchmarks.crowd import REDIAL, Crowd, Link, Script, dial

_HEARTBEAT_S = 0.05  # while a group is settling
_HEAD_START_S = 0.002  # of the leader that starts a rebalance
_RETRY_S = 0.01
_RETRIES = 2000
_names = itertools.count()
_RUN = f"{time.time_ns():x}"  # so that runs against one server do not meet


@dataclass(slots=True, eq=False)
class Member:
    """One member and its connection."""

    group: "Group"
    link: Link
    instance: bytes | None
    id: bytes = b""
    generation: int = -1
    leads: bool = False

    def join(self, version: int = 7) -> Script:
        """JoinGroup until the member is in; sets id, generation and leadership, and `group.plan` if
        it leads.
        """
        for _ in range(_RETRIES):
            request = wire.join_group(self.group.name, self.id, self.instance, version)
            answer = wire.joined((yield request), version)
            if answer.error == 0:
                self.id, self.generation, self.leads = (
                    answer.member,
                    answer.generation,
                    answer.leads,
                )
                if answer.leads:
                    self.group.led(answer)
                return
            if answer.error == wire.MEMBER_ID_REQUIRED:
                self.id = answer.member
            elif answer.error in wire.NOT_YET or answer.error == wire.REBALANCE_IN_PROGRESS:
                yield _RETRY_S
            else:
                raise wire.WrongAnswerError(f"JoinGroup: error {answer.error}")
        raise wire.WrongAnswerError("JoinGroup: no end of retries")

    def settle(self, rejoin: bool = True, wait: float = 0.0) -> Script:
        """Joins and syncs, and again whenever a heartbeat says so, until the whole group is
        settled.
        """
        if wait:
            yield wait
        while True:
            if rejoin:
                yield from self.join()
                plan = self.group.plan if self.leads else None
                error, assigned = wire.synced((yield wire.sync_group(self._who(), plan)))
                if error == wire.REBALANCE_IN_PROGRESS:
                    continue
                if error or not assigned:
                    raise wire.WrongAnswerError(
                        f"SyncGroup: error {error}, {len(assigned)} bytes assigned"
                    )
                self.group.holds(self.generation)
            while not self.group.settled_at:
                error = wire.beaten((yield self.heartbeat()))
                if error == wire.REBALANCE_IN_PROGRESS:
                    break
                if error:
                    raise wire.WrongAnswerError(f"Heartbeat: error {error}")
                if not self.group.settled_at:
                    yield _HEARTBEAT_S
            else:
                return
            rejoin = True

    def restart(self) -> Script:
        """A static member comes back on a new connection without a member id: the generation must
        stay.
        """
        before, self.id = self.generation, b""
        yield REDIAL
        yield from self.join(version=9)
        error, assigned = wire.synced((yield wire.sync_group(self._who())))
        error = error or wire.beaten((yield self.heartbeat()))
        if error or not assigned:
            raise wire.WrongAnswerError(
                f"after a static restart: error {error}, {len(assigned)} bytes assigned"
            )
        if self.generation != before:
            raise wire.WrongAnswerError(
                f"a static restart moved the generation {before} -> {self.generation}"
            )

    def heartbeat(self) -> wire.Request:
        return wire.heartbeat(self.group.name, self.generation, self.id, self.instance)

    def commit(self, partitions: int) -> wire.Request:
        return wire.offset_commit(self.group.name, self.generation, self.id, partitions)

    def _who(self) -> tuple[bytes, int, bytes, bytes | None]:
        return self.group.name, self.generation, self.id, self.instance


@dataclass(slots=True, eq=False)
class Group:
    """Members under one group id. `settled_at`: perf_counter seconds, 0.0 until settled."""

    name: bytes
    members: list[Member] = field(default_factory=list)
    plan: list[tuple[bytes, bytes]] = field(default_factory=list)
    generations: int = 0  # seen by leaders since the last `unsettle`
    settled_at: float = 0.0
    _holding: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, links: list[Link], static: bool = False) -> "Group":
        group = cls(f"bench-{_RUN}-{next(_names)}".encode())
        for number, link in enumerate(links):
            instance = b"%s-instance-%d" % (group.name, number) if static else None
            group.members.append(Member(group, link, instance))
        return group

    def led(self, answer: wire.Joined) -> None:
        """A leader has been told the members: one partition each."""
        self.generations += 1
        if not answer.skip:
            self.plan = [(id_, wire.assignment(n)) for n, id_ in enumerate(answer.members)]

    def holds(self, generation: int) -> None:
        """One member has its assignment of a generation."""
        self._holding[generation] += 1
        if self._holding[generation] == len(self.members):
            self.settled_at = time.perf_counter()

    def unsettle(self) -> None:
        self._holding.clear()
        self.generations, self.settled_at = 0, 0.0

    def rebalance(self) -> list[tuple[Link, Script]]:
        """The leader rejoins, all others learn of it by a heartbeat and follow."""
        self.unsettle()
        return [
            (m.link, m.settle(m.leads, 0.0 if m.leads else _HEAD_START_S)) for m in self.members
        ]

    def leave(self, link: Link) -> None:
        """All members leave with one request."""
        members = [(member.id, member.instance) for member in self.members]
        if error := wire.left(link.call(wire.leave_group(self.name, members))):
            raise wire.WrongAnswerError(f"LeaveGroup: error {error}")

    def close(self) -> None:
        for member in self.members:
            member.link.close()


def form(groups: list[Group]) -> None:
    """All members of all groups join at once; returns when every group is settled."""
    Crowd().run([(m.link, m.settle()) for group in groups for m in group.members])


def stable_groups(port: int, count: int, size: int, static: bool = False) -> list[Group]:
    """So many settled members in groups of a size, a few groups forming at a time."""
    starts = range(0, count, size)
    groups = [Group.of(dial(port, min(size, count - start)), static) for start in starts]
    for start in range(0, len(groups), 16):
        form(groups[start : start + 16])
    return groups
