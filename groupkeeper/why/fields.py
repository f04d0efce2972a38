"""The fields of an event, checked against the table of its type: what follows can rely on them.

A topic of this name may have another author, and a newer server other fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from groupkeeper.protocol.group_events import CAUSE, SHORTENED, TYPES, WHO, Event

# Any: JSON.
Part = Mapping[str, Any]


def checked(event: Event) -> tuple[dict[str, Any], list[str]]:
    """The known fields of an event whose type is known, with parts checked in the same way; and
    the names of those that this version does not know, or that have another form.
    """
    strange: list[str] = []
    known = TYPES[event.type].fields
    fields = {name: event.fields[name] for name in event.fields if name != SHORTENED}
    found = _known(fields, known, strange)
    shortened = event.fields.get(SHORTENED)
    if isinstance(shortened, dict):
        found[SHORTENED] = shortened
    return found, strange


def number(part: Part, name: str) -> int | None:
    """A number of evidence; None if there is none."""
    value = part.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _known(part: Part, table: Mapping[str, tuple[str, str]], strange: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in part.items():
        kind = table[name][0] if name in table else None
        if kind is None or not _fits(kind, value):
            strange.append(name)
        elif kind in ("cause", "who", "who or null") and value is not None:
            found[name] = _known(value, CAUSE if kind == "cause" else WHO, strange)
        elif kind in ("list", "list or null") and value is not None:
            found[name] = [each for each in value if isinstance(each, dict) and _has_member(each)]
        elif kind == "list of who":
            found[name] = [_known(each, WHO, strange) for each in value if isinstance(each, dict)]
        else:
            found[name] = value
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


def _fits(kind: str, value: object) -> bool:
    if value is None:
        return kind.endswith(" or null")
    kind = kind.removesuffix(" or null")
    if kind == "list of int":
        return isinstance(value, list) and all(isinstance(each, int | None) for each in value)
    return any(kind.startswith(start) and fits(value) for start, fits in _FORMS.items())


_FORMS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
    "object": lambda value: isinstance(value, dict),
    "cause": lambda value: isinstance(value, dict),
    "who": lambda value: isinstance(value, dict),
}
"""Beginning of a kind -> whether a value has its form."""
