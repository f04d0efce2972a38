"""Compiles decoders and encoders of message classes, on first use, and caches them.

The generated source is in `function.__source__` and appears in tracebacks.
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
    """`decode(buffer, pos, end) -> message`, which raises DecodeError unless the bytes from `pos`
    to `end` are exactly one body.

    ValueError if the class has no such version.
    """
    source = _source(cls, version, "decode")
    return source.compile(write_decoder(source, cls, version))


@cache
def sliced_decoder(cls: type, version: int) -> SlicedDecoder:
    """As `decoder`, but a generator that yields between slices and returns the message."""
    source = _source(cls, version, "decode in slices")
    return source.compile(write_decoder(source, cls, version, sliced=True))


@cache
def encoder(cls: type, version: int, framing: Framing) -> Encoder:
    """`encode(message) -> bytes`, with a second argument where the framing needs one.

    The encoder raises TypeError for a value that cannot be encoded; the traceback has the generated
    line with its field.
    """
    source = _source(cls, version, f"encode {framing.name.lower()}")
    return source.compile(write_encoder(source, cls, version, framing))


@cache
def sliced_encoder(cls: type, version: int) -> SlicedEncoder:
    """`encode(response, correlation_id)`: a generator of the frame's bytes after the size.

    Raises as `encoder` does.
    """
    source = _source(cls, version, "encode in slices")
    return source.compile(write_encoder(source, cls, version, Framing.SLICED_RESPONSE))


def _source(cls: type, version: int, purpose: str) -> Source:
    layout = layout_of(cls)
    oldest, newest = layout.versions
    if not oldest <= version <= newest:
        raise ValueError(f"{layout.name} has versions {oldest} to {newest}, not {version}")
    return Source(f"<{layout.name} v{version} {purpose}>")
