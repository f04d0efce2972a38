"""Random messages: any class, any version, from a seed; not a judge of right or wrong."""

import random
from collections.abc import Iterator

from groupkeeper.protocol.message import Field, layout_of
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType

RANGES = {"b": 8, "h": 16, "H": 16, "i": 32, "q": 64}
TEXTS = ["", "a", "consumer-1", "größe", "日本語", "x" * 126, "y" * 127, "z" * 128, "w" * 20_000]
BLOBS = [
    b"",
    b"\0",
    bytes(range(40)),
    bytes(126),
    bytes(127),
    bytes(128),
    bytes(16_383),
    bytes(16_384),
]

BOUNDARIES = [
    "",
    "a",
    "x" * 32_766,
    "y" * 32_767,
    "é" * 16_383,
    "日" * 10_922,
    "\N{GRINNING FACE}" * 8_191,
]
"""Texts at the ends of what may be sent, also in bytes that are more than the letters."""

STYLES = ("plain", "nulls", "empty", "tagged", "long")


def all_cases() -> Iterator[tuple[type, int]]:
    """Every message class of the registry in every version it can be compiled for."""
    for api in APIS.values():
        for cls in (api.request_type, api.response_type):
            oldest, newest = layout_of(cls).versions
            for version in range(oldest, newest + 1):
                yield cls, version


def random_message(cls: type, version: int, style: str, seed: int = 0) -> object:
    """A message in which every field that the version carries is set, in one of the styles.

    "extreme", which is not in `STYLES`: every number and text at an end of its range.
    """
    layout = layout_of(cls)
    maker = _Maker(random.Random(f"{layout.name} {version} {style} {seed}"), version, style)
    return maker.struct(cls)


class _Maker:
    def __init__(self, rng: random.Random, version: int, style: str) -> None:
        self.rng = rng
        self.version = version
        self.style = style

    def struct(self, cls: type, depth: int = 0) -> object:
        values = {
            field.name: self.field(field, depth)
            for field in layout_of(cls).fields
            if field.in_version(self.version) and (field.tag is None or self.style == "tagged")
        }
        return cls(**values)

    def field(self, field: Field, depth: int) -> object:
        if field.nullable_in(self.version) and self.style == "nulls":
            return None
        return self.value(field.type, depth)

    def value(self, kind: WireType, depth: int) -> object:
        rng, empty = self.rng, self.style == "empty"
        match kind:
            case Fixed(code="?"):
                return rng.random() < 0.5
            case Fixed(code="16s"):
                return rng.randbytes(16)
            case Fixed():
                return self.integer(kind.code)
            case Sized(is_text=True) if self.style == "extreme":
                return rng.choice(BOUNDARIES)
            case Sized(is_text=True):
                return "" if empty else rng.choice(TEXTS if self.style == "long" else TEXTS[:5])
            case Sized():
                return b"" if empty else rng.choice(BLOBS if self.style == "long" else BLOBS[:3])
            case ArrayOf():
                return [self.value(kind.item, depth + 1) for _ in range(self.count(depth))]
            case StructOf():
                return self.struct(kind.cls, depth)

    def integer(self, code: str) -> float:
        if code == "d":
            return self.rng.randint(-4, 4) / 4
        bits = RANGES[code]
        low = 0 if code == "H" else -(1 << (bits - 1))
        high = low + (1 << bits) - 1
        if self.style == "extreme":
            return self.rng.choice([low, low + 1, -1, 0, 1, high - 1, high])
        return self.rng.choice([low, high, 0, 1, 127, self.rng.randint(low, high)])

    def count(self, depth: int) -> int:
        if self.style == "empty":
            return 0
        if self.style == "long" and depth == 0:
            return self.rng.choice([2, 130])
        return self.rng.randint(1, 3)
