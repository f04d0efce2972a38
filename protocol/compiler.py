"""Compiles message classes: one decoder and one encoder per class, version and framing, made on
first use and kept.

The generated text can be read at `function.__source__` and appears in tracebacks.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from groupkeeper.protocol.compile_decode import write_decoder
from groupkeeper.protocol.compile_encode import Framing, write_encoder
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.source import Source

# Any: a decoder returns the class it was made for, which no type can say here.
Decoder = Callable[[bytes, int, int], Any]
Encoder = Callable[..., bytes]
SlicedDecoder = Callable[[bytes, int, int], Generator[None, None, Any]]
SlicedEncoder = Callable[..., Generator[bytes, None, None]]


@cache
def decoder(cls: type, version: int) -> Decoder:
    """`decode(buffer, pos, end) -> message`: the body that fills the range exactly, or DecodeError.

    ValueError if the class has no such version.
    """
    source = _source(cls, version, "decode")
    return source.compile(write_decoder(source, cls, version))


@cache
def sliced_decoder(cls: type, version: int) -> SlicedDecoder:
    """As :func:`decoder`, as a generator that yields now and then and returns the message."""
    source = _source(cls, version, "decode in slices")
    return source.compile(write_decoder(source, cls, version, sliced=True))


@cache
def encoder(cls: type, version: int, framing: Framing) -> Encoder:
    """`encode(message, *what the framing needs) -> bytes`.

    The encoder raises TypeError or ValueError, naming the field, for a value that cannot be
    written.
    """
    source = _source(cls, version, f"encode {framing.name.lower()}")
    return source.compile(write_encoder(source, cls, version, framing))


@cache
def sliced_encoder(cls: type, version: int) -> SlicedEncoder:
    """`encode(response, correlation_id)`: a generator of the frame's bytes behind the size.

    Raises as :func:`encoder`.
    """
    source = _source(cls, version, "encode in slices")
    return source.compile(write_encoder(source, cls, version, Framing.SLICED_RESPONSE))


def _source(cls: type, version: int, purpose: str) -> Source:
    layout = layout_of(cls)
    oldest, newest = layout.versions
    if not oldest <= version <= newest:
        raise ValueError(f"{layout.name} has versions {oldest} to {newest}, not {version}")
    return Source(f"<{layout.name} v{version} {purpose}>")
