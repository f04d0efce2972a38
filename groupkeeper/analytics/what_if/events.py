"""The events of a described history: `restart member=3 at=60s down=20s leave=true`."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from groupkeeper.analytics.what_if.cast import Act, BadHistory, Cast

_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|min|h)")
_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_MEMBERS: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
MOST: Final = 10_000
"""The most members, and repetitions of an event."""


# Any: what a word stands for.
Words = Mapping[str, Any]


def duration(text: str) -> int:
    """Read a time such as 45s, 500ms or 1.5min, in ms. Raises BadHistory."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadHistory(f"{text!r} is no duration such as 45s, 500ms or 20min")
    return round(float(found[1]) * _UNITS[found[2]])


def whole(text: str) -> int:
    """Read a whole number from 1 on. Raises BadHistory."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST and len(text) < 9):
        raise BadHistory(f"{text!r} is no whole number from 1 to {MOST}")
    return int(text)


def _members(text: str) -> range:
    found = _MEMBERS.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if last < first:
        raise BadHistory(f"{text!r} is no member such as 3, and no members such as 0-9")
    return range(first, last + 1)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise BadHistory(f"{text!r} is none of {', '.join(words)}")
        return text

    return read


_KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "member": _members,
    "by": whole,
    "times": whole,
    **dict.fromkeys(("at", "every", "down", "up", "back", "for"), duration),
    "leave": lambda text: _one_of("true", "false")(text) == "true",
    "host": lambda text: _one_of("same", "new")(text) == "new",
}
"""Word -> how its value is read."""


# -- what happens ----------------------------------------------------------------------------------


def _over(words: Words) -> Iterator[tuple[int, int]]:
    """Yield the members of an event, each with its time."""
    for index, number in enumerate(words["member"]):
        yield number, words["at"] + index * words.get("every", 0)


def _restart(words: Words, *, leaves: bool, is_cut_off: bool = False) -> Iterator[Act]:
    back, new_host = words.get("down", words.get("back")), words.get("host", False)
    for number, at_ms in _over(words):
        end = partial(Cast.end, number=number, at_ms=at_ms, leaves=leaves, is_cut_off=is_cut_off)
        yield at_ms, end
        if back is not None:
            again = at_ms + back
            yield again, partial(Cast.start, number=number, at_ms=again, new_host=new_host)


def _crash_loop(words: Words) -> Iterator[Act]:
    period = words["up"] + words["down"]
    for again in range(words["times"]):
        at = words["at"] + again * period
        yield from _restart({**words, "at": at}, leaves=False)


def _scale_up(words: Words) -> Iterator[Act]:
    def start(cast: Cast, at_ms: int) -> None:
        cast.start(cast.next_number(), at_ms)

    for index in range(words["by"]):
        at_ms = words["at"] + index * words.get("every", 0)
        yield at_ms, partial(start, at_ms=at_ms)


def _scale_down(words: Words) -> Iterator[Act]:
    def end(cast: Cast, at_ms: int) -> None:
        cast.end(cast.newest(at_ms), at_ms, leaves=words.get("leave", True))

    for index in range(words["by"]):
        at_ms = words["at"] + index * words.get("every", 0)
        yield at_ms, partial(end, at_ms=at_ms)


def _pause(words: Words) -> Iterator[Act]:
    for number, at_ms in _over(words):
        until_ms = at_ms + words["for"]
        yield at_ms, partial(Cast.pause, number=number, at_ms=at_ms, until_ms=until_ms)


@dataclass(frozen=True, slots=True)
class Verb:
    """A kind of event, the words that it needs, and those that it may have."""

    about: str
    needs: tuple[str, ...]
    may: tuple[str, ...]
    acts: Callable[[Words], Iterator[Act]]


VERBS: Final[Mapping[str, Verb]] = {
    "restart": Verb(
        "stopped and started again; leave=false: killed",
        ("member", "at", "down"),
        ("every", "leave", "host"),
        lambda words: _restart(words, leaves=words.get("leave", True)),
    ),
    "stop": Verb(
        "stopped in an orderly way, for good",
        ("member", "at"),
        ("every", "leave"),
        lambda words: _restart(words, leaves=words.get("leave", True)),
    ),
    "kill": Verb(
        "killed: no LeaveGroup, but its connections are closed",
        ("member", "at"),
        ("every", "back", "host"),
        lambda words: _restart(words, leaves=False),
    ),
    "node-lost": Verb(
        "gone with its node: nobody closes its connections",
        ("member", "at"),
        ("back", "host"),
        lambda words: _restart(words, leaves=False, is_cut_off=True),
    ),
    "crash-loop": Verb(
        "killed again and again", ("member", "at", "times", "up", "down"), ("host",), _crash_loop
    ),
    "pause": Verb("sends nothing for a while", ("member", "at", "for"), ("every",), _pause),
    "scale-up": Verb("newcomers", ("by", "at"), ("every",), _scale_up),
    "scale-down": Verb("the newest leave", ("by", "at"), ("every", "leave"), _scale_down),
}


def acts_of(line: str) -> list[Act]:
    """Return what an event stands for. Raises BadHistory."""
    name, *rest = line.split() or [""]
    verb = VERBS.get(name)
    if verb is None:
        raise BadHistory(f"unknown event {name!r}: it is one of {', '.join(VERBS)}")
    words: dict[str, Any] = {}
    for each in rest:
        key, equals, value = each.partition("=")
        if key not in verb.needs + verb.may or not equals or key in words:
            told = ", ".join(f"{each}=" for each in verb.needs + verb.may)
            raise BadHistory(f"{each!r} is not one of the words of {name}: {told}")
        words[key] = _KINDS[key](value)
    missing = [each for each in verb.needs if each not in words]
    if missing:
        raise BadHistory(f"{name} needs {missing[0]}=")
    return [*verb.acts(words)]
