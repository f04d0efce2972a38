"""Declares message classes: one class for all versions of a message, each field with the versions
that have it.

    @message(key=ApiKey.HEARTBEAT, versions=(0, 4), flexible=4)
    class HeartbeatRequest:
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: NullableString = since(3, default=None)

    @response_to(HeartbeatRequest)
    class HeartbeatResponse:
        throttle_time_ms: Int32 = since(1)
        error_code: Int16 = 0

The decorators create slotted, mutable classes. Their constructors take keywords only and give every
field Kafka's default. `compiler.py` reads and writes bytes, by the `Layout` of the class.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.source import Source
from groupkeeper.protocol.types import ArrayOf, Fixed, Shape, Sized, StructOf, WireType

T = TypeVar("T")

Message: TypeAlias = object  # an instance of a class that a decorator below made

FOREVER = 32767  # the largest version an int16 can hold


class _New:
    """Type of the default value that stands for a new empty list."""

    def __repr__(self) -> str:
        return "[]"


_NEW_LIST = _New()


class Lifetime(NamedTuple):
    """Result of `since`, `until` and `tagged`: the versions that have a field, and how."""

    default: object
    since: int = 0
    until: int = FOREVER
    nullable_since: int = 0
    tag: int | None = None


class Field(NamedTuple):
    """One field of a message. It holds `default` if the decoded version does not have it."""

    name: str
    type: WireType
    default: object
    since: int
    until: int
    nullable_since: int
    tag: int | None

    def in_version(self, version: int) -> bool:
        """Whether the version has the field, tagged or not."""
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        """Whether null is allowed in the version."""
        kind = self.type
        can_be_null = not isinstance(kind, Fixed) and kind.nullable
        return can_be_null and version >= self.nullable_since


class Layout(NamedTuple):
    """How a message class is encoded. `key` is None if it is neither request nor response,
    `flexible` (the first flexible version) if there is none; `response` is set in requests only.
    """

    name: str
    key: ApiKey | None
    versions: tuple[int, int]
    flexible: int | None
    open_ended: bool  # bytes after the last field belong to a newer version and are ignored
    fields: tuple[Field, ...]
    response: type | None = None

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


_TYPICAL = object()  # stands for the default of the field's type


# The specifiers return Any because they stand where a field's default value is expected.
def since(
    version: int, *, default: object = _TYPICAL, until: int = FOREVER, nullable_since: int = 0
) -> Any:
    """A field of the versions `version` to `until`; it may be null from `nullable_since` on."""
    return Lifetime(default, version, until, nullable_since)


def until(version: int, *, default: object = _TYPICAL, nullable_since: int = 0) -> Any:
    """A field of the versions up to and including `version`."""
    return Lifetime(default, 0, version, nullable_since)


def tagged(tag: int, *, since: int, default: object = _TYPICAL) -> Any:
    """A tagged field (KIP-482): left out while it holds its default."""
    return Lifetime(default, since, FOREVER, 0, tag)


def empty() -> Any:
    """An array of every version; its default is a new empty list."""
    return Lifetime(_NEW_LIST)


@dataclass_transform(kw_only_default=True)
def message(
    *,
    versions: tuple[int, int],
    key: ApiKey | None = None,
    flexible: int | None = None,
    open_ended: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Make a request, or a message without an API, from a class.

    `key` is the API of a request, `versions` are the first and last that can be compiled,
    `flexible` is the first flexible one. `open_ended`: more bytes may follow the last field.
    """

    def decorate(cls: type[T]) -> type[T]:
        return _with_layout(
            cls, Layout(cls.__name__, key, versions, flexible, open_ended, _fields(cls))
        )

    return decorate


