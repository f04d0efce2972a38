"""Random records of an offsets log as a fold is fed with them: groups that change, end, and are
read in part, commits between them, and numbers that no coordinator writes.
"""

import random
from typing import Final

from groupkeeper.history.coverage import Span
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_value,
)
from tests.support.consumer import share_of, subscription
from tests.support.told_events import NOON

NAMES: Final = ("ann", "bea", "cid", "EVE", "FAY")
"""Those in capitals are static members."""
PARTITIONS: Final = 4
PAUSES: Final = (0, 300, 2_000, 9_000, 40_000)
_ODD_MS: Final = (-1, 10**15)


class _Group:
    """A group that goes on at random."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.chance = name, chance
        self.generation = 0
        self.members: dict[str, int] = {}
        """Name -> how often it was restarted."""
        self.owners: dict[int, str] = {}
        self.protocol = chance.choice(("range", "cooperative-sticky", "own"))

    def value(self, at_ms: int) -> bytes | None:
        """The next record's value."""
        chance = self.chance
        kind = chance.randrange(20)
        if kind == 0:
            self.members, self.generation = {}, 0
            return None
        if kind == 1:
            return b"\0\x63?"
        if kind > 3:
            self.generation += chance.choice((1, 1, 1, 1, 2, 3, 2_000))
            for name in chance.sample(NAMES, chance.randrange(3)):
                if self.members.pop(name, None) is None or chance.random() < 0.4:
                    self.members[name] = chance.randrange(9)
        elif kind > 1 and "EVE" in self.members:
            self.members["EVE"] += 1
        members = [*self.members]
        self.owners = {
            number: chance.choice(members)
            for number in range(PARTITIONS)
            if members and chance.random() < 0.9
        }
        joined = chance.choice((-1, at_ms, at_ms - 700))
        return encode_value(
            GroupMetadataValue(
                protocol_type="consumer",
                generation=self.generation,
                protocol=self.protocol if members else None,
                leader=self._id(members[0]) if members else None,
                current_state_timestamp=joined,
                members=[self._member(name) for name in members],
            ),
            3,
        )

    def _id(self, name: str) -> str:
        return f"{name}-{self.members[name]}"

    def _member(self, name: str) -> MemberMetadata:
        chance = self.chance
        topics = chance.choice((["orders"], ["orders"], ["orders", "payments"]))
        own = [number for number, owner in self.owners.items() if owner == name]
        assignment = share_of("orders", own, 0)
        return MemberMetadata(
            member_id=self._id(name),
            group_instance_id=name if name.isupper() else None,
            client_id=name[0],
            client_host=f"/10.0.0.{chance.choice((1, 1, 1, 2))}",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=subscription(*topics),
            assignment=b"?" if chance.random() < 0.05 else assignment,
        )


def wander(seed: int, steps: int, groups: tuple[str, ...], start_ms: int = NOON) -> list[Fed]:
    """Make what a fold is fed, by log offset; a record batch has a record of each group at most."""
    chance = random.Random(seed)
    all_groups = [_Group(name, chance) for name in groups]
    fed: list[Fed] = []
    at_ms, offset, epoch = start_ms, 0, 1
    for batch in range(steps):
        at_ms += chance.choice(PAUSES)
        offset += chance.choice((0, 0, 0, 5))
        epoch += chance.random() < 0.05
        first, written_ms = offset, at_ms if chance.random() < 0.95 else chance.choice(_ODD_MS)
        if chance.random() < 0.5:
            group = chance.choice(all_groups)
            times = at_ms, at_ms + 4_000, chance.randrange(1, 5), chance.choice((500, 4_000))
            place = group.name, "orders", chance.randrange(PARTITIONS)
            made: list[Fed] = [CommitRun(offset, offset + 2, *place, *times)]
            offset += 3
        else:
            made = []
            for group in chance.sample(all_groups, chance.randrange(1, len(all_groups) + 1)):
                value = group.value(at_ms)
                about = written_ms, epoch, batch, 2, group.name, None, value
                made.append(GroupRecord(offset, *about))
                offset += 1
        span = first, offset - 1, first, written_ms, epoch, written_ms, written_ms, offset - first
        fed += [*made, Span(*span)]
    return fed
