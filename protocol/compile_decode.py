"""Generates the decoder of one message in one version: straight-line Python over a buffer.

Adjacent fields of fixed width, and a length after them, are read by one struct call. The position
only grows and must end exactly at `end`. Every length and count is checked against the bytes that
are left before memory is allocated, so that decoding takes at most a small multiple of the input's
size, and every fault raises DecodeError. Text has at most `LONGEST_TEXT` bytes in flexible versions
too: Kafka refuses longer text, and no record could hold it.

The sliced decoder is a generator that yields after every `SLICE_ITEMS` array items, for requests
that would block the event loop for too long. It does not copy records: they are views of the
buffer.
"""

from functools import partial
from struct import calcsize, unpack_from
from struct import error as struct_error

from groupkeeper.protocol.errors import DecodeError, TooManyItems
from groupkeeper.protocol.message import Field, default_code, fields_in, layout_of, structs_in
from groupkeeper.protocol.source import Source
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from groupkeeper.protocol.wire import (
    LONGEST_TEXT,
    MOST_TAGS,
    bad_length,
    not_at_end,
    read_tag,
    read_varint,
    skip_tags,
    too_long,
    too_many_tags,
)

SLICE_ITEMS = 500
"""Array items that a sliced decoder reads before it yields."""
SLICE_NUMBERS = 16_384
"""Numbers of one array that a sliced decoder reads before it yields."""
SLICES = 1_000
"""Slices of items in one message: half a million items, which take up to 100 MB."""

_HELPERS = (
    *(bad_length, not_at_end, read_tag, read_varint, skip_tags, too_long, too_many_tags),
    DecodeError,
    TooManyItems,
)


def write_decoder(source: Source, cls: type, version: int, sliced: bool = False) -> str:
    """Write `decode(buffer, pos, end) -> message`, or a generator of it; return the name."""
    flexible = layout_of(cls).is_flexible(version)
    return _DecoderWriter(source, version, flexible, sliced).function(cls)


