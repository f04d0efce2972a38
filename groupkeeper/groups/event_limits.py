"""Keeps the event log small and discreet: limits per sender, limits of sizes, personal data.

The limits here are by number, so that making events is cheap; event_budget.py limits the bytes of
all events.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import Fact, NotedFact
from groupkeeper.protocol.digest import blake2b
from groupkeeper.protocol.group_events import SHORTENED, Event, encode

SENDER_EVENTS: Final = 100
"""Stored events per second of one sender (host and client id) about one group. Events of steps that
wrote records, and `UNLIMITED`, do not count. Causes added to a rebalance are counted separately, so
that a storm of joins does not hide its cause."""
UNLIMITED: Final = frozenset(
    {"group_deleted", "group_emptied", "rebalance_completed", "rebalance_started"}
)
"""Types of which a rebalance, or the life of a group, has one: without it the others, which no
request sends, would have no beginning or no end."""
SENDERS_MOST: Final = 10_000
"""Senders and groups per partition and second with separate limits; the others share one limit."""
EVENT_BYTES: Final = 256 * 1024
"""Maximum size of an event, unless `message.max.bytes` is smaller. Longer lists are cut."""
_CUTS: Final = 24
"""Maximum number of cuts before the event is dropped."""

_PERSONAL: Final = frozenset({"host", "hosts", "current_host", "old_host", "reason", "principal"})
"""Fields with addresses, and with text that clients or people chose freely. Client ids are not
among them: they identify an application, and every member id begins with one."""
_NAMED_FREELY: Final = frozenset({"partitions", "types"})
"""Fields whose keys are names chosen by clients, such as topics: not personal."""
_SHARE: Final = 0.8


class SenderLimit:
    """Counts the events of each sender, group and second."""

    def __init__(self) -> None:
        self._second = 0
        self._counts: dict[tuple[object, ...], int] = {}

    def admits_fact(self, kind: str, noted: NotedFact, who: Who | None) -> bool:
        """Return whether the event of a fact may be stored.

        Called before the event is made, which is the most expensive part: of a thousand members on
        one host, a tenth is reported. `kind`: the type of the event; `who`: its sender.
        """
        if who is None or kind in UNLIMITED:
            return True
        second = noted.wall // 1000
        if second != self._second:
            self._second = second
            self._counts.clear()
        key: tuple[object, ...]
        key = noted.fact.group, who.host, who.client_id, kind == "rebalance_cause_added"
        if len(self._counts) >= SENDERS_MOST and key not in self._counts:
            key = ()
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return count <= SENDER_EVENTS


def sender_of_fact(fact: Fact) -> Who | None:
    """Return the client that caused a fact; None without a request."""
    kind = type(fact)
    find = _SENDERS.get(kind)
    if find is None:
        find = _SENDERS[kind] = _sender_of_kind(kind)
    return find(fact)


def _sender_of_kind(kind: type[Fact]) -> Callable[[Any], Who | None]:
    names = {each.name for each in fields(kind)}
    if "cause" in names:
        return attrgetter("cause.who")
    return attrgetter("who") if "who" in names else lambda _: None


_SENDERS: Final[dict[type[Fact], Callable[[Any], Who | None]]] = {}
"""Kind of fact -> function that returns its sender, filled on demand."""


def fitting(event: Event, most: int) -> bytes | None:
    """Encode an event in at most `most` bytes, or return None. The longest list is cut repeatedly,
    and its true length noted.
    """
    value = encode(event)
    for _ in range(_CUTS):
        if len(value) <= most:
            return value
        parts = dict(event.fields)
        lengths = {
            name: len(part)
            for name, part in parts.items()
            if isinstance(part, list | tuple | dict) and name not in (SHORTENED, "who", "cause")
        }
        name = max(lengths, key=lambda name: len(str(parts[name])), default="")
        if not name or not lengths[name]:
            return None
        kept = int(lengths[name] * min(most / len(value), 1) * _SHARE)
        whole = dict(parts.get(SHORTENED, {}))
        whole.setdefault(name, lengths[name])
        short = _first(parts[name], kept)
        event = event._replace(fields=parts | {name: short, SHORTENED: whole})
        value = encode(event)
    return None


def _first(part: Any, count: int) -> Any:
    """Return the first `count` items of a field."""
    if isinstance(part, dict):
        return dict(islice(part.items(), count))
    return list(part)[:count]


class Personal:
    """Treatment of addresses and free text: `keep`, `hash` or `omit`."""

    def __init__(self, mode: str, key: str) -> None:
        """`key` makes the hashes of this data directory differ from those of others."""
        self._mode = mode
        self._key = key.encode()[:64]

    def applied(self, event: Event) -> Event:
        """Return the event in the form to be stored."""
        return event if self._mode == "keep" else event._replace(fields=self._of(event.fields))

    def shown(self, value: Any) -> Any:
        """Return fields of events, or lists of them, in the form to be stored or shown."""
        return value if self._mode == "keep" else self._of(value)

    def _of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._field(name, part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self._of(part) for part in value]
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name in _NAMED_FREELY:
            return value
        return self._hidden(value) if name in _PERSONAL else self._of(value)

    def _hidden(self, value: Any) -> Any:
        if self._mode == "omit" or value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._hidden(part) for part in value]
        return blake2b(
            str(value).encode("utf-8", "backslashreplace"), digest_size=8, key=self._key
        ).hexdigest()
