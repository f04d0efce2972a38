"""Who holds which partitions of a group, and what was committed for them since.

Ownership follows from the assignments in group records: it begins when a record is written, and
ends at the latest when the next generation's join phase ended. Of a member that is gone, it ended
when the member can last have been there (`ends`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groupkeeper.analytics.history.feed import CommitRun
from groupkeeper.analytics.history.generations import instant

REGULAR: Final = 3
"""From so many commits on, the longest time between two of them says how regular they are."""

Place = tuple[str, int]
"""Topic and partition."""


class Evidence(NamedTuple):
    """Commits for the partitions of a member: when the last one was, None without any, and how
    long they were apart at most, None if that cannot be said.
    """

    last_ms: int | None = None
    longest_ms: int | None = None


@dataclass(slots=True)
class Holding:
    """A partition, and who owns it: None for nobody."""

    member: str | None
    from_ms: int
    """Of the record: see `instant`."""
    generation: int
    offset: int
    commits: int = 0
    last_ms: int | None = None
    longest_ms: int = 0
    behind: int = -1
    """The group's record before the last commit: a pause around a rebalance is no gap."""

    def add(self, run: CommitRun, behind: int, is_whole: bool) -> None:
        """Commits of the owner, behind this record of the group. How regular they are counts only
        where no commit is missing.
        """
        if is_whole:
            gap = 0
            if self.last_ms is not None and self.behind == behind:
                gap = run.first_ms - self.last_ms
            self.longest_ms = max(self.longest_ms, run.longest_ms, gap)
            self.commits += run.commits
            self.behind = behind
        self.last_ms = max(self.last_ms or 0, run.last_ms)


class Interval(NamedTuple):
    """A holding, and when it ended; None: it goes on."""

    place: Place
    holding: Holding
    until_ms: int | None


class Moved(NamedTuple):
    """What a new assignment changed: intervals that ended; how many partitions have another owner
    than before; how many milliseconds, over all partitions, nobody owned one.
    """

    ended: list[Interval]
    moved: int
    unowned_ms: int


@dataclass(slots=True)
class Holdings:
    """The partitions of one group."""

    held: dict[Place, Holding] = field(default_factory=dict)

    def add(self, run: CommitRun, behind: int, is_whole: bool) -> None:
        """Commits since the group's last record, whose offset is `behind`."""
        if instant(run.first_ms) is None or instant(run.last_ms) is None:
            return
        holding = self.held.get((run.topic, run.partition))
        if holding is not None and holding.member is not None:
            holding.add(run, behind, is_whole)

    def withheld(self, offset: int) -> bool:
        """Whether the record at this offset took partitions from members and gave them to none."""
        return any(each.member is None and each.offset == offset for each in self.held.values())

    def evidence(self) -> dict[str, Evidence]:
        """Of each member that owns something."""
        found: dict[str, Evidence] = {}
        for each in self.held.values():
            if each.member is None:
                continue
            last, longest = found.get(each.member, _NOTHING)
            if each.last_ms is not None and (last is None or each.last_ms > last):
                last = each.last_ms
            if each.commits >= REGULAR and (longest is None or each.longest_ms < longest):
                longest = each.longest_ms
            found[each.member] = Evidence(last, longest)
        return found

    def assign(
        self,
        owners: Mapping[Place, str],
        at: Holding,
        ends: Mapping[str, int],
        end_ms: int,
        renamed: Mapping[str, str],
    ) -> Moved:
        """Take over the assignment of a record. `at`: what new holdings begin with; `ends`: until
        when members that are gone held theirs, for all others `end_ms`; `renamed`: old member id of
        a static member that came back -> its new one.
        """
        ended: list[Interval] = []
        moved = unowned_ms = 0
        for place in {**self.held, **owners}:
            owner, holding = owners.get(place), self.held.get(place)
            if holding is None:
                self.held[place] = _begin(at, owner, at.from_ms)
                continue
            if holding.member == owner:
                continue
            is_same = owner is not None and renamed.get(holding.member or "") == owner
            until_ms = at.from_ms
            if holding.member is not None and not is_same:
                until_ms = min(max(ends.get(holding.member, end_ms), holding.from_ms), at.from_ms)
                moved += owner is not None
            ended.append(Interval(place, holding, until_ms))
            if holding.member is not None and until_ms < at.from_ms:
                unowned_ms += at.from_ms - until_ms
                gap = _begin(at, None, until_ms)
                if owner is None:
                    self.held[place] = gap
                    continue
                ended.append(Interval(place, gap, at.from_ms))
            self.held[place] = _begin(at, owner, at.from_ms)
        return Moved(ended, moved, unowned_ms)


_NOTHING: Final = Evidence()


def _begin(at: Holding, member: str | None, from_ms: int) -> Holding:
    return Holding(member, from_ms, at.generation, at.offset)
