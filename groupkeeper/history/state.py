"""Saves folds as JSON and restores them, by the types of the attributes a class declares in its
body.

    state = saved(fold)                         # a JSON object
    fold = restore(Fold(about, rows), state)    # continues from there

Attributes set only in `__init__` are not saved. A nested fold is restored in place; if it is
optional, it has to exist before `restore` when the state has a value for it. Dataclasses and named
tuples become lists of their fields; dicts with keys other than strings become lists of pairs.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

_One = TypeVar("_One")


# Any: values of all types, and JSON.
class _Codec(NamedTuple):
    """Converts values of one type to JSON and back."""

    save: Callable[[Any], Any]
    load: Callable[[Any], Any]


def saved(one: object) -> dict[str, Any]:
    """Return the state of a fold as a JSON object; names lose their leading underscores."""
    kind: Any = type(one)
    return {
        name.lstrip("_"): codec.save(getattr(one, name)) for name, codec in _parts(kind).items()
    }


def restore(one: _One, state: Mapping[str, Any]) -> _One:
    """Fill a new fold with a state returned by `saved`."""
    kind: Any = type(one)
    for name, codec in _parts(kind).items():
        data, old = state[name.lstrip("_")], getattr(one, name)
        is_fold = old is not None and codec.load is _in_place
        setattr(one, name, restore(old, data) if is_fold else codec.load(data))
    return one


def _as_it_is(value: Any) -> Any:
    return value


def _in_place(data: Any) -> None:
    assert data is None, "made before it is restored"


@cache
def _parts(kind: Any) -> dict[str, _Codec]:
    return {name: _codec(each) for name, each in get_type_hints(kind).items()}


@cache
def _codec(kind: Any) -> _Codec:
    origin, of = get_origin(kind), get_args(kind)
    if origin is UnionType and NoneType in of and len(of) == 2:
        return _or_none(_codec(of[of[0] is NoneType]))
    if origin is list or (origin is tuple and of[-1] is Ellipsis):
        save, load = _codec(of[0])
        return _Codec(lambda some: [*map(save, some)], lambda data: origin(map(load, data)))
    if origin is tuple:
        return _fields([*map(_codec, of)], list, lambda *values: values)
    if origin is dict:
        return _pairs(*map(_codec, of), is_object=of[0] is str)
    if origin is Mapping:
        return _Codec(dict, _as_it_is)
    if not getattr(kind, "__annotations__", None):
        return _Codec(_as_it_is, _as_it_is)
    if is_dataclass(kind) or issubclass(kind, tuple):
        return _fields([*_parts(kind).values()], attrgetter(*_parts(kind)), kind)
    return _Codec(saved, _in_place)


def _or_none(some: _Codec) -> _Codec:
    def load(data: Any) -> Any:
        return None if data is None else some.load(data)

    return _Codec(
        lambda value: None if value is None else some.save(value),
        _in_place if some.load is _in_place else load,
    )


def _fields(codecs: list[_Codec], values: Callable[[Any], Any], kind: Callable[..., Any]) -> _Codec:
    return _Codec(
        lambda one: [codec.save(each) for codec, each in zip(codecs, values(one), strict=True)],
        lambda data: kind(*(codec.load(each) for codec, each in zip(codecs, data, strict=True))),
    )


def _pairs(key: _Codec, value: _Codec, *, is_object: bool) -> _Codec:
    if is_object:
        return _Codec(
            lambda some: {name: value.save(each) for name, each in some.items()},
            lambda data: {name: value.load(each) for name, each in data.items()},
        )
    return _Codec(
        lambda some: [[key.save(name), value.save(each)] for name, each in some.items()],
        lambda data: {key.load(name): value.load(each) for name, each in data},
    )
