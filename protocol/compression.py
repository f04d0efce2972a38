"""
The four codecs a record batch may be compressed with, decoding only.

Not a general compression module: batches pass through the server as they came, so nothing here
compresses. Output is bounded: a batch that would unfold beyond the limit is refused, so a small
message cannot fill the memory.
"""

from collections.abc import Callable, Iterator
from mmap import mmap
from typing import Final

import cramjam

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_FIRST_GUESS: Final = 64 * 1024
_GROWTH: Final = 8

_Decoder = Callable[[bytes, bytearray | memoryview], int]

_DECODERS: Final[dict[int, _Decoder]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
"""Those of one piece; snappy's stream of blocks is unfolded here."""


class DecompressionError(Exception):
    """The bytes are not what the codec makes, or unfold to more than the limit."""


def decompress(codec: int, data: bytes, limit: int) -> bytes:
    """
    Unfold `data`, at most `limit` bytes of output. Raises DecompressionError.

    zstd frames of Kafka's producers carry no content size, so the output size is found by trying.
    """
    if codec == SNAPPY:
        return _snappy(data, limit)
    decoder = _decoder(codec)
    size = min(limit, max(_FIRST_GUESS, len(data) * 4))
    while True:
        try:
            return _into(decoder, data, size)
        except DecompressionError:
            if size >= limit:
                raise
        size = min(limit, size * _GROWTH)


def decompress_mapped(codec: int, data: bytes, limit: int) -> memoryview:
    """
    As `decompress`, for large outputs beside an event loop: into memory that is mapped for it, so
    that nothing is cleared or copied, and other threads run meanwhile.
    """
    output = memoryview(mmap(-1, limit))
    if codec != SNAPPY:
        return output[: _decoded(_decoder(codec), data, output)]
    end = 0
    for block in _snappy_blocks(data):
        size = _snappy_size(block, limit - end)
        end += _decoded(cramjam.snappy.decompress_raw_into, block, output[end : end + size])
    return output[:end]


def _decoder(codec: int) -> _Decoder:
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise DecompressionError(f"unknown compression codec {codec}")
    return decoder


def _into(decoder: _Decoder, data: bytes, size: int) -> bytes:
    output = bytearray(size)
    written = _decoded(decoder, data, output)
    return bytes(memoryview(output)[:written])


def _decoded(decoder: _Decoder, data: bytes, output: bytearray | memoryview) -> int:
    """How many bytes of the output are filled."""
    try:
        return decoder(data, output)
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        raise DecompressionError(str(error)) from error


def _snappy(data: bytes, limit: int) -> bytes:
    parts = []
    for block in _snappy_blocks(data):
        parts.append(_into(cramjam.snappy.decompress_raw_into, block, _snappy_size(block, limit)))
        limit -= len(parts[-1])
    return b"".join(parts)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """
    snappy-java's stream: a header, then blocks of int32 length and raw snappy. Without the
    header: one raw block.
    """
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    pos = _XERIAL_HEADER
    while pos < len(data):
        start = pos + 4
        pos = start + int.from_bytes(data[pos:start], "big")
        if pos > len(data):
            raise DecompressionError("a snappy block is cut off")
        yield data[start:pos]


def _snappy_size(block: bytes, limit: int) -> int:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise DecompressionError(str(error)) from error
    if size > limit:
        raise DecompressionError("a snappy block is larger than allowed")
    return size
