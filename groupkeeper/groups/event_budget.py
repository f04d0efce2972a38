"""Limits for the bytes of stored events: per sender, per group, per partition, and in total.

A `ByteLimit` fills up with written bytes and drains at a steady rate; while it is full, events are
left out. A rebalance is reported completely or not at all: this is decided once, when it begins. So
readers of the events find gaps, which `events_dropped` reports, but no rebalance that never ended.

One `EventBudget` serves all partitions of a process. It is used only on the thread that writes
rounds.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

MIB: Final = 1024 * 1024


class Rate(NamedTuple):
    """The permitted rate of event bytes."""

    burst: int
    """Bytes permitted at once."""
    per_s: int
    """Sustained bytes per second."""


TOTAL: Final = Rate(64 * MIB, 512 * 1024)
"""For all partitions, if `group.events.retention.total.bytes` is eight times the burst, or not set;
scaled down for a smaller value. So the logs grow by at most 214 MiB in the five minutes between two
checks of retention."""
TOTAL_SHARE: Final = 8
PARTITION: Final = Rate(32 * MIB, 128 * 1024)
SENDER: Final = Rate(16 * MIB, 64 * 1024)
"""Per host, over all groups and client ids: there may be thousands of clients behind an address.
Commits of 5,000 clients take 38 KiB a second."""
GROUP: Final = Rate(8 * MIB, 4 * 1024)
"""Ten rebalances of 1,000 members at once; sustained, one of three members per second, or one of a
hundred per ten seconds. Summed-up events, of commits and stale requests, do not count here."""
REFUSED: Final = Rate(256 * 1024, 2 * 1024)
"""For stale requests of one host, which may name groups that do not exist."""
KEYS_MOST: Final = 10_000
"""Maximum number of separate groups, and of hosts; beyond, the least recently written are
forgotten. The enclosing limits still hold. Also the maximum number of ended rebalances."""
RUNNING_MOST: Final = 200_000
"""Maximum number of rebalances in progress, over all partitions; beyond, the oldest is forgotten
and its events are admitted one by one. The members of as many groups would take 400 MB, but may
take only 256 MiB (`MAX_MEMBER_BYTES`), so the oldest will never end: its partition has failed."""

STALE: Final = "requests_refused"
SUMS: Final = frozenset({STALE, "commits"})
BEGIN: Final = "rebalance_started"
BODY: Final = frozenset(
    {"rebalance_joined", "rebalance_completed", "rebalance_abandoned", "group_emptied"}
)
"""Events that every reported rebalance has once, and that are never left out."""
ENDS: Final = BODY - {"rebalance_joined"}


class ByteLimit:
    """A limit per key. The burst may be exceeded by one charge."""

    __slots__ = ("burst_ms", "empty_at", "ms_per_byte")

    def __init__(self, rate: Rate) -> None:
        self.burst_ms = rate.burst * 1000 / rate.per_s
        self.ms_per_byte = 1000 / rate.per_s
        self.empty_at: dict[Hashable, float] = {}
        """When the limit of each key is empty again, most recently charged last."""

    def has_room(self, key: Hashable, now_ms: int) -> bool:
        """Return whether something may be charged."""
        return self.empty_at.get(key, 0) - now_ms < self.burst_ms

    def charge(self, key: Hashable, size: int, now_ms: int) -> None:
        """Charge written bytes."""
        found = self.empty_at
        empty_at = found.pop(key, 0)
        if empty_at < now_ms:  # noqa: PLR1730  # a call takes as long as the rest
            empty_at = now_ms
        found[key] = empty_at + size * self.ms_per_byte
        if empty_at == now_ms and len(found) > KEYS_MOST:  # the key may be new
            del found[next(iter(found))]


class Charged(NamedTuple):
    """The keys of an event's limits."""

    type: str
    partition: int
    group: str | None
    host: str | None
    """Host of the client that caused the event; None without a client."""
    round: int


