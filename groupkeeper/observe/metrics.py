"""The server's metrics, as plain numbers.

The hot path only adds integers here; `exposition` turns the numbers into Prometheus' families at a
scrape, so this module does not import prometheus-client. Every server has a separate `Metrics`:
tests start many servers in a process.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from groupkeeper.coordinator.facts import (
    CoordinatorStalled,
    Fact,
    GroupCreated,
    GroupDeleted,
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
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceDeferred,
    RebalanceJoined,
    RebalanceStarted,
    RequestRefused,
    SeatReserved,
    StandbyActivated,
)
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.turns import Slices

if TYPE_CHECKING:
    from groupkeeper.observe.group_rows import Look

SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of buckets, from a heartbeat to a JoinGroup that waits for its group."""

ITERATION_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds for iterations of the event loop; none should take longer than 0.02."""


class Histogram:
    """Durations: a count per bucket, and their sum."""

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


RequestTimes = defaultdict[int, Histogram]
"""Requests answered, and the time from their last byte in to their answer, by API key."""


@dataclass(slots=True)
class AnswerErrors:
    """Answers with errors: one with several counts once per error, and once in `answers`."""

    by_code: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By API key and error code."""
    answers: Counter[int] = field(default_factory=Counter)
    """By API key."""


@dataclass(slots=True)
class ConnectionStats:
    """Client connections. `open` rises and falls, the others only rise."""

    open: int = 0
    accepted: int = 0
    refused: int = 0
    """Closed immediately: `max.connections` or `max.connections.per.ip` were open."""
    broken: int = 0
    """Closed by the server: not Kafka's protocol, or over a limit."""
    idle: int = 0
    """Closed by the server after `connections.max.idle.ms`."""
    stuck: int = 0
    """Closed by the server: a request stayed incomplete, or an answer was not read."""
    unaccepted: int = 0
    """Failed accepts: the process had no file descriptor left."""
    handshakes_failed: int = 0
    """Ends of TLS: handshakes that failed or took too long, and broken bytes after them."""
    slow_turns: int = 0
    """Turns of requests that took longer than 100 ms."""


@dataclass(slots=True)
class AppendStats:
    """Flushes of the journal: one write and one sync each."""

    seconds: Histogram = field(default_factory=Histogram)
    records: int = 0
    bytes: int = 0
    failures: int = 0

    def record(self, seconds: float, records: int, size_bytes: int) -> None:
        self.seconds.observe(seconds)
        self.records += records
        self.bytes += size_bytes


@dataclass(slots=True)
class CleanerStats:
    """Compactions of logs. Counts but `uncleanable` only rise; times are seconds of one clock."""

    runs: int = 0
    failures: int = 0
    hung: int = 0
    """Failures of compactions that were ended because they made no progress."""
    began: float | None = None
    """Start of the running compaction."""
    ended: float = 0.0
    """End of the last compaction, successful or not; initially, start of the server."""
    clock: Callable[[], float] = float
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    uncleanable: int = 0
    """Logs that are not compacted because some of their segments are damaged."""

    def record(self, seconds: float, bytes_read: int, bytes_written: int) -> None:
        self.runs += 1
        self.seconds += seconds
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written

    @property
    def running_s(self) -> float:
        """Duration of the running compaction so far; 0 if there is none."""
        return 0.0 if self.began is None else self.clock() - self.began

    @property
    def since_s(self) -> float:
        """Time since the last compaction ended."""
        return self.clock() - self.ended


@dataclass(slots=True)
class PartitionSnapshot:
    """One partition of the offsets log at the time of a request."""

    partition: int
    state: str
    """loading, active, closed, absent or draining."""
    groups: Counter[str] = field(default_factory=Counter)
    """Groups by state, as in DescribeGroups."""
    members: int = 0
    standbys: int = 0
    """Members that get no partitions for now."""
    seats: int = 0
    """Members that are lost, and whose partitions are reserved."""
    offsets: int = 0
    reason: str = ""
    """Why it is not active, in words."""


