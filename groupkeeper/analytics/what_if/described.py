"""Histories that one describes in a file, to replay them under several designs: members, timeouts,
and what happens to whom.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from groupkeeper.analytics.what_if.behaviour import Behaviour
from groupkeeper.analytics.what_if.cast import Act, BadHistory, Cast, Timing, begin
from groupkeeper.analytics.what_if.events import acts_of, duration, whole
from groupkeeper.analytics.what_if.lives import Life
from groupkeeper.coordinator.policy import LEFT, LOST, MATCHES, MAX_GRACE_MS, SeatMatch, words_of

MOST_PARTITIONS: Final = 100_000
BUILT_IN: Final = (
    "rolling-leave",
    "rolling-killed",
    "killed-back",
    "node-back-30s",
    "node-back-75s",
    "node-elsewhere",
    "node-lost",
    "scale-up",
    "scale-down",
    "crash-loop",
)
"""Names of the histories that come with the program."""
_FOLDER: Final = files("groupkeeper.analytics.what_if") / "histories"


@dataclass(frozen=True, slots=True)
class History:
    """Events that are the same under each design; times are milliseconds from the beginning."""

    name: str
    title: str
    members: int
    """In the beginning."""
    largest: int
    """The most members that ran at a time."""
    lives: tuple[Life, ...]
    behaviour: Behaviour
    timing: Timing
    grace_ms: int
    reserve_on: frozenset[str]
    seat_match: SeatMatch
    window_ms: int
    spares: int
    step: int
    step_interval_ms: int


# -- keys ------------------------------------------------------------------------------------------


def _partitions(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_PARTITIONS):
        raise BadHistory(f"{text!r} is no whole number from 1 to {MOST_PARTITIONS}")
    return int(text)


def _protocol(text: str) -> bool:
    if text not in ("eager", "cooperative"):
        raise BadHistory(f"{text!r} is neither eager nor cooperative")
    return text == "cooperative"


def _beats(text: str) -> bool:
    if text not in ("apart", "together"):
        raise BadHistory(f"{text!r} is neither apart nor together")
    return text == "together"


def _positive(text: str) -> int:
    if not (found := duration(text)):
        raise BadHistory("must be more than 0")
    return found


def _grace(text: str) -> int:
    if (found := _positive(text)) > MAX_GRACE_MS:
        raise BadHistory(f"{text} is more than {MAX_GRACE_MS // 60_000}min")
    return found


def _reserve(text: str) -> frozenset[str]:
    found = words_of(text)
    if not found or found - {LOST, LEFT}:
        raise BadHistory(f"{text!r} is not {LOST}, {LEFT} or both with a comma between")
    return found


def _match(text: str) -> SeatMatch:
    for each in MATCHES:
        if words_of(each) == words_of(text):
            return each
    raise BadHistory(f"{text!r} is none of {', '.join(map(repr, MATCHES))}")


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """A key of a file."""

    about: str
    read: Callable[[str], Any]
    default: str | None = None
    """None: it has to be there."""


KEYS: Final[Mapping[str, HistoryKey]] = {
    "title": HistoryKey("What it is, in a line.", str, ""),
    "members": HistoryKey("Members in the beginning; they have numbers, from 0.", whole),
    "partitions": HistoryKey("Partitions that they share.", _partitions),
    "protocol": HistoryKey(
        "`eager` or `cooperative`, for designs that do not say.", _protocol, "eager"
    ),
    "session": HistoryKey("`session.timeout.ms`.", _positive, "45s"),
    "heartbeat": HistoryKey("`heartbeat.interval.ms`.", _positive, "3s"),
    "beats": HistoryKey("Heartbeats after a rebalance: `apart`, or `together`.", _beats, "apart"),
    "rebalance_timeout": HistoryKey("`max.poll.interval.ms`.", _positive, "5min"),
    "rejoin": HistoryKey(
        "From the heartbeat that shows a rebalance to the next poll.", duration, "0ms"
    ),
    "initial_delay": HistoryKey("`group.initial.rebalance.delay.ms`.", duration, "3s"),
    "lasts": HistoryKey("Length of the history.", _positive, "20min"),
    "grace": HistoryKey(
        "`classic.scheduled.rebalance.max.delay.ms`, for Design II.", _grace, "60s"
    ),
    "reserve": HistoryKey("`classic.reserve.on`, for Design II.", _reserve, "lost,left"),
    "match": HistoryKey("`classic.seat.match`, for Design II.", _match, "client.id,host"),
    "window": HistoryKey("`classic.scale.up.window.ms`, for the window.", _grace, "10s"),
    "spares": HistoryKey("Members that stand by, for hot standby.", whole, "1"),
    "step": HistoryKey("`classic.rebalance.step.partitions`, for Design III.", whole, "5"),
    "step_interval": HistoryKey(
        "`classic.rebalance.step.interval.ms`, for Design III.", _grace, "1s"
    ),
}
"""The keys besides `events`, in the order of the help."""
EVENTS: Final = "events"


# -- files -----------------------------------------------------------------------------------------


def text_of(name: str) -> str:
    """Return the file of a history that comes with the program; KeyError if there is none."""
    if name not in BUILT_IN:
        raise KeyError(name)
    return (_FOLDER / f"{name}.toml").read_text("utf-8")


def read_history(name: str, text: str, changed: Mapping[str, str] | None = None) -> History:
    """Read a history. `changed`: keys with other values than in the text. Raises BadHistory."""
    try:
        given: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadHistory(f"no TOML: {error}") from None
    given |= changed or {}
    for key in given:
        if key not in KEYS and key != EVENTS:
            raise BadHistory(f"unknown key {key!r}: it is one of {', '.join([*KEYS, EVENTS])}")
    values = {key: _value(key, given.get(key)) for key in KEYS}
    timing = Timing(
        values["session"], values["heartbeat"], values["rebalance_timeout"], values["lasts"]
    )
    if timing.heartbeat_ms >= timing.session_ms:
        raise BadHistory("heartbeat must be shorter than session")
    cast = Cast(timing)
    _play(cast, values["members"], _acts(given.get(EVENTS, []), timing.lasts_ms))
    return History(
        name=name,
        title=values["title"] or name,
        members=values["members"],
        largest=cast.largest,
        lives=tuple(cast.lives),
        behaviour=Behaviour(
            heartbeat_ms=timing.heartbeat_ms,
            rejoin_ms=values["rejoin"],
            partitions=values["partitions"],
            initial_delay_ms=values["initial_delay"],
            is_cooperative=values["protocol"],
            beats_anew=values["beats"],
            begins_long_ago=True,
        ),
        timing=timing,
        grace_ms=values["grace"],
        reserve_on=values["reserve"],
        seat_match=values["match"],
        window_ms=values["window"],
        spares=values["spares"],
        step=values["step"],
        step_interval_ms=values["step_interval"],
    )


def _value(key: str, given: Any) -> Any:
    text = KEYS[key].default if given is None else given
    if text is None:
        raise BadHistory(f"{key} is missing")
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise BadHistory(f"{key}: a text or a whole number is expected")
    try:
        return KEYS[key].read(str(text))
    except BadHistory as problem:
        raise BadHistory(f"{key}: {problem}") from None


def _acts(lines: Any, lasts_ms: int) -> list[Act]:
    if not isinstance(lines, list) or not all(isinstance(each, str) for each in lines):
        raise BadHistory(f"{EVENTS}: a list of texts is expected")
    acts: list[Act] = []
    for line in lines:
        try:
            some = acts_of(line)
        except BadHistory as problem:
            raise BadHistory(f"event {line!r}: {problem}") from None
        if any(at_ms > lasts_ms for at_ms, _ in some):
            raise BadHistory(
                f"event {line!r}: the history ends before, after {lasts_ms / 1000:g} s"
            )
        acts += some
    return sorted(acts, key=lambda act: act[0])


def _play(cast: Cast, members: int, acts: Sequence[Act]) -> None:
    cast.digits = len(str(members + len(acts)))
    begin(cast, members)
    for _, act in acts:
        act(cast)
