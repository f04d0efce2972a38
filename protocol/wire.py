"""What generated code calls for the uncommon cases: long varints, tagged fields, and what is wrong
with bad bytes. And how long a text may be.

The common cases (a varint of one or two bytes, no tagged fields) are written inline by the compiler
and never come here.
"""

from collections.abc import Sequence

from groupkeeper.protocol.errors import DecodeError, LeftOver

LONGEST_TEXT = 32_767
"""Bytes of UTF-8, in every version: what an int16 can say, and what Kafka accepts."""

MOST_TAGS = 1_000
"""Tagged fields of one struct; the protocol defines a handful, and each one takes time to pass
over."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))


def read_varint(buffer: bytes, pos: int) -> tuple[int, int]:
    """An unsigned 32-bit varint at `pos` (least significant group first) and the position behind
    it.
    """
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
    """The unsigned varint of a value that is not negative."""
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tag(buffer: bytes, pos: int, end: int, last: int) -> tuple[int, int, int]:
    """Tag, position of its value and position behind it; tags ascend (KIP-482)."""
    tag, pos = read_varint(buffer, pos)
    size, pos = read_varint(buffer, pos)
    if tag <= last:
        raise DecodeError(f"tag {tag} after tag {last}")
    if size > end - pos:
        raise DecodeError(f"tag {tag}: {size} bytes announced, {end - pos} left")
    return tag, pos, pos + size


def skip_tags(buffer: bytes, pos: int, end: int) -> int:
    """Pass over a tag buffer of which no tag is known."""
    count, pos = read_varint(buffer, pos)
    if count > MOST_TAGS:
        raise too_many_tags(count)
    last = -1
    for _ in range(count):
        last, _, pos = read_tag(buffer, pos, end, last)
    return pos


def too_many_tags(count: int) -> DecodeError:
    """The error for a tag buffer of more than `MOST_TAGS` tags."""
    return DecodeError(f"{count} tagged fields, and there may be {MOST_TAGS} at most")


def write_tags(tags: Sequence[tuple[int, bytes | None]]) -> bytes:
    """A tag buffer of those tags, ascending, whose value is not None."""
    out = [b""]
    for tag, value in tags:
        if value is not None:
            out += (write_varint(tag), write_varint(len(value)), value)
    out[0] = write_varint(len(out) // 3)
    return b"".join(out)


def not_at_end(message: object, left: int) -> DecodeError:
    """The error for a body that does not fill its range: too long for it, or too short."""
    return LeftOver(message, left) if left > 0 else DecodeError(f"{-left} bytes missing")


def bad_length(field: str, length: int, left: int) -> DecodeError:
    """The error for a length that is null where that is not allowed, negative, or longer than what
    is left.
    """
    return DecodeError(f"{field}: length {length}, {left} bytes left")


def too_long(field: str, length: int) -> DecodeError:
    """The error for a text of more than `LONGEST_TEXT` bytes."""
    return DecodeError(f"{field}: {length} bytes, and text has {LONGEST_TEXT} at most")


def cut_text(text: str) -> str:
    """As much of an error message as a text may have: it may repeat what a client sent."""
    data = text.encode()
    return text if len(data) <= LONGEST_TEXT else data[:LONGEST_TEXT].decode(errors="ignore")
