"""Requests and answers as lines of text that are the same for every broker, run and machine.

    lea <- JoinGroup: NONE generation_id=1 protocol_type=consumer ... leader=lea-1 member_id=lea-1
      members: member_id=lea-1 metadata=<orders>

Every field that the version carries is written, in the order of the wire, unless it holds an empty
default (null, "", no bytes, no elements, False, no throttling). Elements of arrays have a line
each. Error codes are names. What is made up by chance gets a name: a member id is what it begins
with and a number, counted from the first seen; bytes that somebody has noted
are written as they were noted, and of the first batch its offset and number of records (`0+2`), and
times of day are `TIME`. More than twenty equal elements are one line.
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
"""Arrays whose order Kafka promises; the elements of all others are sorted."""

MEMBERS: Final = 200
"""Member ids that get a name; the others are written as they are."""
NOTED: Final = 1_000
"""Subscriptions and assignments that are written as what they mean; then they are read anew."""

_LONG = 20

_OF_DAY = 10**12
"""Unix milliseconds in 2001: what is larger is the time of a run."""

_MADE_UP = {
    "producer_id": (0, "ID"),
    "timestamp": (_OF_DAY, "TIME"),
    "log_append_time_ms": (_OF_DAY, "TIME"),
}
"""Numbers that differ in each run from a value on, and what is written instead."""

_TIMES = re.compile(r"(?<![\w.-])1\d{12}(?![\w.-])")

CHANCE = {
    "topic_id": "ID",
    "cluster_id": "CLUSTER",
    "log_dir": "DIR",
    "total_bytes": "BYTES",
    "usable_bytes": "BYTES",
}
"""What every broker makes up for itself."""

_MEMBER_ID = re.compile(
    r"(.*)-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{8})", re.DOTALL
)


class TextNames:
    """What the things of one conversation are called in the text; bounded."""

    omits_unknown: ClassVar[bool] = True
    """A field is left out that holds -1, and does so by default."""
    longest: ClassVar[int] = 64
    """Bytes that are written in hexadecimal; of more, their number is."""

    def __init__(self) -> None:
        self.members: dict[str, str] = {}
        """Names by member id."""
        self.noted: dict[bytes, str] = {}
        """How bytes are written."""
        self.topic_ids: dict[str, bytes] = {}
        """Those that answers have named."""

    def note_bytes(self, data: bytes, text: str) -> None:
        """Write these bytes as `<text>`."""
        if len(self.noted) >= NOTED:
            self.noted.clear()
        self.noted.setdefault(data, text)

    def meet(self, member_id: str) -> None:
        """Give a member id its name, if it is new and was made by the broker."""
        if len(self.members) >= MEMBERS or member_id in self.members:
            return
        found = _MEMBER_ID.fullmatch(member_id)
        if found is None:
            return
        number = 1 + sum(name.rpartition("-")[0] == found[1] for name in self.members.values())
        self.members[member_id] = f"{found[1]}-{number}"

    def meet_topic(self, name: str, topic_id: bytes) -> None:
        """An answer has named a topic with its id."""
        self.topic_ids[name] = topic_id

    def topic(self, topic_id: bytes) -> str:
        """The name behind an id."""
        names = [name for name, known in self.topic_ids.items() if known == topic_id]
        return f"@{names[0] if names else '?'}" if any(topic_id) else "zero"

    def text(self, value: str) -> str:
        """A text of an answer, without what chance has put in; `x*9` when it is long."""
        value = self.plain(value)
        return f"{value!r}" if not value or re.search(r"[\s=]", value) else value

    def plain(self, value: str) -> str:
        """The same without quotes."""
        if len(value) > _LONG and value == value[0] * len(value):
            return f"{value[0]}*{len(value)}"
        value = self.members.get(value, value)
        for member_id, name in self.members.items():
            value = value.replace(member_id, name)
        return _TIMES.sub("TIME", value)

    def data(self, data: bytes) -> str:
        """Bytes."""
        if data in self.noted:
            return f"<{self.noted[data]}>"
        if len(data) > self.longest:
            return f"<{len(data)} bytes>"
        if data.isascii() and data.decode().isprintable():
            return repr(data.decode())
        return "0x" + data.hex()

    def batches(self, data: bytes | memoryview) -> str:
        """Offset and number of records of the first batch: there may be many."""
        try:
            header = read_header(data)
        except CorruptBatch:
            return f"<{len(data)} bytes>"
        told = f"{header.base_offset}+{header.record_count}"
        return told if header.size >= len(data) else f"{told}..., {len(data)} bytes"

    def port(self, port: int) -> str:
        """A port of the broker."""
        return str(port)


# Any: each API has its own messages.


def tell(message: Any, version: int, names: TextNames) -> list[str]:
    """The first line without who and what, and the lines of the elements."""
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
    """Whether a part of an answer has the name of a topic beside its id; then it is learned."""
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
    """Elements that are alike in a row are told once, with their number, if they are very many."""
    folded = []
    for block, alike in itertools.groupby(blocks):
        number = len(list(alike))
        once = [[f"{block[0]} ({number} times)", *block[1:]]]
        folded += once if number > _LONG else [block] * number
    return folded


def _is_void(field: Field, value: Any) -> bool:
    """Whether nothing is lost by leaving the field out."""
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
