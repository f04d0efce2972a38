"""What the server counts about itself, as plain numbers.

The hot path adds integers here and nothing else; ``exposition`` turns the numbers into Prometheus'
families when somebody scrapes. One :class:`Metrics` per server, never global: a test starts many.
Not a place for decisions or log lines, and prometheus-client is not imported here.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from groupkeeper.coordinator.facts import (
    Fact,
    GroupCreated,
    GroupDeleted,
    GroupDropped,
    GroupsLoaded,
    LimitReached,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    NotedFact,
    OffsetsCommitted,
    OffsetsRemoved,
    PendingMemberDropped,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.turns import Slices

SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of the buckets. From a heartbeat to a JoinGroup that waits for its group."""

ITERATION_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds for iterations of the event loop: 0.02 is the promise."""


class Histogram:
    """How long things took: a count per bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += times
        self.total += seconds * times

    def count(self) -> int:
        return sum(self.counts)


class RequestStats:
    """Requests answered, and the time from their last byte in to their answer, by API key."""

    __slots__ = ("by_api",)

    def __init__(self) -> None:
        self.by_api: defaultdict[int, Histogram] = defaultdict(Histogram)

    def record(self, api_key: int, seconds: float, times: int = 1) -> None:
        self.by_api[api_key].observe(seconds, times)


@dataclass(slots=True)
class ConnectionStats:
    """Client connections. ``open`` goes up and down, the others only up."""

    open: int = 0
    accepted: int = 0
    refused: int = 0
    """Closed at once, because ``max.connections`` were open, or ``max.connections.per.ip``."""
    broken: int = 0
    """Closed by us, because what came was not Kafka's protocol, or more than is allowed."""
    idle: int = 0
    """Closed by us, after ``connections.max.idle.ms``."""
    stuck: int = 0
    """Closed by us, because a request did not come to its end or an answer was not taken."""
    unaccepted: int = 0
    """Times that a connection could not be accepted: the process had no file descriptor left."""
    slow_turns: int = 0
    """Turns of requests that took longer than 100 ms."""


@dataclass(slots=True)
class AppendStats:
    """Rounds of the journal: one write and one sync each."""

    seconds: Histogram = field(default_factory=Histogram)
    records: int = 0
    bytes: int = 0
    failures: int = 0

    def record(self, seconds: float, records: int, size_bytes: int) -> None:
        self.seconds.observe(seconds)
        self.records += records
        self.bytes += size_bytes


@dataclass(slots=True)
class PartitionSnapshot:
    """One partition of the offsets log as it is now; read when somebody asks, never kept."""

    partition: int
    state: str
    """Of the life cycle: loading, active, closed."""
    groups: Counter[str] = field(default_factory=Counter)
    """How many groups are in which state, in DescribeGroups' words."""
    members: int = 0
    offsets: int = 0
    reason: str = ""
    """Why it is not active, in words."""


Snapshots = Callable[[], Iterable[PartitionSnapshot]]
Counted = Callable[[], Slices[Iterable[PartitionSnapshot]]]


class Metrics:
    """Everything that one server counts."""

    def __init__(self, snapshots: Snapshots = tuple) -> None:
        """``snapshots`` yields every partition of this node."""
        self.snapshots: Snapshots = snapshots
        """State and reason; cheap, because nobody's groups are counted."""
        self.counted: Counted = self._counted
        """The same with their groups, members and offsets."""
        self.requests = RequestStats()
        self.connections = ConnectionStats()
        self.appends = AppendStats()
        self.iterations = Histogram(ITERATION_SECONDS)
        self.replay_seconds = Histogram()
        self.rebalance_seconds = Histogram()
        self.join_seconds = Histogram()
        self.counts: Counter[tuple[str, str]] = Counter()
        """(what, label value) -> how often; the names are those of ``exposition``."""

    def _counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        """When the snapshots are whole as they come."""
        yield
        return self.snapshots()

    def replayed(self, seconds: float) -> None:
        """A partition was loaded from its log in this time."""
        self.replay_seconds.observe(seconds)

    def observe(self, _: Origin, noted: NotedFact) -> None:
        """Count what happened to a group. A fact that nobody counts is no error."""
        fact = noted.fact
        match fact:
            case OffsetsCommitted():
                self.counts["offsets_committed", ""] += fact.offsets
            case MemberJoined():
                self.counts["members_joined", fact.cause.code] += 1
            case MemberReplaced():
                self.counts["members_replaced", "no" if fact.quick else "yes"] += 1
            case MemberFenced():
                self.counts["members_fenced", fact.api] += 1
            case MemberRemoved():
                self.counts["members_removed", fact.cause.code] += 1
            case RebalanceStarted() | RebalanceCauseAdded() | RebalanceJoined():
                self._observe_rebalance(fact)
            case RebalanceCompleted():
                self.counts["rebalances_completed", ""] += 1
                self.rebalance_seconds.observe(fact.duration_ms / 1000)
            case _:
                self._observe_rare(fact)

    def _observe_rebalance(
        self, fact: RebalanceStarted | RebalanceCauseAdded | RebalanceJoined
    ) -> None:
        match fact:
            case RebalanceStarted():
                self.counts["rebalances", fact.cause.code] += 1
            case RebalanceCauseAdded():
                self.counts["rebalance_causes_added", fact.cause.code] += 1
            case RebalanceJoined():
                self.join_seconds.observe(fact.duration_ms / 1000)

    def _observe_rare(self, fact: Fact) -> None:
        match fact:
            case GroupCreated():
                self.counts["groups_created", ""] += 1
            case GroupDeleted():
                self.counts["groups_deleted", _why(fact.expired)] += 1
            case GroupDropped():
                self.counts["groups_deleted", "unused"] += 1
            case PendingMemberDropped():
                self.counts["pending_members_dropped", "expired" if fact.expired else "limit"] += 1
            case LimitReached():
                self.counts["limits_reached", fact.limit] += 1
            case OffsetsRemoved():
                self.counts["offsets_removed", _why(fact.expired)] += fact.offsets
            case GroupsLoaded():
                self.counts["replayed_records", ""] += fact.records


def _why(expired: bool) -> str:
    return "expired" if expired else "requested"
