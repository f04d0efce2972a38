"""Formats records as text for people and for jq: `key: {...} payload: {...}`.

Fields have the names of Kafka's JSON. Damaged records raise nothing: bytes that cannot be decoded
are shown as `unreadable`, with the reason. Source: Kafka's DumpLogSegments.OffsetsMessageParser.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from struct import Struct

from groupkeeper.cli.json_text import json_text
from groupkeeper.protocol.embedded import NEWEST_VERSION as NEWEST_EMBEDDED_VERSION
from groupkeeper.protocol.embedded import decode_assignment, decode_subscription
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.group_events import decode
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.record_batch import Record
from groupkeeper.protocol.records.consumer_offsets import (
    NEWEST_VALUE_VERSION,
    GroupConfigsKey,
    GroupMetadataKey,
    OffsetCommitKey,
    UnknownKey,
    decode_configs_value,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

_MARKERS = {0: "ABORT", 1: "COMMIT"}
_control_key = Struct(">hh")
_int16 = Struct(">h")

_READ: dict[type, Callable[[bytes], object]] = {
    OffsetCommitKey: decode_offset_value,
    GroupMetadataKey: decode_group_value,
    GroupConfigsKey: decode_configs_value,
}
_EMBEDDED: dict[str, Callable[[bytes], object]] = {
    "subscription": decode_subscription,
    "assignment": decode_assignment,
}


USER_KEYS = b"access:user:"
"""What the keys of records of the catalog begin with whose values nobody may see."""

RecordText = Callable[[Record], str]


def plain(record: Record) -> str:
    """Format a record of any topic: key and value as text, but for the keys of users."""
    if record.value is not None and (record.key or b"").startswith(USER_KEYS):
        return f"key: {_text(record.key)} payload: {_dump({'hidden': 'keys of a user'})}"
    return f"key: {_text(record.key)} payload: {_text(record.value)}"


def control_record(record: Record) -> str:
    """Format an end-of-transaction marker (KIP-98)."""
    if record.key is None or len(record.key) < _control_key.size:
        return f"control record: {_text(record.key)}"
    kind = _control_key.unpack_from(record.key)[1]
    return f"endTxnMarker: {_MARKERS.get(kind, kind)}"


def group_event(record: Record) -> str:
    """Format a record of `__group_events`, whose value is JSON already, or null."""
    if record.value is None:
        return plain(record)
    try:
        decode(record.key, record.value)
    except ValueError as problem:
        return f"{plain(record)} unreadable: {_dump(str(problem))}"
    return f"key: {_text(record.key)} payload: {record.value.decode()}"


def consumer_offset(record: Record) -> str:
    """Format a record of `__consumer_offsets`: a commit, a group, or a type that is not decoded."""
    if record.key is None:
        return plain(record)
    try:
        key = decode_key(record.key)
    except DecodeError as problem:
        return f"key: {_dump({'unreadable': str(problem)})} payload: {_text(record.value)}"
    if isinstance(key, UnknownKey):
        size = None if record.value is None else {"bytes": len(record.value)}
        return f"key: {_dump({'type': key.key_type})} payload: {_dump(size)}"
    key_type = _int16.unpack_from(record.key)[0]
    read = _READ[type(key)]
    shown = {"type": key_type, "data": _fields(key, key_type)}
    return f"key: {_dump(shown)} payload: {_dump(_value(record.value, read))}"


def _value(data: bytes | None, read: Callable[[bytes], object]) -> object:
    if data is None:
        return None
    try:
        value = read(data)
    except DecodeError as problem:
        return {"unreadable": str(problem)}
    version = _int16.unpack_from(data)[0]
    return {"version": version, "data": _fields(value, min(version, NEWEST_VALUE_VERSION))}


def _fields(message: object, version: int) -> dict[str, object]:
    """Return the message's fields that exist in a version."""
    return {
        _camel(field.name): _field(field.name, getattr(message, field.name), version)
        for field in layout_of(type(message)).fields
        if field.in_version(version)
    }


def _field(name: str, value: object, version: int) -> object:
    if isinstance(value, list):
        return [_field(name, item, version) for item in value]
    if isinstance(value, bytes):
        return _opaque(name, value)
    if value is None or isinstance(value, str | int):
        return value
    return _fields(value, version)


def _opaque(name: str, data: bytes) -> object:
    """Decode a member's subscription or assignment if possible; encode other bytes in base64."""
    if data and name in _EMBEDDED:
        try:
            opened = _EMBEDDED[name](data)
        except DecodeError:
            pass
        else:
            return _fields(opened, min(_int16.unpack_from(data)[0], NEWEST_EMBEDDED_VERSION))
    return urlsafe_b64encode(data).decode().rstrip("=")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _text(data: bytes | None) -> str:
    return _dump(None if data is None else data.decode("utf-8", "backslashreplace"))


def _dump(value: object) -> str:
    return json_text(value, separators=(",", ":"))
