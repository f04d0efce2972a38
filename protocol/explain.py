"""Finds the field of a message that cannot be encoded. Runs only after an encoder has failed."""

from struct import error as struct_error
from struct import pack

from groupkeeper.protocol.mapped import Bulk, Mapped
from groupkeeper.protocol.message import fields_in, layout_of
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from groupkeeper.protocol.wire import LONGEST_TEXT


def explain(message: object, version: int, error: Exception) -> Exception:
    """A TypeError or ValueError that names the first wrong field, or repeats `error`."""
    name = f"{type(message).__name__} v{version}"
    if not hasattr(type(message), "__layout__"):
        return TypeError(f"not a message: {message!r}")
    return _wrong_field(message, version, name) or TypeError(f"{name}: {error}")


def _wrong_field(message: object, version: int, path: str) -> Exception | None:
    plain, tagged = fields_in(type(message), version)
    for field in plain + tagged:
        nullable = field.nullable_in(version) or field in tagged
        wrong = _wrong_value(
            field.type,
            getattr(message, field.name, None),
            nullable,
            version,
            f"{path}: {field.name}",
        )
        if wrong:
            return wrong
    return None


def _wrong_value(
    kind: WireType, value: object, nullable: bool, version: int, path: str
) -> Exception | None:
    if value is None:
        return None if nullable else TypeError(f"{path} must not be null")
    match kind:
        case Fixed():
            return _wrong_fixed(kind, value, path)
        case Sized():
            return _wrong_sized(kind, value, version, path)
        case ArrayOf():
            if not isinstance(value, list | tuple | Mapped | Bulk):
                return TypeError(f"{path} must be a list, not {value!r}")
            found = (
                _wrong_value(kind.item, v, False, version, f"{path}[{i}]")
                for i, v in enumerate(value)
            )
            return next(filter(None, found), None)
        case StructOf():
            if type(value) is not kind.cls:
                return TypeError(f"{path} must be {layout_of(kind.cls).name}, not {value!r}")
            return _wrong_field(value, version, path)


def _wrong_fixed(kind: Fixed, value: object, path: str) -> Exception | None:
    try:
        pack(">" + kind.code, value)
    except struct_error as error:
        return ValueError(f"{path} must be {kind.name}, not {value!r} ({error})")
    return None


def _wrong_sized(kind: Sized, value: object, version: int, path: str) -> Exception | None:
    if not isinstance(value, str if kind.is_text else bytes | bytearray | memoryview):
        return TypeError(f"{path} must be {kind.name}, not {value!r}")
    if isinstance(value, str):
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            return ValueError(f"{path} must be UTF-8: {error}")
        if size > LONGEST_TEXT:
            return ValueError(f"{path} has {size} bytes, more than {LONGEST_TEXT}")
    return None
