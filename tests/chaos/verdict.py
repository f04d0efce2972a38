"""Whether what an attack did is within its limits, and the row that says so."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.chaos.target import Attack, Limits
from tests.chaos.trial import Figures

STOP_SECONDS = 10.0
LOG_SECONDS = 10.0
HOPELESS_MS = 200.0
"""A stall that no bad moment of the machine explains: it is not measured again."""
COLUMNS = ("attack", "tries", "idle", "stall ms", "> 20 ms", "CPU s", "MiB", "log", "verdict")
RIGHT = frozenset(COLUMNS[1:-1])


class Fault(NamedTuple):
    """A limit that was broken."""

    words: str
    by_chance: bool = False
    """A busy machine can be the reason."""


def faults(attack: Attack, figures: Figures) -> list[Fault]:
    """What was wrong; empty is good."""
    if figures.dead:
        return [Fault(figures.dead)]
    found = [Fault(error) for error in dict.fromkeys(figures.errors)]
    if figures.complaint:
        found.append(Fault(figures.complaint))
    if figures.unready:
        found.append(Fault(figures.unready, by_chance=True))
    found += _late(attack.limits, figures)
    found += _too_much(attack.limits, figures)
    if figures.stop_code != 0 or figures.stop_s > STOP_SECONDS:
        ended = "had to be killed" if figures.stop_code is None else f"exit {figures.stop_code}"
        found.append(Fault(f"stop: {ended} after {figures.stop_s:.0f} s", by_chance=True))
    return found


def _late(limits: Limits, figures: Figures) -> Iterator[Fault]:
    own = figures.stall_ms - figures.waited_ms
    if own > limits.stall_ms:
        words = f"stall {figures.stall_ms:.0f} ms"
        if figures.waited_ms > limits.stall_ms / 5:
            words += f", {figures.waited_ms:.0f} of them without a core"
        yield Fault(words, by_chance=own < max(HOPELESS_MS, 3 * limits.stall_ms))
    if figures.stalls and limits.stall_ms <= Limits.stall_ms:
        yield Fault(f"{figures.stalls} iterations over 50 ms", by_chance=True)


def _too_much(limits: Limits, figures: Figures) -> Iterator[Fault]:
    grown = figures.peak_mib - figures.before_mib
    if grown > limits.growth_mib:
        yield Fault(f"memory +{grown:.0f} MiB, allowed {limits.growth_mib:.0f}")
    kept = figures.after_mib - figures.before_mib
    if kept > limits.kept_mib:
        yield Fault(f"keeps {kept:.0f} MiB, allowed {limits.kept_mib:.0f}")
    lines = limits.log_lines * (1 + figures.seconds / LOG_SECONDS)
    if figures.log_lines > lines:
        yield Fault(f"{figures.log_lines} log lines, allowed {lines:.0f}")
    if figures.tracebacks:
        yield Fault(f"{figures.tracebacks} tracebacks in the log")


def may_be_chance(found: Sequence[Fault]) -> bool:
    """Whether to try again: everything that was wrong can be the machine's doing."""
    return bool(found) and all(fault.by_chance for fault in found)


def better(attack: Attack, one: Figures, other: Figures) -> Figures:
    """The one that counts of two tries."""
    ours, theirs = faults(attack, one), faults(attack, other)
    if len(ours) != len(theirs):
        return one if len(ours) < len(theirs) else other
    return one if one.stall_ms <= other.stall_ms else other


def row(attack: Attack, figures: Figures) -> list[str]:
    """One cell per column."""
    found = faults(attack, figures)
    said = "good" if not found else "BAD: " + "; ".join(fault.words for fault in found)
    if figures.words:
        said += f" ({figures.words})"
    memory = f"{figures.before_mib:.0f} {figures.peak_mib:.0f} {figures.after_mib:.0f}"
    return [
        attack.name,
        str(figures.tries),
        f"{figures.idle_ms:.0f}",
        f"{figures.stall_ms:.0f}",
        "-" if figures.iterations is None else str(figures.iterations),
        f"{figures.cpu_s:.2f}",
        memory,
        str(figures.log_lines),
        said.splitlines()[0],
    ]
