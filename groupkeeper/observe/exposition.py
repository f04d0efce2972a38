"""The server's numbers in Prometheus' text format: names, help, labels.

Read at a scrape from `metrics.Metrics`, in slices; nothing is kept here. Names follow Prometheus'
conventions: prefix `groupkeeper_`, seconds and bytes, `_total` for counters. Imported with the
first scrape, because importing prometheus-client takes long.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from groupkeeper import __version__
from groupkeeper.observe.log_writer import counts
from groupkeeper.observe.metrics import (
    AppendStats,
    CleanerStats,
    ConnectionStats,
    Histogram,
    Metrics,
    PartitionSnapshot,
)
from groupkeeper.protocol.registry import APIS
from groupkeeper.turns import Slices

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

SAMPLES_IN_A_SLICE = 200
"""They take less than a millisecond."""
HEADING_LINES = 2
"""HELP and TYPE."""

GROUP_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
PARTITION_STATES = ("loading", "active", "closed", "absent", "draining")

COUNTERS = {
    "rebalances": ("cause", "Rebalances started, by what triggered them."),
    "rebalance_causes_added": ("cause", "Further triggers while a join phase was under way."),
    "rebalances_completed": ("", "Rebalances whose assignment was accepted and stored."),
    "event_logs_closed": ("error", "Logs of events closed and opened again, by the error."),
    "events_dropped": ("type", "Events that were not stored, because of a limit or a failure."),
    "events_written": ("", "Events stored."),
    "facts_not_read": ("reader", "Facts that a reader failed to process."),
    "groups_created": ("", "Groups seen for the first time."),
    "groups_deleted": ("reason", "Groups deleted, on request, all expired, or not used."),
    "limits_reached": ("limit", "Requests refused, or work given up, because of a limit."),
    "members_joined": ("cause", "Members added to a group."),
    "members_replaced": ("rebalance", "Static members that rejoined, with or without a rebalance."),
    "members_fenced": ("api", "Requests under an instance id that another member holds."),
    "members_removed": ("cause", "Members that are no longer part of their group."),
    "offsets_committed": ("", "Offsets stored, one per partition of a commit."),
    "offsets_removed": ("reason", "Offsets deleted, on request or because they had expired."),
    "partitions_closed": ("error", "Partitions closed and loaded again, by the error."),
    "pending_members_dropped": ("reason", "Member ids handed out and never used."),
    "replayed_records": ("", "Records read back from the log when partitions were loaded."),
}
"""Counters of facts: name without prefix and suffix -> label, or "", and help."""

TOPICS = {
    "topics": "Topics, without internal ones.",
    "topic_partitions": "Partitions of these topics.",
    "topic_logs_open": "Logs of topic partitions that are open.",
    "topic_files_open": "File descriptors of topic logs.",
    "fetches_waiting": "Fetch requests that wait for records.",
}
"""Gauges: name without prefix -> help."""

TOPIC_COUNTERS = {"topic_segments_deleted": "Segments of topics deleted by retention."}
"""Counters: name without prefix and suffix -> help."""


Samples = Mapping[tuple[str, ...], float]
"""Label values -> value; one empty tuple where there are no labels."""


class Exposition:
    """A registry of its own for one server, and its pages."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def page(self) -> Slices[bytes]:
        """Everything, in the text format 0.0.4."""
        parts: list[bytes] = []
        snapshots = yield from self._metrics.counted()
        for family in chain(self._process.collect(), _families(self._metrics, snapshots)):
            yield
            parts += yield from _text(family)
        return b"".join(parts)


def _text(family: Metric) -> Slices[list[bytes]]:
    """A family's lines. A long family is formatted in parts, of which the first has the heading."""
    parts: list[bytes] = []
    samples = family.samples
    for start in range(0, max(len(samples), 1), SAMPLES_IN_A_SLICE):
        family.samples = samples[start : start + SAMPLES_IN_A_SLICE]
        text = generate_latest(_Families([family]))
        parts.append(text if start == 0 else text.split(b"\n", HEADING_LINES)[-1])
        yield
    return parts