@dataclass_transform(kw_only_default=True)
def response_to(request: type) -> Callable[[type[T]], type[T]]:
    """Make the response to a request from a class; key and versions are those of the request."""

    def decorate(cls: type[T]) -> type[T]:
        layout = layout_of(request)
        made = _with_layout(cls, layout._replace(name=cls.__name__, fields=_fields(cls)))
        type.__setattr__(request, "__layout__", layout._replace(response=made))
        return made

    return decorate


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a part of messages from a class; its versions are those of the message around it."""
    return _with_layout(cls, Layout(cls.__name__, None, (0, FOREVER), None, False, _fields(cls)))


def layout_of(cls: type) -> Layout:
    """The layout of a class made by `message` or `struct`."""
    return cast(Layout, cls.__dict__["__layout__"])


def key_of(cls: type) -> ApiKey:
    """The API key of a request or response class; TypeError if the class is neither."""
    layout = layout_of(cls)
    if layout.key is None:
        raise TypeError(f"{layout.name} is neither a request nor a response")
    return layout.key


def fields_in(cls: type, version: int) -> tuple[list[Field], list[Field]]:
    """The plain and the tagged fields of a version."""
    present = [field for field in layout_of(cls).fields if field.in_version(version)]
    return [f for f in present if f.tag is None], [f for f in present if f.tag is not None]


def structs_in(cls: type, version: int) -> Iterator[type]:
    """The structs in a version of a message, innermost first, and the message itself last."""
    for field in layout_of(cls).fields:
        if field.in_version(version):
            kind = field.type
            while isinstance(kind, ArrayOf):
                kind = kind.item
            if isinstance(kind, StructOf):
                yield from structs_in(kind.cls, version)
    yield cls


def default_code(field: Field) -> str:
    """The default as a Python expression, which makes a new object of a mutable one."""
    return repr(field.default)


def _with_layout(cls: type[T], layout: Layout) -> type[T]:
    namespace = {
        name: value for name, value in cls.__dict__.items() if name not in cls.__annotations__
    }
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace |= {
        "__slots__": tuple(field.name for field in layout.fields),
        "__layout__": layout,
        "__init__": _first_init,
        "__eq__": _first_equal,
        "__repr__": namespace.get("__repr__", _represent),  # messages with secrets have their own
        "__hash__": None,
    }
    # Slots cannot be added to an existing class: a new one replaces it.
    return cast(type[T], type(cls.__name__, cls.__bases__, namespace))


def _fields(cls: type) -> tuple[Field, ...]:
    return tuple(_field(cls, name, hint) for name, hint in cls.__annotations__.items())


def _field(cls: type, name: str, hint: object) -> Field:
    given = cls.__dict__[name]
    lifetime = given if isinstance(given, Lifetime) else Lifetime(given)
    kind = _wire_type(hint)
    default = _default_of(kind) if lifetime.default is _TYPICAL else lifetime.default
    _, since, until, nullable_since, tag = lifetime
    return Field(name, kind, default, since, until, nullable_since, tag)


def _wire_type(hint: Any) -> WireType:  # Any: an annotation has a private type of the typing module
    if not hasattr(hint, "__metadata__"):
        return StructOf(hint)
    mark = hint.__metadata__[0]
    if not isinstance(mark, Shape):
        return cast(WireType, mark)
    inner = hint.__origin__
    if mark.optional:
        inner = inner.__args__[0]
    if mark.is_array:
        return ArrayOf(_wire_type(inner.__args__[0]), mark.nullable)
    return StructOf(inner, mark.nullable)


def _default_of(kind: WireType) -> object:
    match kind:
        case Fixed():
            return kind.default
        case Sized():
            return "" if kind.is_text else b""
        case ArrayOf():
            return _NEW_LIST
        case StructOf():
            return None


def _first_init(self: object, **values: object) -> None:
    """Replace this constructor by a compiled one at the first use, to keep start-up short."""
    cls = type(self)
    layout = layout_of(cls)
    source = Source(f"<{layout.name} constructor>")
    for field in layout.fields:
        source.refer(f"_{field.name}", field.default)
    parameters = ", ".join(f"{field.name}=_{field.name}" for field in layout.fields)
    with source.block(f"def __init__(self, *, {parameters}):"):
        for field in layout.fields:
            name = field.name
            is_list = field.default is _NEW_LIST
            value = f"[] if {name} is _{name} else {name}" if is_list else name
            source.line(f"self.{name} = {value}")
    constructor = source.compile("__init__")
    type.__setattr__(cls, "__init__", constructor)
    constructor(self, **values)


def _first_equal(self: object, other: object) -> object:
    """Replace this comparison by a compiled one, as `_first_init` does: each rejoin of a member
    compares what it offers.
    """
    cls = type(self)
    layout = layout_of(cls)
    source = Source(f"<{layout.name} comparison>")
    with source.block("def __eq__(self, other):"):
        with source.block("if type(self) is not type(other):"):
            source.line("return NotImplemented")
        same = [f"self.{field.name} == other.{field.name}" for field in layout.fields]
        source.line(f"return {' and '.join(same) or True}")
    equal = source.compile("__eq__")
    type.__setattr__(cls, "__eq__", equal)
    return equal(self, other)


def _represent(self: object) -> str:
    layout = layout_of(type(self))
    values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in layout.fields)
    return f"{layout.name}({values})"
