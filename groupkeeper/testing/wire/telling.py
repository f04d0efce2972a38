"""Formats requests and responses as text that does not depend on the broker, run or machine.

    lea <- JoinGroup: NONE generation_id=1 protocol_type=consumer ... leader=lea-1 member_id=lea-1
      members: member_id=lea-1 metadata=<orders>

All fields of the version are written, in wire order, except those with an empty default (null, "",
no bytes, no elements, False, no throttling). Array elements have a line each; more than twenty
equal ones share a line. Error codes are written as names. Generated values are replaced: a member
id by its prefix and a number in order of appearance, known bytes by their description
(`TextNames.note_bytes`), record data by the base offset and record count of the first batch
(`0+2`), and timestamps by `TIME`.
"""

import itertools
import re
from typing import Any, ClassVar, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Field, layout_of
from groupkeeper.protocol.record_batch import CorruptBatch, read_header
from groupkeeper.protocol.types import ArrayOf, StructOf

PROMISED = {
    "LeaveGroupResponse": {"members"},
    "OffsetFetchResponse": {"groups"},
    "FindCoordinatorResponse": {"coordinators"},
}
"""Arrays, by message, with an order guaranteed by Kafka; the elements of all others are sorted."""

MEMBERS: Final = 200
"""Maximum number of renamed member ids; further ones are written unchanged."""
NOTED: Final = 1_000
"""Maximum number of described byte strings; when it is reached, all are dropped."""

_LONG = 20

_OF_DAY = 10**12
"""Unix milliseconds in 2001; larger timestamps are those of the run, not of a test's data."""

_MADE_UP = {
    "producer_id": (0, "ID"),
    "timestamp": (_OF_DAY, "TIME"),
    "log_append_time_ms": (_OF_DAY, "TIME"),
}
"""Numeric fields that differ in each run: the smallest such value, and its replacement."""

_TIMES = re.compile(r"(?<![\w.-])1\d{12}(?![\w.-])")

CHANCE = {
    "topic_id": "ID",
    "cluster_id": "CLUSTER",
    "log_dir": "DIR",
    "total_bytes": "BYTES",
    "usable_bytes": "BYTES",
}
"""Fields with different values on each broker, and their replacements."""

_MEMBER_ID = re.compile(
    r"(.*)-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{8})", re.DOTALL
)


class TextNames:
    """The replacements for generated values in one transcript; bounded in size."""

    omits_unknown: ClassVar[bool] = True
    """Whether to leave out fields with the value -1 if that is their default."""
    longest: ClassVar[int] = 64
    """Maximum number of bytes written in hexadecimal; of longer data, the length is written."""

    def __init__(self) -> None:
        self.members: dict[str, str] = {}
        """Replacements by member id."""
        self.noted: dict[bytes, str] = {}
        """Descriptions of known bytes."""
        self.topic_ids: dict[str, bytes] = {}
        """Topic ids by name, from responses."""

    def note_bytes(self, data: bytes, text: str) -> None:
        """Write these bytes as `<text>` from now on."""
        if len(self.noted) >= NOTED:
            self.noted.clear()
        self.noted.setdefault(data, text)

    def meet(self, member_id: str) -> None:
        """Choose a replacement for a new member id, unless a client made it up."""
        if len(self.members) >= MEMBERS or member_id in self.members:
            return
        found = _MEMBER_ID.fullmatch(member_id)
        if found is None:
            return
        number = 1 + sum(name.rpartition("-")[0] == found[1] for name in self.members.values())
        self.members[member_id] = f"{found[1]}-{number}"

    def meet_topic(self, name: str, topic_id: bytes) -> None:
        """Note the id of a topic, from a response."""
        self.topic_ids[name] = topic_id

    def topic(self, topic_id: bytes) -> str:
        """Return the text for a topic id: `@` and the topic's name, `@?` or `zero`."""
        names = [name for name, known in self.topic_ids.items() if known == topic_id]
        return f"@{names[0] if names else '?'}" if any(topic_id) else "zero"

    def text(self, value: str) -> str:
        """Return the text for a string: see `plain`; quoted if empty, or with spaces or `=`."""
        value = self.plain(value)
        return f"{value!r}" if not value or re.search(r"[\s=]", value) else value

    def plain(self, value: str) -> str:
        """Replace member ids and times in a string; a long repetition becomes `x*99`."""
        if len(value) > _LONG and value == value[0] * len(value):
            return f"{value[0]}*{len(value)}"
        value = self.members.get(value, value)
        for member_id, name in self.members.items():
            value = value.replace(member_id, name)
        return _TIMES.sub("TIME", value)

    def data(self, data: bytes) -> str:
        """Return the text for bytes: a description, length, literal or hexadecimal number."""
        if data in self.noted:
            return f"<{self.noted[data]}>"
        if len(data) > self.longest:
            return f"<{len(data)} bytes>"
        if data.isascii() and data.decode().isprintable():
            return repr(data.decode())
        return "0x" + data.hex()

    def batches(self, data: bytes | memoryview) -> str:
        """Return the base offset and record count of the first batch, such as `0+2`."""
        try:
            header = read_header(data)
        except CorruptBatch:
            return f"<{len(data)} bytes>"
        told = f"{header.base_offset}+{header.record_count}"
        return told if header.size >= len(data) else f"{told}..., {len(data)} bytes"

    def port(self, port: int) -> str:
        """Return the text for a port of the broker."""
        return str(port)


