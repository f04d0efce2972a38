"""What really happened, as the clients and the script know it: nothing here comes from the server's
events or from its log.

Times are Unix milliseconds. `Scribe.tables` makes the tables; columns are those of the dataclasses.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Final

Row = dict[str, Any]
REJOINED: Final = ("member_rejoined", "leader_rejoined")
"""No further cause of a round under way: all members rejoin then."""


@dataclass(slots=True)
class Trigger:
    """Something that makes the group rebalance, when it reached the coordinator."""

    at_ms: int
    cause: str
    client_id: str
    host: str
    instance: str | None
    software: str
    members: int
    """How many the group has afterwards."""
    incident: int
    order: int
    """Of all that was noted: times are too coarse to tell what came first."""


@dataclass(slots=True)
class Generation:
    """A join phase that ended."""

    group: str
    era: int
    """How often the group was deleted before."""
    number: int
    order: int
    """When it was heard of first, as in `Trigger`."""
    join_ended_ms: int = 0
    ended_ms: int | None = None
    """The first SyncGroup was answered; None: the next round came before."""
    joins: dict[str, int] = field(default_factory=dict)
    """Client that joined -> when it last sent JoinGroup."""
    shares: dict[str, int] = field(default_factory=dict)
    """Client -> how many partitions it got."""
    revoked: int = 0


@dataclass(slots=True)
class Session:
    """A member, from the answer to its join to its end."""

    group: str
    client_id: str
    host: str
    software: str
    instance: str | None
    member: str
    from_ms: int
    is_static: bool
    heard_ms: int | None = None
    """Its last request, known at the end."""
    last_commit_ms: int | None = None
    """The last one that was accepted."""
    until_ms: int | None = None
    how: str | None = None
    """`left`, `crashed` (or was paused), `replaced`, `removed`, or `left_out`: a join phase ended
    without it. None: it is still a member."""


@dataclass(slots=True)
class Ownership:
    """A process consumed a partition."""

    group: str
    topic: str
    partition: int
    client_id: str
    member: str
    from_ms: int
    until_ms: int | None = None


@dataclass(slots=True)
class Refusal:
    """A request that was answered with an error that says that the member is stale."""

    group: str
    client_id: str
    host: str
    member: str
    api: str
    error: str
    at_ms: int


@dataclass(slots=True)
class Incident:
    """What the script did on purpose. `subject` is the client or instance id that it is about."""

    number: int
    group: str
    kind: str
    from_ms: int
    until_ms: int | None = None
    subject: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Replacement:
    """A static member came back under a new member id, without a rebalance."""

    group: str
    instance: str
    client_id: str
    host: str
    at_ms: int
    old_member: str
    member: str


@dataclass(slots=True)
class Coordinator:
    """A life of the server."""

    from_ms: int
    until_ms: int | None = None
    how: str | None = None
    """`stopped` or `killed`."""


class Scribe:
    """Takes notes of all groups of a run."""

    def __init__(self, wall_ms: Callable[[], int], first_incident: int = 1) -> None:
        self.wall_ms = wall_ms
        self._first_incident = first_incident
        self.triggers: dict[str, list[Trigger]] = {}
        self.generations: dict[tuple[str, int, int], Generation] = {}
        self.sessions: list[Session] = []
        self.ownership: list[Ownership] = []
        self.refusals: list[Refusal] = []
        self.incidents: list[Incident] = []
        self.replacements: list[Replacement] = []
        self.coordinators: list[Coordinator] = []
        self.groups: list[Row] = []
        self.ends: list[Row] = []
        self.paces: list[Row] = []
        """From when on a process committed how often; 0 is never."""
        self.commits: Counter[tuple[str, str, int, int]] = Counter()
        """(group, client id, partition, hour) -> accepted commits."""
        self.requests: Counter[str] = Counter()
        self.order = count()

    def generation(self, group: str, era: int, number: int) -> Generation:
        key = (group, era, number)
        if key not in self.generations:
            self.generations[key] = Generation(*key, next(self.order))
        return self.generations[key]

    def incident(self, group: str, kind: str) -> Incident:
        self.incidents.append(
            Incident(self._first_incident + len(self.incidents), group, kind, self.wall_ms())
        )
        return self.incidents[-1]

    # -- tables --------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[Row]]:
        """Name -> rows, in a fixed order."""
        commits = [
            {"group": g, "client_id": c, "partition": p, "hour_ms": h, "commits": n, "quiet": 0}
            for (g, c, p, h), n in sorted(self.commits.items())
        ]
        return {
            "groups": self.groups,
            "rounds": self.rounds(),
            **{
                name: [asdict(each) for each in getattr(self, name)]
                for name in (
                    "sessions",
                    "ownership",
                    "refusals",
                    "incidents",
                    "replacements",
                    "coordinators",
                )
            },
            "deletions": self.ends,
            "commits": commits,
            "paces": self.paces,
            "requests": [{"request": key, "count": n} for key, n in sorted(self.requests.items())],
        }

    def rounds(self) -> list[Row]:
        """Each with its first cause: what happened between two ends of a join phase is one round,
        unless no member was left.
        """
        found: list[Row] = []
        for group, triggers in sorted(self.triggers.items()):
            ends = [each for (name, *_), each in sorted(self.generations.items()) if name == group]
            current: list[Trigger] = []
            for trigger in sorted(triggers, key=lambda each: each.order):
                while current and ends and ends[0].order < trigger.order:
                    found.append(_round(group, current, ends.pop(0)))
                    current = []
                current.append(trigger)
                if not trigger.members:
                    found.append(_round(group, current, None))
                    current = []
            if current:
                found.append(_round(group, current, ends.pop(0) if ends else None))
            assert not ends, f"{group}: no trigger for generation {ends[0].number}"
        return found


def _round(group: str, triggers: list[Trigger], end: Generation | None) -> Row:
    first, emptied = triggers[0], triggers[-1].members == 0
    row: Row = {
        "group": group,
        "started_ms": first.at_ms,
        "cause": first.cause,
        "more_causes": [each.cause for each in triggers[1:] if each.cause not in REJOINED],
        "by_client_id": first.client_id,
        "by_host": first.host,
        "by_instance": first.instance,
        "by_software": first.software,
        "incident": first.incident,
        "generation": None,
        "ended_ms": triggers[-1].at_ms if emptied else None,
        "join_ended_ms": None,
        "outcome": "emptied" if emptied else "lost",
        "members": triggers[-1].members,
        "last_client_id": None,
        "held_ms": None,
        "partitions": 0,
        "revoked": 0,
    }
    if end is None:
        return row
    order = sorted(end.joins.items(), key=lambda one: one[1])
    last = order[-1]
    row |= {
        "generation": end.number,
        "join_ended_ms": end.join_ended_ms,
        "ended_ms": end.ended_ms,
        "outcome": "completed" if end.ended_ms is not None else "superseded",
        "members": len(order),
        "last_client_id": last[0],
        "held_ms": last[1] - order[-2][1] if len(order) > 1 else None,
        "partitions": sum(end.shares.values()),
        "revoked": end.revoked,
    }
    return row
