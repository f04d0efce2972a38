"""The primitive types of Kafka's protocol, and the annotations for them in message classes.

For a type checker `Int32` is `int` and `Array[String]` is `list[str]`; the wire type is `Annotated`
metadata, from which `compile_decode.py` and `compile_encode.py` generate code.

Integers are big-endian. String, bytes and array follow their length (int16, int32, int32; -1 is
null), which in flexible versions is an unsigned varint of length + 1 (0 is null; KIP-482).

Source: Kafka's protocol guide; `org.apache.kafka.common.protocol.types.Type`.
"""

from typing import Annotated, NamedTuple, TypeAlias, TypeVar


class Fixed(NamedTuple):
    """A value of fixed width; `code` is its character in the `struct` module."""

    name: str
    code: str
    size: int
    default: float | bool | bytes


class Sized(NamedTuple):
    """Text or bytes after their length, whose struct character without KIP-482 is `code`."""

    name: str
    code: str
    size: int
    is_text: bool
    nullable: bool


class ArrayOf(NamedTuple):
    """A counted sequence of `item`."""

    item: "WireType"
    nullable: bool


class StructOf(NamedTuple):
    """A nested message class; as a field (not as an array's item) it may be None. If it is
    `nullable`, an int8 in front tells whether it is present: 1, or -1 for null.
    """

    cls: type
    nullable: bool = False


WireType: TypeAlias = Fixed | Sized | ArrayOf | StructOf


class Shape(NamedTuple):
    """Marks an annotation whose wire type depends on its argument: an array, or a nested struct.
    `optional`: None is allowed in Python; `nullable`: null is allowed on the wire.
    """

    is_array: bool
    optional: bool
    nullable: bool


T = TypeVar("T")

Boolean: TypeAlias = Annotated[bool, Fixed("bool", "?", 1, False)]
Int8: TypeAlias = Annotated[int, Fixed("int8", "b", 1, 0)]
Int16: TypeAlias = Annotated[int, Fixed("int16", "h", 2, 0)]
UInt16: TypeAlias = Annotated[int, Fixed("uint16", "H", 2, 0)]
Int32: TypeAlias = Annotated[int, Fixed("int32", "i", 4, 0)]
Int64: TypeAlias = Annotated[int, Fixed("int64", "q", 8, 0)]
Float64: TypeAlias = Annotated[float, Fixed("float64", "d", 8, 0.0)]
Uuid: TypeAlias = Annotated[bytes, Fixed("uuid", "16s", 16, bytes(16))]

String: TypeAlias = Annotated[str, Sized("string", "h", 2, True, False)]
NullableString: TypeAlias = Annotated[str | None, Sized("string", "h", 2, True, True)]
Bytes: TypeAlias = Annotated[bytes, Sized("bytes", "i", 4, False, False)]
NullableBytes: TypeAlias = Annotated[bytes | None, Sized("bytes", "i", 4, False, True)]
RecordsView: TypeAlias = Annotated[bytes | memoryview | None, Sized("records", "i", 4, False, True)]
"""Records of a request: a view of its bytes after sliced decoding."""
Records: TypeAlias = Annotated[bytes | None, Sized("records", "i", 4, False, True)]

Array = Annotated[list[T], Shape(True, False, False)]
NullableArray = Annotated[list[T] | None, Shape(True, True, True)]
Nested = Annotated[T | None, Shape(False, True, False)]
NullableStruct = Annotated[T | None, Shape(False, True, True)]