def least_size(kind: WireType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value takes; bounds the count of an array."""
    match kind:
        case Fixed():
            return kind.size
        case Sized():
            return 1 if flexible else kind.size
        case ArrayOf():
            return 1 if flexible else 4
        case StructOf(nullable=True):
            return 1
        case StructOf():
            fields, _ = fields_in(kind.cls, version)
            return sum(least_size(field.type, version, flexible) for field in fields) + flexible


class _DecoderWriter:
    """Writes decoding statements."""

    def __init__(self, source: Source, version: int, flexible: bool, sliced: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.sliced = sliced
        # Fixed-width reads (struct code, target) that the next struct call will do.
        self.run: list[tuple[str, str]] = []
        # The function that reads the tagged fields of a struct.
        self.tag_readers: dict[type, str] = {}
        self.end = "end"
        for helper in _HELPERS:
            source.refer(helper.__name__, helper)
        source.refer("new", object.__new__)
        source.refer("malformed", (IndexError, struct_error, UnicodeDecodeError))

    def function(self, cls: type) -> str:
        source = self.source
        if self.flexible:
            sliced, self.sliced = self.sliced, False  # tagged fields are not sliced
            for part in structs_in(cls, self.version):
                if fields_in(part, self.version)[1]:
                    self.tag_reader(part)
            self.sliced = sliced
        with source.block("def decode(buffer, pos, end):"):
            with source.block("try:"):
                if self.sliced:
                    source.line(f"left, slices = {SLICE_ITEMS}, {SLICES}")
                    source.line("yield")  # a generator, even if there is no array in it
                self.struct(cls, "message")
                self.flush()
                wrong = ">" if layout_of(cls).open_ended else "!="
                with source.block(f"if pos {wrong} end:"):
                    source.line("raise not_at_end(message, end - pos)")
                source.line("return message")
            with source.block("except malformed as error:"):
                source.line(
                    f'raise DecodeError(f"{cls.__name__} v{self.version}: {{error}}") from error'
                )
        return "decode"

    def tag_reader(self, cls: type) -> None:
        """Write `read_tags_of_X(message, buffer, pos, end) -> pos`, of the tags of a struct."""
        source = self.source
        name = self.tag_readers[cls] = f"read_tags_of_{cls.__name__}"
        with source.block(f"def {name}(message, buffer, pos, end):"):
            source.line("count, pos = read_varint(buffer, pos)")
            with source.block(f"if count > {MOST_TAGS}:"):
                source.line("raise too_many_tags(count)")
            source.line("tag = -1")
            with source.block("for _ in range(count):"):
                source.line("tag, pos, tag_end = read_tag(buffer, pos, end, tag)")
                self.end = "tag_end"
                branch = "if"
                for field in fields_in(cls, self.version)[1]:
                    with source.block(f"{branch} tag == {field.tag}:"):
                        self.field(cls, field, "message")
                        self.flush()
                    branch = "elif"
                with source.block("else:"):
                    source.line("pos = tag_end")
                with source.block("if pos != tag_end:"):
                    source.line('raise DecodeError(f"tag {tag} does not fill its size")')
                self.end = "end"
            source.line("return pos")

    def struct(self, cls: type, target: str) -> None:
        """Create an object in `target` and read its fields."""
        source = self.source
        plain, _ = fields_in(cls, self.version)
        source.line(f"{target} = new({source.cls(cls)})")
        for field in layout_of(cls).fields:
            if field not in plain:
                source.line(f"{target}.{field.name} = {default_code(field)}")
        for field in plain:
            self.field(cls, field, target)
        if self.flexible:
            self.fixed("B", "tags")
            self.flush()
            reader = self.tag_readers.get(cls)
            call = f"{reader}({target}, " if reader else "skip_tags("
            with source.block("if tags:"):
                source.line(f"pos = {call}buffer, pos - 1, {self.end})")
                if self.sliced:
                    source.line("left -= 50")  # there may have been many

    def field(self, cls: type, field: Field, target: str) -> None:
        label = f"{cls.__name__}.{field.name}"
        self.value(field.type, f"{target}.{field.name}", field.nullable_in(self.version), label)

    def value(self, kind: WireType, target: str, nullable: bool, label: str) -> None:
        match kind:
            case Fixed():
                self.fixed(kind.code, target)
            case Sized() | ArrayOf():
                self.of_length(kind, target, nullable, label)
            case StructOf() if nullable:
                self.fixed("b", "mark")
                self.flush()
                with self.source.block("if mark < 0:"):
                    self.source.line(f"{target} = None")
                with self.source.block("else:"):
                    self.part(kind.cls, target)
                    self.flush()
            case StructOf():
                self.part(kind.cls, target)

    def part(self, cls: type, target: str) -> None:
        part = self.source.fresh("part")
        self.struct(cls, part)
        self.source.line(f"{target} = {part}")

    def fixed(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        """Write the struct call for the pending reads."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run.clear()
        if codes == "B":
            self.source.line(f"{targets} = buffer[pos]")
        else:
            comma = "" if ", " in targets else ","
            self.source.line(
                f"{targets}{comma} = {self.source.packed('unpack_from', codes)}(buffer, pos)"
            )
        self.source.line(f"pos += {calcsize('>' + codes)}")

    def length(self, code: str, text: str = "") -> str:
        """Read a length or count into `n`, as on the wire; return the value that means null. `text`
        is the label of a text, whose length has an upper bound.
        """
        source = self.source
        if not self.flexible:
            self.fixed(code, "n")
            self.flush()
            return "-1"
        self.fixed("B", "n")
        self.flush()
        with source.block("if n > 127:"):
            source.line("byte = buffer[pos]")
            with source.block("if byte < 128:"):
                source.line("n += (byte << 7) - 128")
                source.line("pos += 1")
            with source.block("else:"):
                source.line("n, pos = read_varint(buffer, pos - 1)")
                if text:  # checked here, which costs short texts nothing
                    with source.block(f"if n > {LONGEST_TEXT + 1}:"):
                        source.line(f"raise too_long({text!r}, n - 1)")
        return "0"

    def of_length(self, kind: Sized | ArrayOf, target: str, nullable: bool, label: str) -> None:
        """Read a length, and what has it; null becomes None where it is allowed."""
        source = self.source
        if isinstance(kind, Sized):
            null = self.length(kind.code, label if kind.is_text else "")
            read = partial(self.slice, kind, target, label)
        else:
            null, read = self.length("i"), partial(self.items, kind.item, target, label)
        if not nullable:
            read()
            return
        with source.block(f"if n == {null}:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            read()

    def slice(self, kind: Sized, target: str, label: str) -> None:
        source = self.source
        source.line(f"stop = pos + n{' - 1' if self.flexible else ''}")
        with source.block(f"if not pos <= stop <= {self.end}:"):
            source.line(f"raise bad_length({label!r}, n, {self.end} - pos)")
        if self.sliced and kind.name == "records":  # too long to be copied
            source.line(f"{target} = memoryview(buffer)[pos:stop]")
        else:
            source.line(f"{target} = buffer[pos:stop]{'.decode()' if kind.is_text else ''}")
        source.line("pos = stop")

    def items(self, item: WireType, target: str, label: str) -> None:
        source = self.source
        if self.flexible:
            source.line("n -= 1")
        size = least_size(item, self.version, self.flexible)
        with source.block(f"if not 0 <= n * {size} <= {self.end} - pos:"):
            source.line(f"raise bad_length({label!r}, n, {self.end} - pos)")
        if isinstance(item, Fixed):
            self.numbers(item, target)
            return
        items, one = source.fresh("items"), source.fresh("item")
        source.line(f"{target} = {items} = []")
        with source.block("for _ in range(n):"):
            if isinstance(item, StructOf):
                self.struct(item.cls, one)
            else:
                self.value(item, one, False, label)
            self.flush()
            source.line(f"{items}.append({one})")
            if self.sliced:
                source.line("left -= 1")
                with source.block("if left <= 0:"):
                    source.line("yield")
                    source.line(f"left, slices = {SLICE_ITEMS}, slices - 1")
                    with source.block("if not slices:"):
                        source.line(f"raise TooManyItems({SLICES * SLICE_ITEMS})")

    def numbers(self, item: Fixed, target: str) -> None:
        """Read `n` values of fixed width."""
        source = self.source
        source.refer("unpack_from", unpack_from)
        if not self.sliced:
            source.line(f'{target} = list(unpack_from(f">{{n}}{item.code}", buffer, pos))')
            source.line(f"pos += n * {item.size}")
            return
        numbers = source.fresh("numbers")
        source.line(f"{target} = {numbers} = []")
        with source.block("while n:"):
            source.line(f"part = n if n < {SLICE_NUMBERS} else {SLICE_NUMBERS}")
            source.line(f'{numbers} += unpack_from(f">{{part}}{item.code}", buffer, pos)')
            source.line(f"pos += part * {item.size}")
            source.line("n -= part")
            with source.block("if n:"):
                source.line("yield")
