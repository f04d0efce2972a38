"""The parts of a finding: its sentence, its setting, and the merging of findings about one group.

The setting to change is the advice of `groupkeeper why` for a rebalance with the same cause, as far
as its gate admits one: rows with `unread_ms` and `absent_ms` have the cost that it needs.
Recurrences are merged into one finding, and all findings of a group propose one session timeout.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from groupkeeper.analytics.schemas import LOG
from groupkeeper.history.rounds import Round
from groupkeeper.history.unread import Incident
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.protocol.group_event_words import CODES, LIKELY, Word
from groupkeeper.why.advice import advice
from groupkeeper.why.client_settings import INSTANCE, SESSION
from groupkeeper.why.gate import Audience, Cost, SettingChange, judge
from groupkeeper.why.proposals import EACH
from groupkeeper.why.sessions import SESSION_TIMEOUT_MS
from groupkeeper.why.texts import printable, settings_in, short_id, some_of, span

# Any: the values of a row have the types of its answer.
AnswerRow = dict[str, Any]

CRITICAL, HIGH, MEDIUM, LOW, INFO = "critical", "high", "medium", "low", "info"
SEVERITIES: Final = (CRITICAL, HIGH, MEDIUM, LOW, INFO)
"""The most severe first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`row` is the row of the answer behind the finding, or the first of several."""

    severity: str
    sentence: str
    row: AnswerRow
    cost_s: float | None = None
    setting: AnswerRow = field(default_factory=dict)
    """`config_key`, `now` and `proposed`."""
    kind: str | None = None
    """Key that keeps two findings about the same group and setting from being merged."""
    session_ms: int = 0
    """The `session.timeout.ms` in its advice; 0 if there is none."""
    times: int = 1
    """Number of findings merged into this one."""


COSTLY_S: Final = 600.0
"""Partition-seconds that nobody read from which a finding is `high`."""
NOTICED_S: Final = 60.0
"""The same for `medium`; what cost less is `low`."""
CHEAP_S: Final = 5.0
"""What cost less is no finding of its own."""


def severity_of(cost_s: float | None) -> str:
    """Return the severity by cost; `medium` if that is unknown."""
    if cost_s is None:
        return MEDIUM
    return HIGH if cost_s >= COSTLY_S else MEDIUM if cost_s >= NOTICED_S else LOW


Answers = Mapping[str, Sequence[AnswerRow]]
"""Question -> rows of its answer; times are Unix milliseconds."""
Finder = Callable[[Answers], Iterator[Finding]]
"""Returns the findings of one answer; it may read other answers."""


def grouped(rows: Iterable[AnswerRow], *columns: str) -> list[list[AnswerRow]]:
    """Return lists of rows with equal values in these columns."""
    found: dict[tuple[Any, ...], list[AnswerRow]] = defaultdict(list)
    for row in rows:
        found[tuple(row[each] for each in columns)].append(row)
    return [*found.values()]


def scaled_groups(rows: Answers) -> set[str]:
    """Return the groups whose members were scaled in and out: their absences are no restarts."""
    return {row["group"] for row in rows.get("returns", ()) if row["kind"] == "scaling"}


def name_of(row: AnswerRow) -> str | None:
    """Return a client as one word that survives its restarts if possible."""
    return row.get("instance") or row.get("client_id")


LONGEST: Final = 60
"""Longer names are cut."""
STATIC: Final = INSTANCE
SOMEBODY: Final = "a client"
UNKNOWN: Final = "did something that the log does not show"
UNEXPLAINED: Final = "for a reason that the log does not show"
"""Replaces "because a client did something ..."."""


def plain(text: object) -> str:
    """Return a name from a log in printable form, cut to LONGEST."""
    shown = printable(str(text))
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 3] + "..."


def quoted(text: object) -> str:
    return f"'{plain(text)}'"


def who(row: AnswerRow) -> str:
    """Return a client in a few words: 'orders-3' on 10.0.0.7."""
    name = name_of(row)
    if name is None:
        name = short_id(row["member"]) if row.get("member") else None
    if name is None:
        return SOMEBODY
    return quoted(name) + (f" on {plain(row['host'])}" if row.get("host") else "")


def times(start_ms: int | None, end_ms: int | None) -> str:
    """Return a period in UTC, to the minute; to the second if within one minute."""
    if start_ms is None or end_ms is None:
        return "at an unknown time"
    start, end = (datetime.fromtimestamp(each // 1000, UTC) for each in (start_ms, end_ms))
    if start == end:
        return start.strftime("at %Y-%m-%d %H:%M:%S")
    clock = "%H:%M" if start.replace(second=0) != end.replace(second=0) else "%H:%M:%S"
    day = "" if start.date() == end.date() else "%Y-%m-%d "
    first = start.strftime(f"%Y-%m-%d {clock}")
    return f"between {first} and {end.strftime(day + clock)}"


def percent(share: float) -> str:
    """Format a part of 1: 0.05 %, 3.1 %, 42 %."""
    part = share * 100
    return f"{part:.0f} %" if part >= 10 else f"{part:.1f} %" if part >= 1 else f"{part:.2f} %"


def did(cause: object, likely: object, row: AnswerRow) -> str:
    """Return the action of a client, to follow its name."""
    known = (table.get(str(code)) for table, code in ((LIKELY, likely), (CODES, cause)))
    told = next((word.briefly for word in known if word and word.briefly), "")
    if cause == "session_expired" and row.get("silent_ms") and row.get("session_timeout_ms"):
        session, silent = row["session_timeout_ms"], row["silent_ms"]
        told = f"missed its session of {span(session)} (silent for {span(silent)})"
    if cause == "replaced":  # of a member, not of a rebalance
        return told or "was replaced by a client with its instance id"
    return told or (UNKNOWN if cause in (None, "unknown") else f"gave the cause {quoted(cause)}")


def because(row: AnswerRow, told: str, whom: str = "{}") -> str:
    """Return the reason, from the text of `did`. `whom` is a template for the client, if known."""
    if who(row) != SOMEBODY:
        return f"because {whom.format(who(row))} {told}"
    return UNEXPLAINED if told == UNKNOWN else f"because clients {told}"


def advise(cause: object, likely: object, row: AnswerRow) -> str:
    """Return the advice for a recurring cause: that of `groupkeeper why` if the timeouts of the
    client are known or not needed, else the general advice. "Nothing is wrong" is dropped, as it
    only applies to a single rebalance.
    """
    text = _ALL_RIGHT.sub("", _advice(cause, likely, row))
    if text.startswith("Nothing is wrong"):
        return "The logs of the clients say more."
    text = f"{text[0].upper()}{text[1:]}"
    return f"Members{text.removeprefix('Those')}" if text.startswith("Those ") else text


_ALL_RIGHT: Final = re.compile(r"^Nothing is wrong.*?[;:.] ")


def _advice(cause: object, likely: object, row: AnswerRow) -> str:
    if cause not in CODES:
        return "Group events would show why: groupkeeper keeps them, Apache Kafka does not."
    if not {str(cause), str(likely), f"{cause}/{likely}"} & _numbers(row):
        return likely_advice(likely) if likely in LIKELY else _plain_advice(CODES[str(cause)])
    names = ["silent_ms", "session_timeout_ms", "rebalance_timeout_ms"]
    if row.get("away_ms") is not None:  # else the advice would be about one crash
        names.append("connection")
    evidence = {name: row[name] for name in names if row.get(name) is not None}
    evidence |= {"instances": row.get("clients"), "within_ms": row["until"] - row["from"]}
    known = ("member", "instance", "client_id", "host")
    client = {name: printable(row[name]) for name in known if row.get(name)}
    about = round_of(row)
    about.cause = {"code": cause, "likely": likely, "who": client, "evidence": evidence}
    about.away_ms = about.returned_ms = row.get("away_ms")
    is_same = row.get("rounds") == row.get("cause_rounds")
    about.repeats = row.get("rounds") or 1 if is_same else 1  # in a row
    about.repeats_since_ms = row["until"] - row["from"]
    text = advice(about)
    if row.get("source") == LOG:  # measured from the last commit, not the last request
        for words in ("was away for ", "came back after ", "was back "):
            text = text.replace(words, f"{words}at most ")
    return text


def round_of(row: AnswerRow) -> Round:
    """Return a round with the timeouts, the client and the cost of a row, for the gate. Partitions
    without an owner are known of consumers only.
    """
    about = Round(str(row["group"]), 0, 0, 0, from_state="Stable")
    knows_partitions = row.get("unowned_ms") is not None or row.get("partitions") is not None
    about.protocol_type = row.get("protocol_type") or (CONSUMER if knows_partitions else None)
    about.protocol = row.get("protocol")
    name, _, version = str(row.get("software") or "").rpartition(" ")
    if name:
        about.clients = [{"software": {"name": name, "version": version}}]
    about.session_timeout_ms = row.get("session_timeout_ms")
    about.rebalance_timeout_ms = row.get("rebalance_timeout_ms")
    if row.get("unread_ms") is not None and row.get("absent_ms") is not None:
        about.incident = Incident(row["unread_ms"], row["absent_ms"], 0)
    return about


def _numbers(row: AnswerRow) -> frozenset[str]:
    """Return the codes for which the numbers of a row suffice for the advice of one rebalance."""
    found = {"subscription_changed", "leader_rejoined"}
    if row.get("session_timeout_ms") is not None:
        found |= {"session_expired", "crash_or_network"}
    if row.get("session_timeout_ms") is not None or row.get("away_ms") is not None:
        found |= {"member_joined", "static_member_joined", "member_left", "member_left/shutdown"}
        found |= {"rolling_restart"} if row.get("clients") else set()
    if row.get("rebalance_timeout_ms") is not None:
        found |= {"join_timeout", "sync_timeout", "max_poll_exceeded", "slow_member"}
    return frozenset(found)


def _plain_advice(word: Word) -> str:
    return word.advice.replace("`", "")


def likely_advice(likely: object) -> str:
    """Return the general advice for a probable reason."""
    return _plain_advice(LIKELY[str(likely)])


def remedy(text: str, row: AnswerRow, kind: str | None) -> tuple[AnswerRow, str | None, int]:
    """Return the setting to change; without one, the kind of the finding; and the proposed session
    timeout.
    """
    setting = change(text, row)
    return setting, None if setting else kind, session_in(text)


def up_to(row: AnswerRow) -> str:
    """Return "up to " for inferred rows: unowned time then begins at the last commit."""
    return "up to " if row["source"] == LOG else ""


def session_in(text: str) -> int:
    """Return the `session.timeout.ms` in an advice; 0 if there is none."""
    return max((ms for key, ms in settings_in(text) if key == "session.timeout.ms"), default=0)


def change(text: str, row: AnswerRow) -> AnswerRow:
    """Return `config_key`, `now` and `proposed` of an advice: its first setting, unless that has
    the value already. If members need an instance id, that comes first, as the setting alone would
    not help.
    """
    found = settings_in(text)
    if f"Set a {STATIC}" in text and not row.get("instance"):
        session = dict(found).get(SESSION)
        more = f", with {SESSION}={session}" if session is not None else ""
        return {"config_key": STATIC, "now": "none", "proposed": EACH + more}
    if not found:
        return {}
    key, proposed = found[0]
    now = row.get(_NOW.get(key, ""))
    if now == proposed:
        return {}
    return {"config_key": key, "now": None if now is None else str(now), "proposed": str(proposed)}


_NOW: Final[Mapping[str, str]] = {
    "session.timeout.ms": "session_timeout_ms",
    "max.poll.interval.ms": "rebalance_timeout_ms",
}
"""Setting -> column with its present value."""


def as_one(alike: Sequence[Finding]) -> Finding:
    """Merge findings about the same group and setting, with their number.

    The merged finding is the most severe; among equals the one whose setting also suffices for the
    others, then the most expensive, then the longest.
    """
    if len(alike) == 1:
        return alike[0]
    told = min(alike, key=lambda each: (SEVERITIES.index(each.severity), *_order(each)))
    rows = [each.row for each in alike]
    names = {name_of(row) for row in rows}
    noun = "client" if any(row.get("client_id") for row in rows) else "instance id"
    since = min((row["from"] for row in rows if row["from"] is not None), default=None)
    until = max((row["until"] for row in rows if row["until"] is not None), default=None)
    own = name_of(told.row)
    others = sorted(name for name in names - {own} if name is not None)
    of = f", with {len(names)} {noun}s: also {some_of(map(quoted, others))}" if others else ""
    costs = [each.cost_s for each in alike if each.cost_s is not None]
    return replace(
        told,
        sentence=f"{told.sentence} It happened {len(alike)} times {times(since, until)}{of}.",
        cost_s=sum(costs) if costs else None,
        times=len(alike),
    )


def asked_of(found: Iterable[Finding]) -> dict[str | None, int]:
    """Return group -> the longest `session.timeout.ms` that its findings propose."""
    asked: dict[str | None, int] = defaultdict(int)
    for each in found:
        group = each.row.get("group")
        asked[group] = max(asked[group], each.session_ms)
    return asked


def agreed(each: Finding, asked_ms: int) -> Finding:
    """Adjust a finding to the longest `session.timeout.ms` proposed for its group."""
    least_ms = each.session_ms
    if not 0 < least_ms < asked_ms:
        return each
    sentence = (
        f"{each.sentence} Other findings of this group ask for {SESSION}={asked_ms} "
        f"({span(asked_ms)}): that is enough here."
    )
    change = dict(each.setting)
    if change.get("proposed"):
        change["proposed"] = change["proposed"].replace(str(least_ms), str(asked_ms))
    return replace(each, sentence=sentence, setting=change)


def _order(each: Finding) -> tuple[int, float, int, int]:
    numbers = [int(number) for number in _NUMBER.findall(each.setting.get("proposed") or "")]
    asked = max(numbers, default=0)
    is_least = each.setting.get("config_key") == "max.poll.records"
    start = each.row["from"] or 0
    length = (each.row["until"] or start) - start
    return asked if is_least else -asked, -(each.cost_s or 0.0), -length, start


_NUMBER: Final = re.compile(r"\d+")


def vanished(row: AnswerRow, asked_ms: int) -> str:
    """Return a text about a client whose partitions waited for the end of its session. `asked_ms`
    is the session timeout in other findings of the group; 0 if there is none.
    """
    session, wanted = row["session_timeout_ms"], max(SESSION_TIMEOUT_MS, asked_ms)
    text = "It stopped sending, and kept its partitions until its session ended"
    if session is None or session <= wanted:
        return f"{text}."
    # Each of its partitions waited for the session.
    verdict = judge(
        SettingChange(((SESSION, wanted),), Cost(session, wanted)), Audience.of(round_of(row))
    )
    if not verdict.passes:
        return f"{text}, after {span(session)}."
    needed = "which its restarts need" if asked_ms == wanted else "or as long as a restart takes"
    return (
        f"{text}, after {span(session)}: others get them sooner with {SESSION}={wanted} "
        f"({span(wanted)}), {needed}."
    )


def clients(sessions: Iterable[AnswerRow]) -> list[AnswerRow]:
    """Return one row for each client, over its restarts."""
    return [
        max(some, key=lambda row: row["until"] - row["from"])
        | {"idle_ms": sum(row["idle_ms"] for row in some)}
        for some in grouped((row | {"name": name_of(row)} for row in sessions), "name")
    ]
