"""Follows which member of a consumer group (KIP-848) has which partition, by the records of
members, and the commits for it. Topics go by their ids: names may become known later.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.history.evidence import Commits, Evidence, evidence_of
from groupkeeper.history.newer_members import NewerMember
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import CommitRun
from groupkeeper.history.rows import instant

NO_EVIDENCE: Final = Evidence()


class Owners:
    """The owners of one group's partitions."""

    held: dict[OwnedPartition, Commits]
    """Owners, and their commits."""
    _first: dict[OwnedPartition, str]
    """Owners when the last round was over, of partitions that lost theirs since."""
    _free_ms: dict[OwnedPartition, int]
    """Partitions without an owner, and since when."""
    longest_ms: int
    """The longest time since the last round that a partition that had an owner had none."""

    def __init__(self) -> None:
        self.held, self._first, self._free_ms, self.longest_ms = {}, {}, {}, 0

    def commit(self, topic_id: str, run: CommitRun, is_whole: bool) -> None:
        """Add commits. `is_whole`: no commit before them is missing."""
        commits = self.held.get((topic_id, run.partition))
        if commits is not None and None not in (instant(run.first_ms), instant(run.last_ms)):
            commits.add(run, 0, is_whole)  # members go on to read in a rebalance: all pauses count

    def interrupted(self) -> None:
        """Note that commits may be missing after those added."""
        for each in self.held.values():
            each.behind = -1

    def evidence(self, member: NewerMember) -> Evidence:
        """Return the commits for the partitions of a member."""
        held = {each: self.held[each] for each in member.owned if each in self.held}
        return evidence_of(held, {}).get(member.member, NO_EVIDENCE)

    def set(self, member: NewerMember, places: list[OwnedPartition], at_ms: int) -> None:
        """Set the partitions of a member."""
        before, now = {*member.owned}, {*places}
        for place in before - now:
            held = self.held.get(place)
            if held is not None and held.member == member.member:
                del self.held[place]
                self._free_ms[place] = at_ms
                self._first.setdefault(place, member.member)
        for place in now - before:
            if (held := self.held.get(place)) is not None:
                self._first.setdefault(place, held.member)
            free_ms = self._free_ms.pop(place, at_ms)
            self.longest_ms = max(self.longest_ms, at_ms - free_ms)
            self.held[place] = Commits(member.member)
        member.owned = places

    def renamed(self, old: NewerMember, new: NewerMember) -> None:
        """A static member came back under another id, with its partitions."""
        new.owned = old.owned
        for place in old.owned:
            held = self.held.get(place)
            if held is not None and held.member == old.member:
                held.member = new.member
            if self._first.get(place) == old.member:
                self._first[place] = new.member

    @property
    def moved(self) -> int:
        """Number of partitions that have another owner than when the last round was over."""
        owners: Mapping[OwnedPartition, Commits] = self.held
        return sum(
            held.member != was
            for place, was in self._first.items()
            if (held := owners.get(place)) is not None
        )

    def over(self) -> None:
        """A round is over."""
        self._first, self._free_ms, self.longest_ms = {}, {}, 0
