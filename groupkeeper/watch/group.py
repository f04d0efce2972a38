"""One observed group: its events (`inferred`), with numbers of rebalances and states of the group,
its last record, and all that another process needs to continue with the next one.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from groupkeeper.history.asked import NOT_ASKED, Asked
from groupkeeper.history.records import GROUP_KEY_TYPE, CommitRun, GroupRecord
from groupkeeper.history.rounds import Folding, Round
from groupkeeper.history.rows import KnownOffsets, Told
from groupkeeper.protocol.group_events import Event
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.why.words import trigger

STATES: Final[Mapping[str, str]] = {
    "group_created": "Empty",
    "group_deleted": "Dead",
    "group_emptied": "Empty",
    "rebalance_started": "PreparingRebalance",
    "rebalance_joined": "CompletingRebalance",
    "rebalance_completed": "Stable",
}
"""Type of event -> state of the group after it."""
_STARTED: Final = "rebalance_started"


@dataclass(slots=True, frozen=True)
class LastRecord:
    """The last record with a value of a group."""

    offset: int
    time_ms: int
    value: bytes


@dataclass(slots=True, frozen=True)
class LastCause:
    """The cause of a group's last rebalance, which ended at `at_ms`."""

    at_ms: int
    round: int
    code: str
    text: str
    """The cause in a sentence."""
    confidence: float


class GroupWatch:
    """One group. Its records are added in the order of the log, those of a batch together."""

    __slots__ = ("_rounds", "answers", "events", "group", "last", "last_cause", "since")

    last: LastRecord | None
    """None if the group has no record with a value of the classic protocol."""
    last_cause: LastCause | None
    since: int
    """Records of the group before this offset are contained in the state."""

    def __init__(self, group: str, answers: ClusterAnswers) -> None:
        self.group, self.answers = group, answers
        self.events = GroupEvents(group, answers.names, answers.sessions)
        self._rounds = 0
        self.last = self.last_cause = None
        self.since = 0

    def commit(self, run: CommitRun, known: KnownOffsets) -> None:
        """Add commits. `known`: how far the log is known."""
        self.events.commit(run, known)

    def add(
        self, batch: Sequence[GroupRecord], known: KnownOffsets, asked: Asked = NOT_ASKED
    ) -> list[Told]:
        """Add the group's records of one batch. Returns the events that they show. `asked`: since
        the last record.
        """
        self.events.asked = asked
        for record in batch:
            if record.key_type == GROUP_KEY_TYPE:
                at = record.offset, record.time_ms
                self.last = None if record.value is None else LastRecord(*at, record.value)
        found = self._numbered(self.events.take(batch, known))
        if self.events.newer is not None:
            self.answers.want(self.group, self.events.newer)
        return found

    def _numbered(self, items: Sequence[Told]) -> list[Told]:
        """Number the rounds of events; their first ones become the last cause."""
        found = []
        for told in items:
            event = told.event
            if event.type == _STARTED:
                self._rounds += 1
            number = self._rounds if event.round else 0
            state = event.state or STATES.get(event.type, "")
            event = Event(*event[:8], state, number, event.fields)
            found.append(Told(told.offset, event, told.source, told.confidence))
        folding = Folding()
        entries = [entry for told in found for entry in folding.fold(told.stored())]
        # Of a consumer group the cause is known when the round begins, and told again with no more.
        under_way = [folding.under_way] if folding.under_way is not None else []
        rounds = [each for each in (*entries, *under_way) if isinstance(each, Round) and each.cause]
        if rounds:
            self.last_cause = _cause_of(rounds[-1])
        return found

    @property
    def offset(self) -> int:
        """Offset of the last record that is not deleted; -1 if there is none."""
        newer, last = self.events.newer, self.last
        return newer.offset if newer is not None else -1 if last is None else last.offset

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object."""
        last, cause = self.last, self.last_cause
        return {
            "since": self.since,
            "rounds": self._rounds,
            "events": self.events.state(),
            "last": None
            if last is None
            else [last.offset, last.time_ms, base64.b64encode(last.value).decode()],
            "cause": None
            if cause is None
            else [cause.at_ms, cause.round, cause.code, cause.text, cause.confidence],
        }

    @classmethod
    def restore(cls, group: str, state: Mapping[str, Any], answers: ClusterAnswers) -> Self:
        """Restore a group from `state()`."""
        found = cls(group, answers)
        found.since, found._rounds = state["since"], state["rounds"]
        known = answers.names, answers.sessions
        found.events = GroupEvents.restore(group, state["events"], *known)
        if state["last"] is not None:
            offset, time_ms, value = state["last"]
            found.last = LastRecord(offset, time_ms, base64.b64decode(value))
        if state["cause"] is not None:
            found.last_cause = LastCause(*state["cause"])
        return found


def _cause_of(current: Round) -> LastCause:
    code = str((current.cause or {}).get("code"))
    about = code, trigger(current), current.confidence or 0.0
    return LastCause(current.ended_at_ms or current.started_at_ms or 0, current.round, *about)
