"""Generates the encoder of one message in one version, with the frame around it.

Adjacent fields of fixed width, and a length after them, are written by one struct call; a message
of such fields only is a single call, its size included. Fields that the version does not have are
left out. Null where the version allows none is an error of the caller.

The sliced encoder of responses is a generator of the bytes after the size, for responses that would
block the event loop for too long.
"""

from collections.abc import Iterator
from enum import Enum, auto
from struct import calcsize, pack
from struct import error as struct_error

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import Field, default_code, fields_in, layout_of, structs_in
from groupkeeper.protocol.source import Source
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from groupkeeper.protocol.wire import ONE_BYTE, write_tags, write_varint

SLICE_PIECES = 1_000
"""Pieces that a sliced encoder joins before it yields them."""
SLICE_NUMBERS = 16_384
"""Numbers of one array that a sliced encoder writes before it yields."""
LONG_RECORDS = 16_384
"""Records of more bytes are yielded by a sliced encoder without a copy."""


class Framing(Enum):
    """The bytes that the encoder writes in front of the body."""

    RESPONSE = auto()
    """int32 size, int32 correlation id, in flexible versions an empty tag buffer."""
    SLICED_RESPONSE = auto()
    """As RESPONSE without the size, in pieces."""
    VERSIONED = auto()
    """int16 version: the form of keys and values in logs."""
    BARE = auto()
    """Nothing."""


def write_encoder(source: Source, cls: type, version: int, framing: Framing) -> str:
    """Write `encode(message[, correlation_id])` to bytes, or pieces of bytes; return its name."""
    flexible = layout_of(cls).is_flexible(version)
    sliced = framing is Framing.SLICED_RESPONSE
    return _EncoderWriter(source, version, flexible, sliced).function(cls, framing)


