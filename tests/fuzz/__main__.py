"""Fuzz the whole server in memory, one epoch after another, until something happens.

python -m tests.fuzz [SECONDS [SEED [OPERATION,OPERATION...]]]

With 0 seconds it is one epoch. A finding is printed with the command that shows it again.

python -m tests.fuzz logins [INPUTS [SEED]]

is a run of its own, of logins and TLS handshakes: tests/access/fuzz.py.
"""

import gc
import random
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tests.fuzz.epoch import Epoch, Figures, Size, compile_codecs
from tests.fuzz.shrink import outcome, shrink

SHRINK_SECONDS = 90.0
LINE_EVERY_S = 20.0
WARM_UP_EPOCHS = 20
GROWTH = 1.05
"""How much more there may be after all epochs than after the first ones."""


def rss_kib() -> int:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


class Run:
    """Epochs until the time is over."""

    def __init__(self, seconds: float, seed: int) -> None:
        self._until = time.monotonic() + seconds
        self._seed = seed
        self._total = Figures()
        self._epochs = 0
        self._blocks: list[int] = []
        self._rss: list[int] = []
        self._said = time.monotonic()

    def __call__(self) -> int:
        for seed in self._seeds():
            epoch = Epoch(seed)
            try:
                figures = epoch.run()
            except Exception as found:  # noqa: BLE001  # this is what it is for
                report(seed, epoch.operation, found)
                return 1
            self._add(figures, seed)
        print(self.words())
        if self._grew():
            print(f"memory grew: blocks {self._blocks}, KiB {self._rss}")
            return 1
        return 0

    def _seeds(self) -> Iterator[int]:
        yield self._seed
        for seed in count(self._seed + 1):
            if time.monotonic() >= self._until:
                return
            yield seed

    def _add(self, figures: Figures, seed: int) -> None:
        total = self._total
        for name in ("operations", "frames", "damaged", "answers", "starts", "faults", "rounds"):
            setattr(total, name, getattr(total, name) + getattr(figures, name))
        total.actions += figures.actions
        total.slowest = max(total.slowest, figures.slowest)
        self._epochs += 1
        gc.collect()
        self._blocks.append(sys.getallocatedblocks())
        self._rss.append(rss_kib())
        if time.monotonic() - self._said > LINE_EVERY_S:
            self._said = time.monotonic()
            print(f"seed {seed}: {self.words()}", flush=True)

    def _grew(self) -> bool:
        late = len(self._blocks) > 2 * WARM_UP_EPOCHS
        return any(
            late and min(values[-5:]) > GROWTH * max(values[:WARM_UP_EPOCHS])
            for values in (self._blocks, self._rss)
        )

    def words(self) -> str:
        """The figures, and memory after the first, the warm-up's last and the last epoch."""
        total, warm = self._total, min(WARM_UP_EPOCHS, len(self._rss)) - 1
        memory = [f"{self._rss[at] // 1024}" for at in (0, warm, -1)] if self._rss else []
        return (
            f"{self._epochs} epochs, {total.rounds} rounds, {total.operations} operations, "
            f"{total.frames} frames, {total.damaged} damaged, {total.answers} answers, "
            f"{total.starts} starts, {total.faults} disk faults, "
            f"RSS {' -> '.join(memory)} MiB, blocks {self._blocks[warm]} -> {self._blocks[-1]}, "
            f"slowest {total.slowest[0] * 1000:.0f} ms"
        )


def report(seed: int, operation: int, found: Exception) -> None:
    """The finding, and the fewest operations that show it."""
    print(
        f"FOUND with seed {seed}, in operation {operation}: {type(found).__name__}\n{found}",
        flush=True,
    )
    size = Size()
    name, _, operation = outcome(seed, size)
    if not name:
        print("it is not found again in an epoch of its own")
        return
    numbers = shrink(
        lambda kept: outcome(seed, size, set(kept))[0] == name,
        list(range(operation + 1)),
        SHRINK_SECONDS,
    )
    kept = ",".join(map(str, numbers))
    print(f"{len(numbers)} operations are enough:\n  python -m tests.fuzz 0 {seed} {kept}")


def main(arguments: list[str]) -> int:
    """0 when every promise held."""
    if arguments[:1] == ["logins"]:
        from tests.access import fuzz  # needs the extras of security

        return fuzz.main(arguments[1:])
    warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # of processes killed
    seconds = float(arguments[0]) if arguments else 60.0
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(1_000_000) * 1_000
    compile_codecs()
    if len(arguments) > 2:
        kept = {int(each) for each in arguments[2].split(",")}
        _, text, _ = outcome(seed, Size(), kept)
        print(text or "every promise held")
        return bool(text)
    print(f"seed {seed}, {seconds:.0f} s", flush=True)
    return Run(seconds, seed)()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
