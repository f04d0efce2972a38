"""Follows which member owns each partition of one group: the table `ownership`.

A partition has an owner, has none, or has no row if that is unknown. A rebalance changes owners
depending on its protocol:

- eager: members give up all partitions. Each is without an owner from the time its owner rejoined
  or was removed until the assignments are stored. An owner that missed the join phase keeps its
  partitions until the end. If the time is unknown for another owner, the start of the rebalance
  counts, or of the first one that it superseded;
- cooperative: only partitions that move lose their owner, from the assignments that revoke them
  until those that give them to another member;
- unknown, or inferred from records, which do not show the start of the join phase: a partition that
  moves is without an owner from the known start on; others keep theirs.

Partitions of an emptied group have no owner until the next assignments. After a failure of the
coordinator members own what they owned. Assignments that were not stored whole end all rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.rounds import Round
from groupkeeper.history.rows import (
    EVENTS,
    Row,
    RowSource,
    Told,
    instant,
    is_cooperative,
    member_columns,
)

OwnedPartition = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class Held:
    """The owner of a partition, or the lack of one, since a time."""

    since_ms: int
    offset: int
    """Offset of the event that states it."""
    generation: int
    who: Part | None
    """The owner; None if the partition has none."""
    is_taken: bool = False
    """A cooperative assignment revoked it from its owner, for another member."""


GONE_MOST: Final = 20_000
"""Maximum number of removed members remembered since the last assignments."""

_STEPS: Final = {"rebalance_started": 0, "rebalance_joined": 1, "rebalance_completed": 0}
"""Type of event -> how much it raises the generation."""


class Ownership:
    """The owners of one group's partitions. Finished rows go to `rows`."""

    _held: dict[OwnedPartition, Held]
    _is_cooperative: bool | None
    """Protocol of the last assignments; None if unknown."""
    _generation: int | None
    """Generation of the last assignments, or of the Empty group; None if owners are unknown."""
    _last: int
    """Generation at the last step of a rebalance."""
    _known_ms: int
    """Latest time at which the group is known to have had `_generation`."""
    _began_ms: int | None
    """Start of the rebalance under way, or of the first one that it superseded."""
    _gone: dict[str, tuple[int, float]]
    """Member -> time of its removal since the last assignments, and the confidence of that."""
    _rejoined: dict[str, int]
    """Member -> its first join since the last assignments, of join phases that have ended."""
    _replaced: dict[str, Part]
    """Member -> the member it replaced since the group was stored."""

    def __init__(self, about: RowSource, rows: list[Row]) -> None:
        self._rows = rows
        self._about = about.columns
        self._is_inferred, self._confidence = about.source != EVENTS, about.confidence
        self._is_cooperative = self._generation = self._began_ms = None
        self._held, self._gone, self._rejoined, self._replaced = {}, {}, {}, {}
        self._last = self._known_ms = 0

    # -- events ----------------------------------------------------------------------------------

    def seen(self, told: Told) -> None:
        """Check an event, before its changes, for a jump of the generation: a whole rebalance is
        missing then, and the owners are forgotten.
        """
        offset, event = told.offset, told.event
        step = _STEPS.get(event.type)
        if self._generation is not None:
            if event.generation == self._generation:
                self._known_ms = max(self._known_ms, event.at_ms)
            if step is not None and event.generation != self._last + step:
                self.forget(offset)
        if step is not None:
            self._last = event.generation

    def started(self, at_ms: int) -> None:
        """A join phase began."""
        if self._began_ms is None:
            self._began_ms = at_ms

    def joined(self, people: Iterable[Part], began_ms: int) -> None:
        """A join phase ended with these members, each with `member` and `after_ms`."""
        for each in people:
            if each.get("member"):
                at_ms = began_ms + max(number(each, "after_ms") or 0, 0)
                self._rejoined.setdefault(each["member"], at_ms)

    def removed(self, member: str, at_ms: int, confidence: float) -> None:
        """A member was removed."""
        if len(self._gone) < GONE_MOST:
            self._gone[member] = at_ms, confidence

    def replaced(self, old: str, who: Part, at_ms: int, generation: int, offset: int) -> None:
        """A static member got a new id, and keeps its partitions."""
        if self._began_ms is not None and self._is_cooperative is False:
            self.removed(old, at_ms, 1.0)  # the new id has to wait for the assignments
            return
        for place, held in self._held.items():
            if held.who is not None and held.who.get("member") == old:
                self._replaced.setdefault(who["member"], self._replaced.get(old, held.who))
                self._end(place, held, at_ms, offset)
                self._held[place] = Held(max(at_ms, held.since_ms), offset, generation, who)

    def completed(self, current: Round, people: Mapping[str, Part], offset: int) -> int | None:
        """Assignments were stored; `people` holds the clients of members. Returns the summed time
        in ms in which partitions had no owner; None if unknown.
        """
        plan = _plan(current, people)
        end = current.ended_at_ms or 0
        began = self._began(current, end)
        self._is_cooperative = None if self._is_inferred else is_cooperative(current)
        is_known = self._is_inferred or self._is_cooperative is not None
        is_known = is_known and current.partitions is not None and bool(self._held)
        total = 0
        missing = {each.get("member") for each in current.missing}
        for place, held in [*self._held.items()]:
            new = plan.pop(place, None)
            if held.who is None:
                total += end - max(held.since_ms, 0 if held.is_taken else began)
                self._end(place, held, end, offset)
            elif self._stays(held.who, new):
                continue
            else:
                is_missing = held.who.get("member") in missing
                freed = self._freed(held, new, end if is_missing else began, end)
                self._end(place, held, freed, offset)
                nobody = Held(freed, offset, current.generation, None)
                if new is None and self._is_cooperative is not False:
                    if current.partitions is not None:
                        nobody.is_taken = True
                        self._held[place] = nobody
                        continue
                else:
                    total += max(0, end - freed)
                    self._end(place, nobody, end, offset)
            del self._held[place]
            if new is not None:
                self._held[place] = Held(end, offset, current.generation, new)
        for place, who in plan.items():
            self._held[place] = Held(end, offset, current.generation, who)
        self._settled(current.generation, end)
        return max(total, 0) if is_known else None

    def assigned(
        self, offset: int, at_ms: int, generation: int, who: Part, places: Iterable[OwnedPartition]
    ) -> None:
        """Set the partitions of a member to exactly `places`; other members keep theirs."""
        own = {place for place, each in self._held.items() if _is_of(each, who)}
        wanted = set(places)
        for place in sorted(own ^ wanted):
            if (held := self._held.get(place)) is not None:
                self._end(place, held, at_ms, offset)
            new = who if place in wanted else None
            self._held[place] = Held(at_ms, offset, generation, new)

    def emptied(self, at_ms: int, generation: int, offset: int) -> None:
        """The last member is gone."""
        began = self._began_ms
        for place, held in self._held.items():
            if held.who is None:
                continue
            gone_ms, _ = self._gone_of(held)
            freed = at_ms if gone_ms is None else gone_ms
            if self._is_cooperative is False and began is not None:
                freed = min(began, freed)
            freed = max(freed, held.since_ms)
            self._end(place, held, freed, offset)
            self._held[place] = Held(freed, offset, generation, None)
        self._settled(generation, at_ms)

    def stored(self) -> None:
        """The group's record was stored."""
        self._replaced = {}

    def taken_over(self, at_ms: int, offset: int) -> None:
        """Another coordinator took over, with only the stored members."""
        for place, held in self._held.items():
            if old := self._replaced.get((held.who or {}).get("member", "")):
                self._end(place, held, at_ms, offset)
                self._held[place] = Held(at_ms, offset, held.generation, old)
        self.stored()
        self.lost()

    def lost(self) -> None:
        """The coordinator failed during a rebalance: the last assignments apply."""
        self._last = self._generation or 0
        self._began_ms = None
        self._gone, self._rejoined = {}, {}

    def forget(self, offset: int, at_ms: int | None = None) -> None:
        """End all rows: at `at_ms` if the group was deleted; without it, events are missing, and
        rows end when they were last confirmed.
        """
        until = self._known_ms if at_ms is None else at_ms
        for place, held in self._held.items():
            self._end(place, held, until, offset)
        self._held.clear()
        self._generation = None
        self.lost()

    # -- rows ------------------------------------------------------------------------------------

    def open(self) -> Iterable[Row]:
        """The unfinished rows. During an eager rebalance no partition has an owner."""
        began = self._began_ms if self._is_cooperative is False else None
        for place, held in self._held.items():
            if held.who is None or began is None or began <= held.since_ms:
                yield self._row(place, held, None, held.offset)
            else:
                freed = max(self._given_up(held, began), held.since_ms)
                yield self._row(place, held, freed, held.offset)
                nobody = Held(freed, held.offset, held.generation, None)
                yield self._row(place, nobody, None, held.offset)

    def _end(self, place: OwnedPartition, held: Held, at_ms: int, offset: int) -> None:
        if at_ms > held.since_ms:
            row = self._row(place, held, at_ms, offset)
            _, row["confidence"] = self._gone_of(held)
            self._rows.append(row)

    def _row(self, place: OwnedPartition, held: Held, until: int | None, offset: int) -> Row:
        since, until = instant(held.since_ms), instant(until)
        return {
            **self._about,
            "topic": place[0],
            "topic_partition": place[1],
            "from": since,
            "until": until,
            "duration_ms": None if until is None or since is None else until - since,
            **member_columns(held.who),
            "is_owned": held.who is not None,
            "generation": held.generation,
            "offset": offset,
        }

    # -- parts -----------------------------------------------------------------------------------

    def _began(self, current: Round, end: int) -> int:
        began = self._began_ms
        if began is None:  # the start was not read
            began = end - max(current.duration_ms or 0, 0)
        return min(began, end)

    def _stays(self, old: Part, new: Part | None) -> bool:
        same = new is not None and new.get("member") == old.get("member")
        return same and self._is_cooperative is not False

    def _freed(self, held: Held, new: Part | None, began: int, end: int) -> int:
        """Return when a partition lost the owner that the new assignments replace."""
        if self._is_cooperative is False:
            freed = self._given_up(held, began)
        else:  # revoked, or its owner was removed
            gone_ms, _ = self._gone_of(held)
            otherwise_ms = end if new is None else began
            freed = otherwise_ms if gone_ms is None else gone_ms
        return min(max(freed, held.since_ms), end)

    def _given_up(self, held: Held, otherwise_ms: int) -> int:
        """Return when the owner rejoined with an eager assignor, or was removed."""
        rejoined_ms = self._rejoined.get((held.who or {}).get("member", ""))
        gone_ms, _ = self._gone_of(held)
        known = [each for each in (rejoined_ms, gone_ms) if each is not None]
        return min(known, default=otherwise_ms)

    def _gone_of(self, held: Held) -> tuple[int | None, float]:
        """When the owner was removed since the last assignments, if so, and the confidence."""
        member = (held.who or {}).get("member", "")
        return self._gone.get(member, (None, self._confidence))

    def _settled(self, generation: int, at_ms: int) -> None:
        self._generation, self._known_ms = generation, at_ms
        self.stored()
        self.lost()


def _is_of(held: Held, who: Part) -> bool:
    return held.who is not None and held.who.get("member") == who["member"]


def _plan(current: Round, people: Mapping[str, Part]) -> dict[OwnedPartition, Part]:
    """Return the owner of each partition of the stored assignments."""
    plan: dict[OwnedPartition, Part] = {}
    for each in current.assignment or ():
        member = each["member"]
        who = people.get(member) or {"member": member, "instance": each.get("instance")}
        for topic, indexes in (each.get("partitions") or {}).items():
            for index in indexes:
                if isinstance(index, int):
                    plan[topic, index] = who
    return plan