class _Families(Collector):
    """Finished families, in the form that the library takes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(metrics: Metrics, snapshots: Iterable[PartitionSnapshot]) -> Iterator[Metric]:
    yield _gauge(
        "build_info",
        "Constant 1; the versions are in the labels.",
        {(__version__, platform.python_version()): 1},
        ("version", "python"),
    )
    yield from _partitions(snapshots)
    if metrics.topics is not None:
        topics = metrics.topics()
        for name, text in TOPICS.items():
            yield _gauge(name, text, {(): getattr(topics, name)})
        for name, text in TOPIC_COUNTERS.items():
            yield _counter(name, text, {(): getattr(topics, name)})
    yield from _facts(metrics)
    yield from _requests(metrics.requests)
    yield from _appends(metrics.appends)
    yield from _cleaner(metrics.cleaner)
    yield from _connections(metrics.connections)
    yield _histogram(
        "loop_iteration_seconds",
        "One iteration of the event loop, without waiting: how late a heartbeat may be read.",
        {(): metrics.iterations},
    )
    yield from _log_lines()


def _partitions(snapshots: Iterable[PartitionSnapshot]) -> Iterator[Metric]:
    states = Counter(dict.fromkeys(PARTITION_STATES, 0))
    groups = Counter(dict.fromkeys(GROUP_STATES, 0))
    members = offsets = 0
    for snapshot in snapshots:
        states[snapshot.state] += 1
        groups.update(snapshot.groups)
        members += snapshot.members
        offsets += snapshot.offsets
    yield _gauge(
        "partitions", "Partitions of the offsets log, by state.", _labelled(states), ("state",)
    )
    yield _gauge("groups", "Groups, by state.", _labelled(groups), ("state",))
    yield _gauge("members", "Members of all groups.", {(): members})
    yield _gauge("offsets", "Committed offsets kept.", {(): offsets})


def _facts(metrics: Metrics) -> Iterator[Metric]:
    for name, (label, text) in COUNTERS.items():
        counts = {value: n for (what, value), n in metrics.counts.items() if what == name}
        if label:
            yield _counter(name, text, _labelled(counts), (label,))
        else:
            yield _counter(name, text, {(): counts.get("", 0)})
    times = (
        ("rebalance_seconds", "From the first trigger to the accepted assignment."),
        ("join_seconds", "From the first trigger to the end of the join phase."),
        ("replay_seconds", "Time to load one partition from its log."),
    )
    for name, text in times:
        yield _histogram(name, text, {(): getattr(metrics, name)})


def _requests(by_api: Mapping[int, Histogram]) -> Iterator[Metric]:
    named: dict[tuple[str, ...], Histogram] = {
        (APIS[key].name if key in APIS else str(key),): times for key, times in by_api.items()
    }
    counts = {labels: times.count() for labels, times in named.items()}
    yield _counter("requests", "Requests answered, by API.", counts, ("api",))
    yield _histogram(
        "request_latency_seconds",
        "From a request's last byte to its answer; waiting for a group is part of it.",
        named,
        ("api",),
    )


def _appends(appends: AppendStats) -> Iterator[Metric]:
    yield _histogram(
        "append_latency_seconds",
        "One round of the journal: write and sync, for all partitions with records to write.",
        {(): appends.seconds},
    )
    yield _counter("append_records", "Records made durable.", {(): appends.records})
    yield _counter("append_bytes", "Bytes of record batches made durable.", {(): appends.bytes})
    yield _counter("append_failures", "Rounds that failed.", {(): appends.failures})


def _cleaner(cleaner: CleanerStats) -> Iterator[Metric]:
    for name, text in (
        ("runs", "Compactions of a log that ended well."),
        ("failures", "Compactions that failed; nothing has changed, and they are tried again."),
        ("seconds", "Time spent on compactions."),
        ("bytes_read", "Bytes of segments read by compactions."),
        ("bytes_written", "Bytes of segments written by compactions."),
    ):
        yield _counter(f"cleaner_{name}", text, {(): getattr(cleaner, name)})
    yield _gauge(
        "cleaner_uncleanable_logs",
        "Logs that are not compacted because their segments are damaged.",
        {(): cleaner.uncleanable},
    )


def _connections(connections: ConnectionStats) -> Iterator[Metric]:
    yield _gauge("connections", "Client connections now open.", {(): connections.open})
    for name, text in (
        ("accepted", "Client connections accepted."),
        ("refused", "Connections closed at once because max.connections or .per.ip were open."),
        ("broken", "Connections closed because they sent no Kafka requests, or exceeded a limit."),
        ("idle", "Connections closed after connections.max.idle.ms without a request."),
        ("stuck", "Connections closed in the middle of a request or an answer."),
        ("unaccepted", "Connections not accepted for lack of a file descriptor."),
    ):
        yield _counter(f"connections_{name}", text, {(): getattr(connections, name)})
    yield _counter(
        "slow_turns",
        "Requests that held up the event loop for more than 100 ms.",
        {(): connections.slow_turns},
    )


def _log_lines() -> Iterator[Metric]:
    """Counted for the whole process, as the numbers of ProcessCollector are."""
    for name, text in (
        ("dropped", "Log lines lost because the queue was full or the stream failed."),
        ("suppressed", "Log lines left out because too many were alike."),
    ):
        yield _counter(f"log_lines_{name}", text, {(): getattr(counts, name)})


def _labelled(counts: Mapping[str, float]) -> Samples:
    return {(value,): number for value, number in counts.items()}


def _gauge(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(GaugeMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def _counter(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(CounterMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, number in samples.items():
        family.add_metric(values, number)
    return family


def _histogram(
    name: str, text: str, samples: Mapping[tuple[str, ...], Histogram], labels: Sequence[str] = ()
) -> Metric:
    family = HistogramMetricFamily(f"groupkeeper_{name}", text, labels=labels)
    for values, times in samples.items():
        running, buckets = 0, []
        for bound, count in zip([*map(str, times.bounds), "+Inf"], times.counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(values, buckets, times.total)
    return family
