"""Compresses and decompresses record batches in Kafka's four codecs.

The server stores and sends batches as producers compressed them; only a compaction compresses, the
batches that it rewrites. The output of decompression is bounded: a batch that would exceed the
limit is refused, so that a small request cannot exhaust memory.

Source: Kafka's `CompressionType` and `SnappyCompression`, KIP-57 (LZ4), KIP-110 (zstd).
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from mmap import mmap
from types import ModuleType
from typing import Final

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_XERIAL_VERSIONS: Final = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK: Final = 32 * 1024
_LZ4_LEVEL: Final = 9
_ZSTD_LEVEL: Final = 3
"""Block size and levels are Kafka's defaults."""
_FIRST_GUESS: Final = 64 * 1024
_GROWTH: Final = 8

_DECODERS: Final = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_Decoder = Callable[[bytes, bytearray | memoryview], int]


class DecompressionError(Exception):
    """The bytes are not valid for the codec, or decompress to more than the limit."""


@cache
def codecs() -> ModuleType:
    """Import the library, with the first call: 2 MiB that many servers do without."""
    import cramjam

    return cramjam


def has_codecs() -> bool:
    """Whether the library is imported. If not, the next call of `codecs` reads its file."""
    return "cramjam" in sys.modules


def compress(codec: int, data: bytes) -> bytes:
    """Compress `data` so that Kafka's clients can read it. Raises ValueError for another codec."""
    if codec == GZIP:
        return bytes(codecs().gzip.compress(data))
    if codec == SNAPPY:
        return _to_snappy(data)
    if codec == LZ4:
        # Java's client does not read blocks that depend on those before them.
        compressor = codecs().lz4.Compressor(
            level=_LZ4_LEVEL, content_checksum=False, block_linked=False
        )
        compressor.compress(data)
        return bytes(compressor.finish())
    if codec == ZSTD:
        return bytes(codecs().zstd.compress(data, level=_ZSTD_LEVEL))
    raise ValueError(f"unknown compression codec {codec}")


def _to_snappy(data: bytes) -> bytes:
    """Compress as snappy-java does: a header, then blocks, each after its int32 length."""
    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for pos in range(0, len(data), _SNAPPY_BLOCK):
        block = bytes(codecs().snappy.compress_raw(data[pos : pos + _SNAPPY_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def decompress(codec: int, data: bytes, limit: int) -> bytes:
    """Decompress `data` to at most `limit` bytes. Raises DecompressionError.

    zstd frames of Kafka's producers carry no content size, so growing output sizes are tried.
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
    """As `decompress`, for large outputs in a thread: into newly mapped memory, which is neither
    cleared nor copied, so that the event loop runs meanwhile.
    """
    output = memoryview(mmap(-1, limit))
    if codec != SNAPPY:
        return output[: _decoded(_decoder(codec), data, output)]
    end = 0
    for block in _snappy_blocks(data):
        size = _snappy_size(block, limit - end)
        end += _decoded(codecs().snappy.decompress_raw_into, block, output[end : end + size])
    return output[:end]


def _decoder(codec: int) -> _Decoder:
    """Return the decoder of any codec but snappy, whose blocks are decompressed one by one."""
    name = _DECODERS.get(codec)
    if name is None:
        raise DecompressionError(f"unknown compression codec {codec}")
    decoder: _Decoder = getattr(codecs(), name).decompress_into
    return decoder


def _into(decoder: _Decoder, data: bytes, size: int) -> bytes:
    output = bytearray(size)
    written = _decoded(decoder, data, output)
    return bytes(memoryview(output)[:written])


def _decoded(decoder: _Decoder, data: bytes, output: bytearray | memoryview) -> int:
    """Decompress into `output`; return the number of bytes written."""
    try:
        return decoder(data, output)
    except (codecs().DecompressionError, OSError, ValueError) as error:
        raise DecompressionError(str(error)) from error


def _snappy(data: bytes, limit: int) -> bytes:
    parts = []
    for block in _snappy_blocks(data):
        parts.append(_into(codecs().snappy.decompress_raw_into, block, _snappy_size(block, limit)))
        limit -= len(parts[-1])
    return b"".join(parts)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """Return the raw blocks of snappy-java's stream: a header, then blocks, each after its int32
    length. Data without that header is one raw block.
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
        size: int = codecs().snappy.decompress_raw_len(block)
    except codecs().DecompressionError as error:
        raise DecompressionError(str(error)) from error
    if size > limit:
        raise DecompressionError("a snappy block is larger than allowed")
    return size
