"""Checks the fields of an event against the schema of its type, so that later code can rely on
them.

The topic may hold events of foreign authors, and a newer server may write other fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.group_event_types import CAUSE, TYPES, WHO
from groupkeeper.protocol.group_events import INFERRED, SEEN_START, SHORTENED, Event

# Any: JSON.
Part = Mapping[str, Any]

LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999. No server writes a larger number, sums of many still fit
into 64 bits, and readers of the analytics tables cannot represent later times."""


def checked(event: Event) -> tuple[dict[str, Any], list[str]]:
    """Return the known fields of an event of a known type, nested objects checked too, and the
    names of unknown or malformed ones.
    """
    strange: list[str] = []
    return _known(event.fields, _OF_TYPE[event.type], strange), strange


def with_fields(event: Event, fields: Part) -> Event:
    """Return the event with other fields; a third of the time of `_replace`."""
    return Event(*event[:10], fields, event.v)


def number(part: Part, name: str) -> int | None:
    """Return a number of an event's evidence; None if it is absent or larger than servers write."""
    value = part.get(name)
    return value if type(value) is int and _is_usual(value) else None


class _Rule(NamedTuple):
    """The values a field may have. Types are compared exactly: enough for JSON, and fast."""

    types: frozenset[type]
    fits: Callable[[Any], bool] | None = None
    """Further check of a value of a permitted type."""
    part: Callable[[Any, list[str]], Any] | None = None
    """Converts a valid value; the list collects names of strange fields."""


_Rules = Mapping[str, _Rule]
_UNKNOWN: Final[_Rule] = _Rule(frozenset())


def _known(part: Part, rules: _Rules, strange: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in part.items():
        rule: _Rule = rules.get(name, _UNKNOWN)
        types, fits, made_of = rule
        if type(value) not in types or (fits is not None and not fits(value)):
            if name != SHORTENED:
                strange.append(name)
        elif made_of is None or value is None:
            found[name] = value
        else:
            found[name] = made_of(value, strange)
    return found


def _has_member(item: Part) -> bool:
    partitions = item.get("partitions", {})
    return (
        isinstance(item.get("member"), str)
        and isinstance(item.get("instance"), str | None)
        and isinstance(item.get("after_ms", 0), int)
        and isinstance(partitions, dict)
        and all(isinstance(some, list) for some in partitions.values())
    )


def _members(items: list[Any], _: list[str]) -> list[Part]:
    return [each for each in items if isinstance(each, dict) and _has_member(each)]


def _clients(items: list[Any], strange: list[str]) -> list[Part]:
    return [_known(each, _OF_WHO, strange) for each in items if isinstance(each, dict)]


def _are_ints(value: list[Any] | None) -> bool:
    return value is None or all(isinstance(each, int | None) for each in value)


def _is_usual(value: int | None) -> bool:
    return value is None or -LAST_MS <= value <= LAST_MS


_FORMS: Final[Mapping[str, type]] = {
    "int": int,
    "number": float,
    "string": str,
    "bool": bool,
    "list": list,
    "map": dict,
    "object": dict,
    "cause": dict,
    "who": dict,
}
"""First word of a kind -> Python type of its values."""


def _rule(kind: str) -> _Rule:
    """Return the rule for a kind of field, such as `list of int or null` (docs/events.md)."""
    name = kind.removesuffix(" or null")
    types = frozenset({_FORMS[name.split()[0]]} | ({type(None)} if name != kind else set()))
    types |= {int} if name == "number" else set()
    parts: Mapping[str, Callable[[Any, list[str]], Any]] = {
        "list": _members,
        "list of who": _clients,
        "who": lambda part, strange: _known(part, _OF_WHO, strange),
        "cause": lambda part, strange: _known(part, _OF_CAUSE, strange),
    }
    fits: Mapping[str, Callable[[Any], bool]] = {
        "int": _is_usual,
        "number": lambda value: 0 <= value <= 1,
        "list of int": _are_ints,
    }
    return _Rule(types, fits.get(name), parts.get(name))


def _rules(table: Mapping[str, tuple[str, str]]) -> _Rules:
    return {name: _rule(kind) for name, (kind, _) in table.items()}


_OF_WHO: Final = _rules(WHO)
_OF_CAUSE: Final = _rules(CAUSE)
_OF_ANY: Final[_Rules] = {SHORTENED: _Rule(frozenset({dict})), **_rules({**INFERRED, **SEEN_START})}
_OF_TYPE: Final[Mapping[str, _Rules]] = {
    name: {**_rules(each.fields), **_OF_ANY} for name, each in TYPES.items()
}
