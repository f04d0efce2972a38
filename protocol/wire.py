"""Functions that generated code calls in uncommon cases: long varints, tagged fields and errors.

The common cases (a varint of one or two bytes, no tagged fields) are inlined by the compiler.

Source: Kafka's `ByteUtils` (varints), KIP-482 (tagged fields).
"""

from collections.abc import Sequence

from groupkeeper.protocol.errors import DecodeError, LeftOver

LONGEST_TEXT = 32_767
"""Bytes of UTF-8 in a text of any version: Kafka refuses more, and an int16 holds no more."""

MOST_TAGS = 1_000
"""Tagged fields in one struct. Kafka defines a handful; skipping each one takes time."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))


def read_varint(buffer: bytes, pos: int) -> tuple[int, int]:
    """The unsigned 32-bit varint at `pos` (lowest bits first) and the position after it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, pos
    raise DecodeError(f"varint before byte {pos} does not fit 32 bits")


def write_varint(value: int) -> bytes:
    """Encode a value that is not negative as an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tag(buffer: bytes, pos: int, end: int, last: int) -> tuple[int, int, int]:
    """A tag, the position of its value and the position after it; tags ascend (KIP-482)."""
    tag, pos = read_varint(buffer, pos)
    size, pos = read_varint(buffer, pos)
    if tag <= last:
        raise DecodeError(f"tag {tag} after tag {last}")
    if size > end - pos:
        raise DecodeError(f"tag {tag}: {size} bytes announced, {end - pos} left")
    return tag, pos, pos + size


def skip_tags(buffer: bytes, pos: int, end: int) -> int:
    """Skip a tag buffer of unknown tags; return the position after it."""
    count, pos = read_varint(buffer, pos)
    if count > MOST_TAGS:
        raise too_many_tags(count)
    last = -1
    for _ in range(count):
        last, _, pos = read_tag(buffer, pos, end, last)
    return pos


def too_many_tags(count: int) -> DecodeError:
    """The error for a tag buffer of more than `MOST_TAGS` tags."""
    return DecodeError(f"{count} tagged fields, more than {MOST_TAGS}")


def write_tags(tags: Sequence[tuple[int, bytes | None]]) -> bytes:
    """Encode a tag buffer, of the tags whose value is not None; they must ascend."""
    out = [b""]
    for tag, value in tags:
        if value is not None:
            out += (write_varint(tag), write_varint(len(value)), value)
    out[0] = write_varint(len(out) // 3)
    return b"".join(out)


def not_at_end(message: object, left: int) -> DecodeError:
    """The error for a body that is shorter or longer than its range."""
    return LeftOver(message, left) if left > 0 else DecodeError(f"{-left} bytes missing")


def bad_length(field: str, length: int, left: int) -> DecodeError:
    """The error for a length that is negative, a null that is not allowed, or beyond the end."""
    return DecodeError(f"{field}: length {length}, {left} bytes left")


def too_long(field: str, length: int) -> DecodeError:
    """The error for a text of more than `LONGEST_TEXT` bytes."""
    return DecodeError(f"{field}: {length} bytes, more than {LONGEST_TEXT}")


def cut_text(text: str) -> str:
    """Cut an error message, which may repeat a client's text, to the longest text."""
    data = text.encode()
    return text if len(data) <= LONGEST_TEXT else data[:LONGEST_TEXT].decode(errors="ignore")
