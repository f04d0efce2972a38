"""Damaged logins and handshakes, and noise instead of them, fed to what reads them: nothing raises.

    python -m tests.access.fuzz [INPUTS [SEED]]       also: make fuzz ARGS="logins 1000000"

No sockets and no processes: most inputs take some 100 µs. The parts are in `damaged.py`. Exit code
1: something was raised, or logged as an exception; it is printed with the part and its seed.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TextIO, cast

from groupkeeper.observe import logs
from tests.access.damaged import (
    Inputs,
    damaged_certificates,
    damaged_conversations,
    damaged_handshakes,
    damaged_hellos,
    damaged_tokens,
)

INPUTS = 1_000_000
QUIET = frozenset(("login failed", "no TLS", "connection refused", "a client wants SASL"))
"""Events of lines that tell of input. A line with an exception is never one."""

Part = Callable[[Random, Path], Inputs]

PARTS: Mapping[Part, float] = {
    damaged_tokens: 0.55,
    damaged_conversations: 0.26,
    damaged_hellos: 0.12,
    damaged_handshakes: 0.01,
    damaged_certificates: 0.06,
}
"""And their shares of the inputs."""


class Told:
    """A stream for lines that keeps those that should not be there."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def write(self, text: str) -> None:
        for line in text.splitlines():
            fields = json.loads(line)
            is_odd = fields["level"] == "error" or "exception" in fields
            if is_odd or fields["event"] not in QUIET:
                self.wrong.append(line)

    def flush(self) -> None:
        pass


@contextmanager
def quiet() -> Iterator[Told]:
    told = Told()
    logs.configure(cast(TextIO, told))
    try:
        yield told
        assert logs.flush(20)
    finally:
        logs.configure()


async def play(part: Part, count: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """What became of so many inputs, and what was wrong."""
    became, wrong = Counter[str](), list[str]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: wrong.append(repr(context)))
    with quiet() as told:
        try:
            async for words in part(Random(seed), folder):
                became[words] += 1
                if became.total() >= count or wrong:
                    break
        except Exception as error:  # noqa: BLE001  # this is what it is for
            wrong.append(f"{type(error).__name__}: {error}")
    return became, wrong + told.wrong


def main(arguments: list[str]) -> int:
    """0 when nothing was raised."""
    inputs = int(arguments[0]) if arguments else INPUTS
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(1_000_000)
    print(f"{inputs:,} inputs, seed {seed}", flush=True)
    found = 0
    for part, share in PARTS.items():
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="groupkeeper-fuzz-") as folder:
            count = max(1, round(inputs * share))
            became, wrong = asyncio.run(play(part, count, seed, Path(folder)))
        words = ", ".join(f"{count:,} {word}" for word, count in became.most_common())
        seconds = time.monotonic() - begin
        print(f"{part.__name__}: {became.total():,} in {seconds:.0f} s: {words}", flush=True)
        for each in wrong[:5]:
            print(f"FOUND with seed {seed}, after input {became.total()}: {each}")
        found += len(wrong)
    print("nothing was raised" if not found else f"{found} were wrong")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
