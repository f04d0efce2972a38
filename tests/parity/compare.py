"""Whether what happened is what is written: line by line, times within a tolerance."""

import difflib
import re

TOLERANCE_S = 0.5

_TIME = re.compile(r" \((\d+\.\d)s\):")


def same(expected: list[str], played: list[str]) -> bool:
    if len(expected) != len(played):
        return False
    return all(map(_same_line, expected, played))


def _same_line(expected: str, played: str) -> bool:
    wanted, seen = _TIME.search(expected), _TIME.search(played)
    if wanted is None or seen is None:
        return expected == played
    near = abs(float(wanted[1]) - float(seen[1])) <= TOLERANCE_S
    return near and _TIME.sub(":", expected) == _TIME.sub(":", played)


def difference(
    commands: list[str], expected: list[list[str]], played: list[list[str]]
) -> list[str]:
    """The commands that led to something else, each with both texts; empty when all is the same."""
    lines: list[str] = []
    for command, wanted, seen in zip(commands, expected, played, strict=True):
        if not same(wanted, seen):
            lines.append(f"  > {command}")
            lines += [f"    {line}" for line in difflib.ndiff(wanted, seen) if line[0] != "?"]
    return lines
