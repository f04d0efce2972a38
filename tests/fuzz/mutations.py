"""Bytes that are nearly Kafka's protocol, and bytes that are not. Whether they hurt is not known
here.
"""

from collections.abc import Sequence
from random import Random

EXTREMES = [
    *(b"\0", b"\1", b"\x7f", b"\x80", b"\xff"),
    *(b"\0\0", b"\x7f\xff", b"\x80\0", b"\xff\xff"),
    *(b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe"),
    *(b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7, b"\xff" * 8),
    *(b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff" * 10, b"\x80" * 10),
]
"""Lengths, counts, indexes and varints (KIP-482) at the ends of their ranges and beyond."""

LARGEST = 1 << 16


def mutated(chance: Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """The frame with one to four things wrong; its size is put right, most of the time."""
    body = bytearray(frame[4:])
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        chance.choice(MUTATIONS)(chance, body, others)
        del body[LARGEST:]
    if chance.random() < 0.06:
        return frame[:4] + bytes(body)
    if chance.random() < 0.03:
        return chance.choice([part for part in EXTREMES if len(part) == 4]) + bytes(body)
    return len(body).to_bytes(4, "big") + bytes(body)


def random_bytes(chance: Random, keys: Sequence[int]) -> bytes:
    """Noise: all of it, or behind a size, or behind a header."""
    noise = chance.randbytes(chance.choice([1, 3, 10, 40, 400]))
    match chance.randrange(3):
        case 0:
            return noise
        case 1:
            return len(noise).to_bytes(4, "big") + noise
    header = chance.choice(keys).to_bytes(2, "big") + chance.randrange(13).to_bytes(2, "big")
    body = header + chance.randbytes(4) + b"\0\1c" + chance.choice([b"", b"\0"]) + noise
    return len(body).to_bytes(4, "big") + body


def _flip(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    if body:
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def _cut(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    at = chance.randrange(len(body) + 1)
    del body[at : at + chance.choice([1, 1, 2, 4, 30, len(body)])]


def _insert(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    at = chance.randrange(len(body) + 1)
    body[at:at] = chance.randbytes(chance.choice([1, 1, 2, 4, 30]))


def _repeat(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    at = chance.randrange(len(body) + 1)
    part = body[at : at + chance.choice([1, 4, 30])]
    body[at:at] = part * chance.choice([1, 1, 3, 500])


def _extreme(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    """A length, most likely, that is no length."""
    value = chance.choice(EXTREMES)
    at = chance.randrange(len(body) + 1)
    keep = chance.choice([0, 1, len(value), len(value)])
    body[at : at + keep] = value


def _splice(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    """The end of another frame, or a piece of it in the middle."""
    if not others:
        return
    other = chance.choice(others)[4:]
    at, start = chance.randrange(len(body) + 1), chance.randrange(len(other) + 1)
    if chance.random() < 0.5:
        body[at:] = other[start:]
    else:
        stop = start + chance.choice([2, 8, 40])
        body[at : at + (stop - start)] = other[start:stop]


def _header(chance: Random, body: bytearray, others: Sequence[bytes]) -> None:
    """Another API, version, correlation id or client id."""
    if len(body) < 10:
        return
    match chance.randrange(4):
        case 0:
            body[1] = chance.randrange(80)
        case 1:
            body[2:4] = chance.choice([b"\0\0", b"\0\x0d", b"\x7f\xff", b"\xff\xff", b"\0\1"])
        case 2:
            body[4:8] = chance.choice([b"\xff" * 4, b"\x80\0\0\0", chance.randbytes(4)])
        case _:
            body[8:10] = chance.choice([b"\xff\xff", b"\0\0", b"\x7f\xff", b"\xff\xfe"])


MUTATIONS = [_flip, _flip, _cut, _insert, _repeat, _extreme, _extreme, _splice, _splice, _header]