# Any: each API has its own messages.


def tell(message: Any, version: int, names: TextNames) -> list[str]:
    """Return the fields of a message as one line, followed by the lines of array elements."""
    scalars, lines = _struct(message, version, names, "  ", layout_of(type(message)).name)
    return [" ".join(scalars), *lines]


def _struct(
    value: Any, version: int, names: TextNames, indent: str, message: str
) -> tuple[list[str], list[str]]:
    scalars: list[str] = []
    lines: list[str] = []
    fields = [field for field in layout_of(type(value)).fields if field.in_version(version)]
    nameless = "topic_id" in {field.name for field in fields} and not _names_topic(value, names)
    for field in fields:
        told = getattr(value, field.name)
        if isinstance(field.type, ArrayOf) and isinstance(field.type.item, StructOf):
            lines += _elements(field, told, version, names, (indent, message))
        elif isinstance(field.type, StructOf):
            nested = [] if told is None else [told]
            lines += _elements(field, nested, version, names, (indent, message))
        elif field.name == "error_code":
            scalars.insert(0, ErrorCode(told).name)
        elif nameless and field.name == "topic_id":
            scalars.append(f"topic_id={names.topic(told)}")
        elif not (_is_void(field, told) or (names.omits_unknown and told == field.default == -1)):
            scalars.append(f"{field.name}={_scalar(field.name, told, names)}")
    return scalars, lines


def _names_topic(value: Any, names: TextNames) -> bool:
    """Whether a struct names a topic besides its id; if so, the id is noted."""
    name = getattr(value, "topic", "") or getattr(value, "name", "")
    if name and any(value.topic_id):
        names.meet_topic(name, value.topic_id)
    return bool(name)


def _elements(
    field: Field, told: Any, version: int, names: TextNames, place: tuple[str, str]
) -> list[str]:
    indent, message = place
    if told is None:
        return [f"{indent}{field.name}: null"] if field.default is not None else []
    blocks = []
    for each in told:
        scalars, lines = _struct(each, version, names, indent + "  ", message)
        blocks.append([f"{indent}{field.name}: {' '.join(scalars)}", *lines])
    if field.name not in PROMISED.get(message, ()):
        blocks.sort()
    return [line for block in _folded(blocks) for line in block]


def _folded(blocks: list[list[str]]) -> list[list[str]]:
    """Replace more than `_LONG` equal elements in a row by one, with their number."""
    folded = []
    for block, alike in itertools.groupby(blocks):
        number = len(list(alike))
        once = [[f"{block[0]} ({number} times)", *block[1:]]]
        folded += once if number > _LONG else [block] * number
    return folded


def _is_void(field: Field, value: Any) -> bool:
    """Whether a field has an empty default value and can be left out."""
    if value is None:
        return field.default is None
    if field.name in ("throttle_time_ms", "authorized_operations"):
        return bool(value == field.default)
    return value is False or (value in ("", b"", []) and field.default is not None)


def _scalar(name: str, value: Any, names: TextNames) -> str:
    match value:
        case bytes() | str() | int() if name in CHANCE:
            return CHANCE[name]
        case bytes() | memoryview() if name == "records" and value:
            return names.batches(value)
        case bytes():
            return names.data(value)
        case str():
            if name == "member_id":
                names.meet(value)
            return names.text(value)
        case list():
            return "[" + ", ".join(_scalar(name, each, names) for each in value) + "]"
        case int() if name == "port":
            return names.port(value)
        case int() if value >= _MADE_UP.get(name, (value + 1, ""))[0]:
            return _MADE_UP[name][1]
    return "null" if value is None else str(value)
