"""Owners of the partitions of one group: the table `ownership`.

A partition has an owner, has none, or that is unknown: then it has no row. What a rebalance does
depends on its protocol:

- eager: all partitions are without an owner until the assignments are stored: from when their
  owner rejoined, because it gives them up before, or was removed. Without either, an owner that the
  join phase ended without has them to the end, and of others they are without one from the start of
  the rebalance; of those that were superseded, of the first one;
- cooperative: only those are that move. A partition that is taken from a member is without an owner
  from the plan that takes it until the one that gives it to another;
- neither is known, or records tell the end of the join phase, and not its beginning: a partition
  that moves is without an owner from the start that is told, others are owned on.

Partitions of an emptied group have no owner until the next assignments. After a failure of the
coordinator members own what they owned. A plan that nobody stored whole ends what was known.
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
    """Since when a partition has its owner, or none."""

    since_ms: int
    offset: int
    """Of the event that says so."""
    generation: int
    who: Part | None
    """None: nobody owns it."""
    is_taken: bool = False
    """A cooperative plan took it from its owner, for another member."""


GONE_MOST: Final = 20_000
"""Members of which it is remembered that they were removed since the last plan."""

_STEPS: Final = {"rebalance_started": 0, "rebalance_joined": 1, "rebalance_completed": 0}
"""Type of event -> by how much it raises the generation."""


class Ownership:
    """The owners of one group's partitions. `rows` gets what is over."""

    _held: dict[OwnedPartition, Held]
    _is_cooperative: bool | None
    """As of the last plan."""
    _generation: int | None
    """Of the last plan, or of the Empty group; None if the owners are not known."""
    _last: int
    """Of the last step of a rebalance."""
    _known_ms: int
    """The last time at which the group had that generation."""
    _began_ms: int | None
    """When the rebalance under way began, or the first of those that were superseded."""
    _gone: dict[str, tuple[int, float]]
    """When members were removed since then, and how sure that is."""
    _rejoined: dict[str, int]
    """When members joined first since then, of join phases that have ended."""
    _replaced: dict[str, Part]
    """Member -> whom it replaced since the group was stored."""

    def __init__(self, about: RowSource, rows: list[Row]) -> None:
        self._rows = rows
        self._about = about.columns
        self._is_inferred, self._confidence = about.source != EVENTS, about.confidence
        self._is_cooperative = self._generation = self._began_ms = None
        self._held, self._gone, self._rejoined, self._replaced = {}, {}, {}, {}
        self._last = self._known_ms = 0

    # -- what happened ---------------------------------------------------------------------------

    def seen(self, told: Told) -> None:
        """An event of the group came, before what it changes: was a whole rebalance left out?"""
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
        """A join phase that began then ended with these members: `member` and `after_ms`."""
        for each in people:
            if each.get("member"):
                at_ms = began_ms + max(number(each, "after_ms") or 0, 0)
                self._rejoined.setdefault(each["member"], at_ms)

    def removed(self, member: str, at_ms: int, confidence: float) -> None:
        """A member is gone."""
        if len(self._gone) < GONE_MOST:
            self._gone[member] = at_ms, confidence

    def replaced(self, old: str, who: Part, at_ms: int, generation: int, offset: int) -> None:
        """A static member has another id, and owns what it owned."""
        if self._began_ms is not None and self._is_cooperative is False:
            self.removed(old, at_ms, 1.0)  # the new one has to wait for the assignments
            return
        for place, held in self._held.items():
            if held.who is not None and held.who.get("member") == old:
                self._replaced.setdefault(who["member"], self._replaced.get(old, held.who))
                self._end(place, held, at_ms, offset)
                self._held[place] = Held(max(at_ms, held.since_ms), offset, generation, who)

    def completed(self, current: Round, people: Mapping[str, Part], offset: int) -> int | None:
        """A plan was stored. `people`: the members. Returns for how long its partitions had no
        owner, summed up, in ms; None if that is not known.
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
        """A member has these partitions, and no others, whatever others have."""
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
        """Another coordinator knows the members that were stored."""
        for place, held in self._held.items():
            if old := self._replaced.get((held.who or {}).get("member", "")):
                self._end(place, held, at_ms, offset)
                self._held[place] = Held(at_ms, offset, held.generation, old)
        self.stored()
        self.lost()

    def lost(self) -> None:
        """The coordinator failed during a rebalance: the last plan counts."""
        self._last = self._generation or 0
        self._began_ms = None
        self._gone, self._rejoined = {}, {}

    def forget(self, offset: int, at_ms: int | None = None) -> None:
        """The group is gone at that time; or, without it, something was left out, and what was
        known is true until it was last confirmed.
        """
        until = self._known_ms if at_ms is None else at_ms
        for place, held in self._held.items():
            self._end(place, held, until, offset)
        self._held.clear()
        self._generation = None
        self.lost()

    # -- rows ------------------------------------------------------------------------------------

    def open(self) -> Iterable[Row]:
        """Rows that are not over. During an eager rebalance nobody owns anything."""
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
        if began is None:  # that was not read
            began = end - max(current.duration_ms or 0, 0)
        return min(began, end)

    def _stays(self, old: Part, new: Part | None) -> bool:
        same = new is not None and new.get("member") == old.get("member")
        return same and self._is_cooperative is not False

    def _freed(self, held: Held, new: Part | None, began: int, end: int) -> int:
        """When a partition lost its owner, which changes with this plan."""
        if self._is_cooperative is False:
            freed = self._given_up(held, began)
        else:  # until it was taken, or its owner was removed
            gone_ms, _ = self._gone_of(held)
            otherwise_ms = end if new is None else began
            freed = otherwise_ms if gone_ms is None else gone_ms
        return min(max(freed, held.since_ms), end)

    def _given_up(self, held: Held, otherwise_ms: int) -> int:
        """When the owner of a partition rejoined with an eager assignor, or was removed."""
        rejoined_ms = self._rejoined.get((held.who or {}).get("member", ""))
        gone_ms, _ = self._gone_of(held)
        known = [each for each in (rejoined_ms, gone_ms) if each is not None]
        return min(known, default=otherwise_ms)

    def _gone_of(self, held: Held) -> tuple[int | None, float]:
        """When its owner was removed since the last plan, None if not, and how sure that is."""
        member = (held.who or {}).get("member", "")
        return self._gone.get(member, (None, self._confidence))

    def _settled(self, generation: int, at_ms: int) -> None:
        self._generation, self._known_ms = generation, at_ms
        self.stored()
        self.lost()


def _is_of(held: Held, who: Part) -> bool:
    return held.who is not None and held.who.get("member") == who["member"]


def _plan(current: Round, people: Mapping[str, Part]) -> dict[OwnedPartition, Part]:
    """The owner of each partition of a plan, as far as it was stored."""
    plan: dict[OwnedPartition, Part] = {}
    for each in current.assignment or ():
        member = each["member"]
        who = people.get(member) or {"member": member, "instance": each.get("instance")}
        for topic, indexes in (each.get("partitions") or {}).items():
            for index in indexes:
                if isinstance(index, int):
                    plan[topic, index] = who
    return plan