Snapshots = Callable[[], Iterable[PartitionSnapshot]]
Counted = Callable[[], Slices[Iterable[PartitionSnapshot]]]


class Metrics:
    """All numbers of one server."""

    def __init__(self, snapshots: Snapshots = tuple) -> None:
        """`snapshots` returns every partition of this node."""
        self.snapshots: Snapshots = snapshots
        """State and reason only, which is cheap."""
        self.counted: Counted = self._counted
        """The same with groups, members and offsets, counted in slices."""
        self.requests = RequestTimes(Histogram)
        self.connections = ConnectionStats()
        self.appends = AppendStats()
        self.cleaner = CleanerStats()
        self.events_wait_for_room = False
        """Whether no events are stored because the disk is nearly full."""
        self.iterations = Histogram(ITERATION_SECONDS)
        self.replay_seconds = Histogram()
        """Load times of partitions."""
        self.rebalance_seconds = Histogram()
        self.join_seconds = Histogram()
        self.slowest_joiner_seconds = Histogram()
        """From the first trigger until the last member of the join phase had joined."""
        self.not_stable_ms = 0
        self.reserved_partition_ms = 0
        """Total over all groups and finished rebalances."""
        self._rebalancing: dict[str, tuple[int, int]] = {}
        """Groups in a rebalance: the partition, and the start in monotonic milliseconds."""
        self.counts: Counter[tuple[str, ...]] = Counter()
        """(name, label values ...) -> count, with the names of `fact_counters.COUNTERS`."""
        self.answer_errors = AnswerErrors()
        self.certificates: Callable[[], Mapping[str, float]] = dict
        """Returns the seconds until the certificates of TLS listeners expire, by listener."""
        self.denied: Counter[tuple[str, ...]] = Counter()
        """Requests, and rows of requests, that the authorizer denied, by API and resource."""
        self.authentications: Counter[tuple[str, ...]] = Counter()
        """Logins by listener, mechanism and outcome."""
        self.topics: Callable[[], Mapping[str, float]] | None = None
        """Returns the numbers of `exposition.TOPICS` and `TOPIC_COUNTERS` by name."""
        self.observer: Callable[[], Mapping[str, float]] | None = None
        """Of an observer: the numbers of `exposition.OBSERVER` and `OBSERVER_COUNTERS` by name, and
        `causes_known_since_ms` if earlier records are missing.
        """
        self.look: Look | None = None
        """Collects groups and topics for a scrape."""
        self.series_most = 0
        """Maximum series for single groups, and for single topics: `metrics.max.series`."""

    def _counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        yield
        return self.snapshots()

    def observe(self, origin: Origin, noted: NotedFact) -> None:
        """Count a fact; for most kinds only some are counted."""
        fact = noted.fact
        kind = type(fact)
        count = _COUNTS.get(kind)
        if count is not None:
            key, amount = count(fact)
            self.counts[key] += amount
        take = _TIMED.get(kind)
        if take is not None:
            take(self, origin, noted)

    def _started(self, origin: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        assert isinstance(fact, RebalanceStarted)
        self._rebalancing[fact.group] = origin.partition, noted.now
        if fact.cause.likely is not None:
            self.counts["rebalances_likely", fact.cause.likely] += 1

    def _joined(self, _: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        assert isinstance(fact, RebalanceJoined)
        self.join_seconds.observe(fact.duration_ms / 1000)
        if fact.joined:
            self.slowest_joiner_seconds.observe(fact.joined[-1][2] / 1000)

    def _completed(self, origin: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        assert isinstance(fact, RebalanceCompleted)
        self.rebalance_seconds.observe(fact.duration_ms / 1000)
        self._ended(origin, noted)

    def _ended(self, _: Origin, noted: NotedFact) -> None:
        began = self._rebalancing.pop(noted.fact.group, (0, noted.now))[1]
        self.not_stable_ms += max(0, noted.now - began)

    def _replaced(self, _: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        assert isinstance(fact, MemberReplaced)
        reserved_ms = fact.evidence.get("reserved_ms")
        if reserved_ms is not None:
            self._seat_ended("taken" if reserved_ms else "not_lost", fact.evidence)
            self.counts["rebalances_avoided", "grace"] += fact.quick

    def _removed(self, _: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        assert isinstance(fact, MemberRemoved)
        if fact.cause.code is CauseCode.SEAT_EXPIRED:
            self._seat_ended("expired", fact.cause.evidence)

    def _seat_ended(self, outcome: str, evidence: Mapping[str, Any]) -> None:
        self.counts["seats_ended", outcome] += 1
        self.reserved_partition_ms += evidence["reserved_ms"] * (evidence["partitions"] or 0)

    def _loaded(self, origin: Origin, _: NotedFact) -> None:
        """Drop rebalances that a failure of the partition has ended without a fact."""
        over = [
            group for group, (place, _) in self._rebalancing.items() if place == origin.partition
        ]
        for group in over:
            del self._rebalancing[group]


_REASONS: Final = {"request": "requested"}
"""`why` of a deletion -> label value, where they differ."""

# Any: each function takes the fact of its own row.
_COUNTS: Final[Mapping[type[Fact], Callable[[Any], tuple[tuple[str, ...], int]]]] = {
    GroupCreated: lambda _: (("groups_created",), 1),
    GroupDeleted: lambda fact: (("groups_deleted", _REASONS.get(fact.why, fact.why)), 1),
    GroupsLoaded: lambda fact: (("replayed_records",), fact.records),
    LimitReached: lambda fact: (("limits_reached", fact.limit), 1),
    MemberFenced: lambda fact: (("members_fenced", fact.api), 1),
    MemberJoined: lambda fact: (("members_joined", fact.cause.code), 1),
    MemberRemoved: lambda fact: (("members_removed", fact.cause.code), 1),
    MemberReplaced: lambda fact: (("members_replaced", "no" if fact.quick else "yes"), 1),
    OffsetsCommitted: lambda fact: (("offsets_committed",), fact.offsets),
    OffsetsRemoved: lambda fact: (
        ("offsets_removed", "expired" if fact.why == "expired" else "requested"),
        fact.offsets,
    ),
    PendingMemberDropped: lambda fact: (
        ("pending_members_dropped", "expired" if fact.expired else "limit"),
        1,
    ),
    CoordinatorStalled: lambda fact: (("partition_stalls", fact.what), 1),
    RebalanceCauseAdded: lambda fact: (("rebalance_causes_added", fact.cause.code), 1),
    RebalanceCompleted: lambda _: (("rebalances_completed",), 1),
    RebalanceStarted: lambda fact: (("rebalances", fact.cause.code), 1),
    RequestRefused: lambda fact: (("requests_refused", fact.api, fact.error), 1),
    SeatReserved: lambda _: (("seats_reserved",), 1),
    StandbyActivated: lambda _: (("rebalances_avoided", "standby"), 1),
    RebalanceDeferred: lambda fact: (("rebalances_deferred", fact.policy), 1),
}
"""Kind of fact -> name and label values of its counter, and the increment."""

_TIMED: Final[Mapping[type[Fact], Callable[[Metrics, Origin, NotedFact], None]]] = {
    GroupDeleted: Metrics._ended,
    GroupsLoaded: Metrics._loaded,
    RebalanceAbandoned: Metrics._ended,
    RebalanceCompleted: Metrics._completed,
    RebalanceJoined: Metrics._joined,
    RebalanceStarted: Metrics._started,
    MemberReplaced: Metrics._replaced,
    MemberRemoved: Metrics._removed,
}
"""Kind of fact -> method that records its times."""
