"""The hot loop: requests as fast as the server answers them, or at a given rate; every answer is
checked byte for byte.

This half builds loadgen.c at first use, hands over sockets and ready-made frames, and reads the
figures back. A loop in Python would need about as long per request as the responder that it is to
measure, so it would measure itself.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from benchmarks import wire

SOURCE = Path(__file__).with_name("loadgen.c")
BUCKETS = 500_000  # microseconds that the histogram tells apart
MAX_DEPTH = 64
_KEPT = 256


class NoCompilerError(Exception):
    """There is no C compiler to build the hot loop with."""


class _Connection(ctypes.Structure):
    _fields_ = (
        ("fd", ctypes.c_int32),
        ("frame_bytes", ctypes.c_int32),
        ("first_offset_at", ctypes.c_int32),
        ("correlation_id", ctypes.c_int32),
        ("frame", ctypes.c_char_p),
        ("waiting", ctypes.c_int32),
        ("partial_bytes", ctypes.c_int32),
        ("due", ctypes.c_int64),
        ("sent_at", ctypes.c_int64 * MAX_DEPTH),
        ("partial", ctypes.c_uint8 * (_KEPT * 16)),
    )


class _Load(ctypes.Structure):
    _fields_ = (
        ("connections", ctypes.POINTER(_Connection)),
        ("count", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        ("offsets", ctypes.c_int32),
        ("offset_stride", ctypes.c_int32),
        ("expected", ctypes.c_char_p),
        ("expected_bytes", ctypes.c_int32),
        ("buckets", ctypes.c_int32),
        ("histogram", ctypes.POINTER(ctypes.c_uint32)),
        ("duration_ns", ctypes.c_int64),
        ("interval_ns", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("answered", ctypes.c_int64),
        ("took_ns", ctypes.c_int64),
        ("failed_connection", ctypes.c_int32),
        ("wrong_bytes", ctypes.c_int32),
        ("wrong", ctypes.c_uint8 * _KEPT),
    )


_FAILURES = {
    1: "the server closed a connection",
    2: "a request did not fit the socket's buffer",
    3: "an answer is not the expected one",
    4: "requests were left unanswered for 10 s",
    5: "epoll refused",
}


@dataclass(slots=True)
class Outcome:
    """What one run saw. `latency_us` counts answers by whole microseconds, the last bucket taking
    all slower ones.
    """

    answered: int
    seconds: float
    latency_us: Sequence[int]

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds

    def quantile_us(self, share: float) -> int:
        return quantile(self.latency_us, share)


def quantile(histogram: Sequence[int], share: float) -> int:
    """The smallest bucket with at least that share of all counts at or below it; 0 for an empty
    histogram.
    """
    sums = list(accumulate(histogram))
    wanted = share * sums[-1]
    return next(bucket for bucket, below in enumerate(sums) if below >= wanted)


def cache_folder() -> Path:
    """Where things are kept that are built or fetched once."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "groupkeeper-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _library() -> ctypes.CDLL:
    """loadgen.c as a shared library, built anew when its source has changed."""
    source = SOURCE.read_bytes()
    built = cache_folder() / f"loadgen-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if not built.exists():
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if compiler is None:
            raise NoCompilerError(
                "the load generator needs a C compiler: install cc, or name one in CC"
            )
        new = built.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(new), str(SOURCE)]
        subprocess.run(command, check=True)
        new.replace(built)
    return ctypes.CDLL(str(built))


class HotLoop:
    """Connections that repeat one kind of request. Correlation ids, and so committed offsets, go on
    from run to run.

    `requests`: one per file descriptor, all with an answer of the same bytes; `offsets`: so many
    committed offsets at the end of each request, 0 for other requests.
    """

    def __init__(
        self,
        fds: Sequence[int],
        requests: Sequence[wire.Request],
        expected: bytes,
        offsets: int = 0,
    ) -> None:
        self._call = _library().run_load
        self._expected = expected
        self._offsets = offsets
        self._connections = (_Connection * len(fds))()
        self._frames = []  # keeps the buffers alive that C writes into
        for slot, fd, request in zip(self._connections, fds, requests, strict=True):
            frame = wire.frame(request, 0)
            buffer = ctypes.create_string_buffer(frame, len(frame))
            self._frames.append(buffer)
            slot.fd, slot.frame_bytes = fd, len(frame)
            slot.frame = ctypes.cast(buffer, ctypes.c_char_p)
            first = len(frame) - 2 - offsets * wire.COMMITTED_BYTES
            slot.first_offset_at = first + wire.OFFSET_AT

    def run(self, seconds: float, depth: int = 1, limit: int = 0, rate: float = 0.0) -> Outcome:
        """Keeps `depth` requests in flight per connection until the time is up or `limit` have been
        sent. With a `rate` (requests a second, of all connections together), each connection sends
        a request when one is due, late if the answer before it is; latency counts from then.

        Returns when all are answered. Any answer but the expected one raises WrongAnswerError.
        """
        histogram = (ctypes.c_uint32 * BUCKETS)()
        load = _Load(
            connections=self._connections,
            count=len(self._connections),
            depth=depth,
            offsets=self._offsets,
            offset_stride=wire.COMMITTED_BYTES,
            expected=self._expected,
            expected_bytes=len(self._expected),
            buckets=BUCKETS,
            histogram=histogram,
            duration_ns=int(seconds * 1e9),
            interval_ns=int(len(self._connections) / rate * 1e9) if rate else 0,
            limit=limit,
        )
        failed = self._call(ctypes.byref(load))
        if failed:
            wrong = bytes(load.wrong[: load.wrong_bytes]).hex()
            where = f"connection {load.failed_connection}"
            raise wire.WrongAnswerError(
                f"{_FAILURES[failed]} ({where}{', got ' + wrong if wrong else ''})"
            )
        return Outcome(load.answered, load.took_ns / 1e9, list(histogram))

    def last_ids(self) -> list[int]:
        """The correlation id of the last request of every connection: its last commit."""
        return [connection.correlation_id for connection in self._connections]