class _EncoderWriter:
    """Writes encoding statements, which append pieces to the list `out`."""

    def __init__(self, source: Source, version: int, flexible: bool, sliced: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.sliced = sliced
        # Fixed-width writes (struct code, expression) that the next struct call will do.
        self.run: list[tuple[str, str]] = []
        for helper in (pack, write_tags, write_varint):
            source.refer(helper.__name__, helper)
        source.refer("ONE_BYTE", ONE_BYTE)
        source.refer("join", b"".join)
        source.refer("faults", (AttributeError, TypeError, ValueError, struct_error))

    def function(self, cls: type, framing: Framing) -> str:
        source = self.source
        if self.flexible:
            sliced, self.sliced = self.sliced, False  # tagged fields are not sliced
            for part in structs_in(cls, self.version):
                for field in fields_in(part, self.version)[1]:
                    self.tag_writer(part, field)
            self.sliced = sliced
        answers = framing in (Framing.RESPONSE, Framing.SLICED_RESPONSE)
        parameters = "message, correlation_id" if answers else "message"
        with source.block(f"def encode({parameters}):"):
            with source.block("try:"):
                if self.all_fixed(cls) and not self.sliced:
                    self.one_call(cls, framing)
                else:
                    self.pieces(cls, framing)
            with source.block("except faults as error:"):
                name = f"{layout_of(cls).name} v{self.version}"
                source.line(f'raise TypeError(f"{name}: {{error!r}}") from error')
        return "encode"

    def one_call(self, cls: type, framing: Framing) -> None:
        """The whole frame as one struct call: its size is known."""
        self.lead(cls, framing)
        self.struct(cls, "message")
        if framing is Framing.RESPONSE:
            size = calcsize(">" + "".join(code for code, _ in self.run))
            self.run.insert(0, ("i", str(size)))
        self.source.line(f"return {self.packing()}")

    def pieces(self, cls: type, framing: Framing) -> None:
        """The frame as a list of pieces that are joined at the end; sliced, without its size."""
        source = self.source
        source.line("out = []")
        self.lead(cls, framing)
        self.struct(cls, "message")
        self.flush()
        if self.sliced:
            source.line("yield join(out)")
        elif framing in (Framing.VERSIONED, Framing.BARE):
            source.line("return join(out)")
        elif _holds_records(cls, self.version):  # too long to be copied twice
            source.line(f"out.insert(0, {source.packed('pack', 'i')}(sum(map(len, out))))")
            source.line("return join(out)")
        else:
            source.line("frame = join(out)")
            source.line(f"return {source.packed('pack', 'i')}(len(frame)) + frame")

    def cut(self, condition: str) -> None:
        """In a sliced encoder: yield the pieces written so far, on a condition."""
        if self.sliced:
            with self.source.block(f"if {condition}:"):
                self.source.line("yield join(out)")
                self.source.line("out.clear()")

    def lead(self, cls: type, framing: Framing) -> None:
        """Write the bytes before the body, except the size."""
        match framing:
            case Framing.VERSIONED:
                self.run.append(("h", str(self.version)))
            case Framing.RESPONSE | Framing.SLICED_RESPONSE:
                self.run.append(("i", "correlation_id"))
                # ApiVersions keeps header v0: its client may not know our versions yet (KIP-511).
                if self.flexible and layout_of(cls).key != ApiKey.API_VERSIONS:
                    self.run.append(("x", ""))

    def tag_writer(self, cls: type, field: Field) -> None:
        """Write `tag_of_X_name(value) -> bytes`, the value of one tagged field."""
        source = self.source
        with source.block(f"def tag_of_{cls.__name__}_{field.name}(value):"):
            source.line("out = []")
            self.value(field.type, "value", field.nullable_in(self.version))
            self.flush()
            source.line("return join(out)")

    def struct(self, cls: type, expression: str) -> None:
        plain, tagged = fields_in(cls, self.version)
        for field in plain:
            self.value(field.type, f"{expression}.{field.name}", field.nullable_in(self.version))
        if not self.flexible:
            return
        if not tagged:
            self.run.append(("x", ""))
            return
        self.flush()
        tags = [
            f"({field.tag}, None if {_is_default(field, expression)} else"
            f" tag_of_{cls.__name__}_{field.name}({expression}.{field.name})),"
            for field in tagged
        ]
        self.source.line(f"if {' and '.join(_is_default(field, expression) for field in tagged)}:")
        self.source.line('    out.append(b"\\0")')
        self.source.line("else:")
        self.source.line(f"    out.append(write_tags(({' '.join(tags)})))")

    def value(self, kind: WireType, expression: str, nullable: bool) -> None:
        match kind:
            case Fixed():
                self.run.append((kind.code, expression))
            case Sized():
                self.sized(kind, expression, nullable)
            case ArrayOf():
                self.array(kind.item, expression, nullable)
            case StructOf() if nullable:
                self.flush()
                with self.source.block(f"if {expression} is None:"):
                    self.source.line('out.append(b"\\xff")')
                with self.source.block("else:"):
                    self.run.append(("b", "1"))
                    self.struct(kind.cls, expression)
                    self.flush()
            case StructOf():
                self.struct(kind.cls, expression)

    def packing(self) -> str:
        """The struct call for the pending writes, as an expression."""
        codes = "".join(code for code, _ in self.run)
        values = ", ".join(expression for code, expression in self.run if code != "x")
        self.run.clear()
        return (
            f"{self.source.packed('pack', codes)}({values})" if values else repr(bytes(len(codes)))
        )

    def flush(self) -> None:
        """Write the struct call for the pending writes."""
        if self.run:
            self.source.line(f"out.append({self.packing()})")

    def length(self, code: str) -> None:
        """Write `n`, a length or count as on the wire."""
        if not self.flexible:
            self.run.append((code, "n"))
            self.flush()
        elif not self.run:
            self.source.line("out.append(ONE_BYTE[n] if n < 128 else write_varint(n))")
        else:
            run = self.run.copy()
            long = self.packing()
            self.run = [*run, ("B", "n")]
            self.source.line(
                f"out.append({self.packing()} if n < 128 else {long} + write_varint(n))"
            )

    def sized(self, kind: Sized, expression: str, nullable: bool) -> None:
        source = self.source
        encode = ".encode()" if kind.is_text else ""
        plus = " + 1" if self.flexible else ""
        if nullable:
            source.line(f"data = {expression}")
            with source.block("if data is None:"):
                source.line(f'data, n = b"", {0 if self.flexible else -1}')
            with source.block("else:"):
                if encode:
                    source.line("data = data.encode()")
                source.line(f"n = len(data){plus}")
        else:
            source.line(f"data = {expression}{encode}")
            source.line(f"n = len(data){plus}")
        self.length(kind.code)
        if self.sliced and kind.name == "records":  # too long to be copied
            with source.block(f"if n > {LONG_RECORDS}:"):
                source.line("yield join(out)")
                source.line("out.clear()")
                source.line("yield data")
            with source.block("else:"):
                source.line("out.append(data)")
        else:
            source.line("out.append(data)")

    def array(self, item: WireType, expression: str, nullable: bool) -> None:
        source = self.source
        items = source.fresh("items")
        source.line(f"{items} = {expression}")
        count = f"n = len({items}){' + 1' if self.flexible else ''}"
        if nullable:
            with source.block(f"if {items} is None:"):
                source.line(f"{items}, n = (), {0 if self.flexible else -1}")
            with source.block("else:"):
                source.line(count)
        else:
            source.line(count)
        self.length("i")
        self.items(item, items)

    def items(self, item: WireType, items: str) -> None:
        source = self.source
        one = source.fresh("item")
        if isinstance(item, Fixed) and self.sliced:
            with source.block(f"for at in range(0, len({items}), {SLICE_NUMBERS}):"):
                source.line(f"some = {items}[at : at + {SLICE_NUMBERS}]")
                source.line(f'out.append(pack(f">{{len(some)}}{item.code}", *some))')
                self.cut(f"len(some) == {SLICE_NUMBERS}")
        elif isinstance(item, Fixed):
            source.line(f'out.append(pack(f">{{len({items})}}{item.code}", *{items}))')
        elif not self.sliced and isinstance(item, StructOf) and self.all_fixed(item.cls):
            self.struct(item.cls, one)
            source.line(f"out += [{self.packing()} for {one} in {items}]")
        else:
            with source.block(f"for {one} in {items}:"):
                self.value(item, one, False)
                self.flush()
                self.cut(f"len(out) > {SLICE_PIECES}")

    def all_fixed(self, cls: type) -> bool:
        """Whether a struct has fields of fixed width only."""
        plain, tagged = fields_in(cls, self.version)
        return not tagged and all(isinstance(field.type, Fixed) for field in plain)


def _is_default(field: Field, expression: str) -> str:
    match field.type:
        case ArrayOf():
            return f"not {expression}.{field.name}"
        case StructOf():
            return f"{expression}.{field.name} is None"
        case _:
            operator = "is" if field.default is None else "=="
            return f"{expression}.{field.name} {operator} {default_code(field)}"


def _holds_records(cls: type, version: int) -> bool:
    def kinds() -> Iterator[WireType]:
        for part in structs_in(cls, version):
            yield from (field.type for field in fields_in(part, version)[0])

    return any(isinstance(kind, Sized) and kind.name == "records" for kind in kinds())