class _Round(NamedTuple):
    """A rebalance, and whether its events are stored."""

    number: int
    is_told: bool
    host: str | None
    """Host of the client that caused it."""


class EventBudget:
    """All limits of a process."""

    def __init__(self, total_bytes: int) -> None:
        """`total_bytes`: `group.events.retention.total.bytes`."""
        share = 1.0 if total_bytes < 0 else min(1.0, total_bytes / (TOTAL_SHARE * TOTAL.burst))
        total = Rate(max(1, int(TOTAL.burst * share)), max(1, int(TOTAL.per_s * share)))
        self._often = ByteLimit(total), ByteLimit(PARTITION), ByteLimit(SENDER), ByteLimit(GROUP)
        """Limits in total, of partitions, of senders and of groups."""
        self._refused = ByteLimit(REFUSED)
        self._running: dict[int, _Round] = {}
        """The rebalance in progress of each group, by hash, as ids may be long."""
        self._ended: dict[int, _Round] = {}
        """The last rebalance of other groups: events after its end belong to it."""

    def admits(self, event: Charged, now_ms: int, *, has_room: bool) -> bool:
        """Return whether an event is stored. To be called once per event, in order, even while none
        is stored. `has_room`: whether the disk has room.
        """
        known = self._round_of(event)
        if event.type == BEGIN:
            is_told = has_room and self._has_room(event, now_ms)
            self._began(event, is_told)
            return is_told
        if known is not None and event.type in ENDS:
            self._end(event, known)
        if not has_room:
            return False
        if known is not None:
            return known.is_told and (event.type in BODY or self._has_room(event, now_ms))
        return self._has_room(event, now_ms)

    def _round_of(self, event: Charged) -> _Round | None:
        """Return the rebalance of an event, if known."""
        if not event.round:
            return None
        group = hash(event.group)
        known = self._running.get(group) or self._ended.get(group)
        return known if known is not None and known.number == event.round else None

    def _began(self, event: Charged, is_told: bool) -> None:
        group = hash(event.group)
        self._running.pop(group, None)
        self._ended.pop(group, None)
        self._running[group] = _Round(event.round, is_told, event.host)
        if len(self._running) > RUNNING_MOST:
            del self._running[next(iter(self._running))]

    def _end(self, event: Charged, known: _Round) -> None:
        group = hash(event.group)
        self._running.pop(group, None)
        self._ended.pop(group, None)
        self._ended[group] = known
        if len(self._ended) > KEYS_MOST:
            del self._ended[next(iter(self._ended))]

    def _has_room(self, event: Charged, now_ms: int) -> bool:
        # `ByteLimit.has_room`, inlined: this and `charge` are called for every event.
        kind, partition, group, host, _ = event
        total, partitions, senders, groups = self._often
        return (
            total.empty_at.get(None, 0) - now_ms < total.burst_ms
            and partitions.empty_at.get(partition, 0) - now_ms < partitions.burst_ms
            and (host is None or senders.empty_at.get(host, 0) - now_ms < senders.burst_ms)
            and (kind != STALE or self._refused.has_room(host, now_ms))
            and (
                group is None
                or kind in SUMS
                or groups.empty_at.get(hash(group), 0) - now_ms < groups.burst_ms
            )
        )

    def charge(self, event: Charged, size: int, now_ms: int) -> None:
        """Charge an event's bytes. Without a client, the cause of its rebalance is charged."""
        kind, partition, group, host, _ = event
        total, partitions, senders, groups = self._often
        for limit, key in ((total, None), (partitions, partition)):  # no key is dropped
            empty_at = limit.empty_at.get(key, 0)
            since = empty_at if empty_at > now_ms else now_ms
            limit.empty_at[key] = since + size * limit.ms_per_byte
        if host is None and (known := self._round_of(event)) is not None:
            host = known.host
        if host is not None:
            senders.charge(host, size, now_ms)
        if kind == STALE:
            self._refused.charge(host, size, now_ms)
        if group is not None and kind not in SUMS:
            groups.charge(hash(group), size, now_ms)
