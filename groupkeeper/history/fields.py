"""The fields of an event, checked against the table of its type: what follows can rely on them.

A topic of this name may have another author, and a newer server other fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.group_events import CAUSE, SHORTENED, TYPES, WHO, Event

# Any: JSON.
Part = Mapping[str, Any]

LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: no server writes a larger number, sums of many fit into 64
bits, and later times do not fit into what reads the tables of an analysis."""


def checked(event: Event) -> tuple[dict[str, Any], list[str]]:
    """The known fields of an event whose type is known, with parts checked in the same way; and
    the names of those that this version does not know, or that have another form.
    """
    strange: list[str] = []
    return _known(event.fields, _OF_TYPE[event.type], strange), strange


def with_fields(event: Event, fields: Part) -> Event:
    """The event with other fields; `_replace` takes three times as long."""
    return Event(*event[:10], fields, event.v)


def number(part: Part, name: str) -> int | None:
    """A number of evidence; None if there is none, or one that no server writes."""
    value = part.get(name)
    return value if type(value) is int and _is_usual(value) else None


class _Rule(NamedTuple):
    """Values that a field may have. Types are compared, as JSON has no others: events are many."""

    types: frozenset[type]
    fits: Callable[[Any], bool] | None = None
    """Whether a value of such a type has the right form, too."""
    part: Callable[[Any, list[str]], Any] | None = None
    """Makes of it what is kept."""


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
    "string": str,
    "bool": bool,
    "list": list,
    "map": dict,
    "object": dict,
    "cause": dict,
    "who": dict,
}
"""First word of a kind -> type of its values."""


def _rule(kind: str) -> _Rule:
    """Of a field of this kind, as the tables of the format name it."""
    name = kind.removesuffix(" or null")
    types = frozenset({_FORMS[name.split()[0]]} | ({type(None)} if name != kind else set()))
    parts: Mapping[str, Callable[[Any, list[str]], Any]] = {
        "list": _members,
        "list of who": _clients,
        "who": lambda part, strange: _known(part, _OF_WHO, strange),
        "cause": lambda part, strange: _known(part, _OF_CAUSE, strange),
    }
    fits: Mapping[str, Callable[[Any], bool]] = {"int": _is_usual, "list of int": _are_ints}
    return _Rule(types, fits.get(name), parts.get(name))


def _rules(table: Mapping[str, tuple[str, str]]) -> _Rules:
    return {name: _rule(kind) for name, (kind, _) in table.items()}


_OF_WHO: Final = _rules(WHO)
_OF_CAUSE: Final = _rules(CAUSE)
_OF_TYPE: Final[Mapping[str, _Rules]] = {
    name: {**_rules(each.fields), SHORTENED: _Rule(frozenset({dict}))}
    for name, each in TYPES.items()
}
