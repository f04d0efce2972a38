"""The server's numbers in Prometheus' text format: names, help, labels.

Read at a scrape from `metrics.Metrics`, in slices; nothing is kept here. Names follow Prometheus'
conventions: prefix `groupkeeper_`, seconds and bytes, `_total` for counters. Imported with the
first scrape, because importing prometheus-client is slow.
"""

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from groupkeeper import __version__
from groupkeeper.observe.fact_counters import COUNTERS, EXPECTED
from groupkeeper.observe.group_rows import Sight
from groupkeeper.observe.group_series import Series
from groupkeeper.observe.log_writer import counts
from groupkeeper.observe.metrics import (
    AppendStats,
    CleanerStats,
    ConnectionStats,
    Histogram,
    Metrics,
    PartitionSnapshot,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.registry import APIS
from groupkeeper.turns import Slices

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SAMPLES_IN_A_SLICE = 200
"""Takes less than a millisecond."""
PIECE_BYTES = 256 * 1024
"""Approximate size of the pieces of a page."""
HEADING_LINES = 2
"""HELP and TYPE."""

GROUP_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
PARTITION_STATES = ("loading", "active", "closed", "absent", "draining")

TOPICS = {
    "topics": "Topics, without internal ones.",
    "topic_partitions": "Partitions of these topics.",
    "topic_logs_open": "Logs of topic partitions that are open.",
    "topic_files_open": "File descriptors of topic logs.",
    "fetches_waiting": "Fetch requests that wait for records.",
}
"""Gauges: name without prefix -> help."""

TOPIC_COUNTERS = {
    "topic_segments_deleted": "Segments of topics deleted by retention.",
    "topic_log_open_failures": "Failed attempts to open topic logs; they are retried.",
    "topic_log_write_failures": "Failed writes to topic logs; clients may retry.",
}
"""Counters: name without prefix and suffix -> help."""

CLEANER_COUNTERS = {
    "runs": "Compactions of a log that succeeded.",
    "failures": "Compactions that failed; nothing has changed, and they are retried.",
    "hung": "Failed compactions that were killed because they made no progress.",
    "seconds": "Time spent on compactions.",
    "bytes_read": "Bytes of segments read by compactions.",
    "bytes_written": "Bytes of segments written by compactions.",
}
CONNECTION_COUNTERS = {
    "accepted": "Client connections accepted.",
    "refused": "Connections closed at once because max.connections or .per.ip were open.",
    "broken": "Connections closed because they sent no Kafka requests, or exceeded a limit.",
    "idle": "Connections closed after connections.max.idle.ms without a request.",
    "stuck": "Connections closed in the middle of a request or an answer.",
    "unaccepted": "Connections not accepted for lack of a file descriptor.",
    "handshakes_failed": "Connections closed because TLS failed or took too long.",
}
LOG_LINE_COUNTERS = {
    "dropped": "Log lines lost because the queue was full or the stream failed.",
    "suppressed": "Log lines suppressed because too many were alike.",
}
"""For the whole process, like the numbers of ProcessCollector."""
OBSERVER = {
    "observer_records_left": "Records of the offsets log that are left to read.",
    "observer_partitions_without_end": "Partitions beyond the limit, whose lag is not known.",
}
"""Gauges of an observer: name without prefix -> help."""
OBSERVER_COUNTERS = {
    "observer_records_read": "Records of the offsets log read.",
    "observer_bytes_read": "Bytes of the offsets log read.",
    "observer_fetches": "Responses of brokers.",
    "observer_fetch_failures": "Failed requests to brokers, and errors in responses; retried.",
    "observer_losses": "Times that records were lost or compacted before they were read.",
    "observer_records_unreadable": "Records and batches that cannot be decoded.",
    "observer_groups_dropped": "Groups whose state was dropped because of a limit.",
    "observer_events_dropped": "Events that were too large to be stored.",
    "observer_asks": "Requests about groups to coordinators.",
    "observer_ask_failures": "Such requests that failed, and groups with an error in an answer.",
    "observer_asks_dropped": "Groups that were not described because of a limit.",
    "observer_lag_asks": "Requests about topics to leaders, for the lag.",
    "observer_lag_ask_failures": "Such requests that failed, or were denied.",
    "observer_answers_dropped": "Names of topics and session timeouts beyond a limit, not kept.",
    "observer_offsets_dropped": "Commits for further partitions beyond a limit, not kept.",
}
"""Counters of an observer: name without prefix and suffix -> help."""
TIMES = {
    "rebalance_seconds": "From the first trigger to the accepted assignment.",
    "join_seconds": "From the first trigger to the end of the join phase.",
    "slowest_joiner_seconds": "From the first trigger until the last member had joined.",
    "replay_seconds": "Time to load one partition from its log.",
}
"""Histograms: name without prefix -> help."""

_ERRORS = {int(each): each.name for each in ErrorCode}


class Exposition:
    """A private registry of one server, and its pages."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._series = Series(metrics.series_most)

    async def look(self) -> Sight | None:
        """Collect the groups and topics of the next page. Waits for the disk if logs are closed."""
        look = self._metrics.look
        return None if look is None else await look(self._series.shown)

    def page(self, sight: Sight | None = None) -> Slices[list[bytes]]:
        """Return the text format 0.0.4, in pieces. `sight`: groups and topics, from `look`."""
        parts: list[bytes] = []
        snapshots = yield from self._metrics.counted()
        for family in chain(self._process.collect(), _families(self._metrics, snapshots)):
            yield
            parts += yield from _text(family)
        if sight is not None:
            parts += yield from self._series.text(sight)
        return (yield from _together(parts))


def _together(parts: Iterable[bytes]) -> Slices[list[bytes]]:
    """Merge parts into fewer pieces."""
    pieces, some, size = list[bytes](), list[bytes](), 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(some))
            some, size = [], 0
            yield
    return [*pieces, b"".join(some)]


def _text(family: Metric) -> Slices[list[bytes]]:
    """Format a family's lines. A long family is formatted in parts; the first has the heading."""
    parts: list[bytes] = []
    samples = family.samples
    for start in range(0, max(len(samples), 1), SAMPLES_IN_A_SLICE):
        family.samples = samples[start : start + SAMPLES_IN_A_SLICE]
        text = generate_latest(_Families([family]))
        parts.append(text if start == 0 else text.split(b"\n", HEADING_LINES)[-1])
        yield
    return parts


class _Families(Collector):
    """Finished families, in the form that the library requires."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(metrics: Metrics, snapshots: Iterable[PartitionSnapshot]) -> Iterator[Metric]:
    yield gauge(
        "build_info",
        "Constant 1; the versions are in the labels.",
        {(__version__, platform.python_version()): 1},
        ("version", "python"),
    )
    yield from _partitions(snapshots)
    if metrics.topics is not None:
        number = metrics.topics().__getitem__
        yield from _plain(gauge, "", TOPICS, number)
        yield from _plain(counter, "", TOPIC_COUNTERS, number)
    if metrics.observer is not None:
        number = metrics.observer().__getitem__
        yield from _plain(gauge, "", OBSERVER, number)
        yield from _plain(counter, "", OBSERVER_COUNTERS, number)
    yield from _facts(metrics)
    yield from _requests(metrics.requests)
    yield _answers(metrics)
    yield counter(
        "denied",
        "Requests, and rows of requests, that the authorizer denied.",
        metrics.denied,
        ("api", "resource"),
    )
    yield from _appends(metrics.appends)
    yield from _cleaner(metrics.cleaner)
    yield from _connections(metrics.connections)
    yield gauge(
        "certificate_expires_seconds",
        "Time until the certificate of a TLS listener expires; negative afterwards.",
        labelled(metrics.certificates()),
        ("listener",),
    )
    yield counter(
        "authentications",
        "Logins of clients, by listener, mechanism and outcome.",
        metrics.authentications,
        ("listener", "mechanism", "outcome"),
    )
    yield histogram(
        "loop_iteration_seconds",
        "One iteration of the event loop, without waiting: how late a heartbeat may be read.",
        {(): metrics.iterations},
    )
    yield from _plain(counter, "log_lines_", LOG_LINE_COUNTERS, partial(getattr, counts))


def _partitions(snapshots: Iterable[PartitionSnapshot]) -> Iterator[Metric]:
    states = Counter(dict.fromkeys(PARTITION_STATES, 0))
    groups = Counter(dict.fromkeys(GROUP_STATES, 0))
    members = offsets = seats = standbys = 0
    for snapshot in snapshots:
        states[snapshot.state] += 1
        groups.update(snapshot.groups)
        members += snapshot.members
        seats += snapshot.seats
        standbys += snapshot.standbys
        offsets += snapshot.offsets
    yield gauge(
        "partitions", "Partitions of the offsets log, by state.", labelled(states), ("state",)
    )
    yield gauge("groups", "Groups, by state.", labelled(groups), ("state",))
    yield gauge("members", "Members of all groups.", {(): members})
    yield gauge("standbys", "Members that get no partitions for now.", {(): standbys})
    yield gauge("seats", "Lost members whose partitions are reserved.", {(): seats})
    yield gauge("offsets", "Committed offsets kept.", {(): offsets})


def _facts(metrics: Metrics) -> Iterator[Metric]:
    by_name: dict[str, dict[tuple[str, ...], int]] = {
        name: dict.fromkeys(about.known, 0) for name, about in COUNTERS.items()
    }
    for (name, *values), count in metrics.counts.items():
        by_name[name][tuple(values)] = count
    for name, about in COUNTERS.items():
        yield counter(name, about.text, by_name[name], about.labels)
    yield counter(
        "not_stable_seconds",
        "Time spent in rebalances, over all groups; counted when a rebalance ends.",
        {(): metrics.not_stable_ms / 1000},
    )
    yield counter(
        "reserved_partition_seconds",
        "Partitions times the time for which they were reserved; counted when that ends.",
        {(): metrics.reserved_partition_ms / 1000},
    )
    for name, text in TIMES.items():
        yield histogram(name, text, {(): getattr(metrics, name)})


def _requests(by_api: Mapping[int, Histogram]) -> Iterator[Metric]:
    named: dict[tuple[str, ...], Histogram] = {(_api(key),): times for key, times in by_api.items()}
    counts = {labels: times.count() for labels, times in named.items()}
    yield counter("requests", "Requests answered, by API.", counts, ("api",))
    yield histogram(
        "request_latency_seconds",
        "Time from a request's last byte to its answer, including waits for a group.",
        named,
        ("api",),
    )


def _answers(metrics: Metrics) -> Metric:
    """Return the counter of answers. Those without an error are not counted on the hot path."""
    errors = metrics.answer_errors
    samples: dict[tuple[str, ...], float] = {
        (_api(key), error): 0 for key in metrics.requests for error in EXPECTED.get(key, ())
    }
    for key, times in metrics.requests.items():
        samples[_api(key), "NONE"] = max(0, times.count() - errors.answers[key])
    for (key, code), count in errors.by_code.items():
        samples[_api(key), _ERRORS.get(code, str(code))] = count
    text = "Requests answered, by API and error; NONE if there was none."
    return counter("answers", text, samples, ("api", "error"))


def _api(key: int) -> str:
    return APIS[key].name if key in APIS else str(key)


def _appends(appends: AppendStats) -> Iterator[Metric]:
    yield histogram(
        "append_latency_seconds",
        "One flush of the journal: write and sync, for all partitions with records to write.",
        {(): appends.seconds},
    )
    yield counter("append_records", "Records made durable.", {(): appends.records})
    yield counter("append_bytes", "Bytes of record batches made durable.", {(): appends.bytes})
    yield counter("append_failures", "Flushes that failed.", {(): appends.failures})


def _cleaner(cleaner: CleanerStats) -> Iterator[Metric]:
    yield from _plain(counter, "cleaner_", CLEANER_COUNTERS, partial(getattr, cleaner))
    yield gauge(
        "cleaner_uncleanable_logs",
        "Logs that are not compacted because their segments are damaged.",
        {(): cleaner.uncleanable},
    )
    yield gauge(
        "cleaner_running_seconds",
        "Duration of the running compaction so far; 0 if none is running.",
        {(): cleaner.running_s},
    )
    yield gauge(
        "cleaner_since_last_run_seconds",
        "Time since the last compaction ended, or the server started.",
        {(): cleaner.since_s},
    )


def _connections(connections: ConnectionStats) -> Iterator[Metric]:
    yield gauge("connections", "Client connections now open.", {(): connections.open})
    numbers = partial(getattr, connections)
    yield from _plain(counter, "connections_", CONNECTION_COUNTERS, numbers)
    yield counter(
        "slow_turns",
        "Requests that held up the event loop for more than 100 ms.",
        {(): connections.slow_turns},
    )


# -- families of prometheus-client from plain numbers, under the prefix `groupkeeper_` -------------

Samples = Mapping[tuple[str, ...], float]
"""Label values -> value; one empty tuple where there are no labels."""


def labelled(counts: Mapping[str, float]) -> Samples:
    """Return the samples of a family with one label."""
    return {(value,): number for value, number in counts.items()}


def gauge(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(GaugeMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def counter(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(CounterMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, number in samples.items():
        family.add_metric(values, number)
    return family


def histogram(
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


def _plain(
    make: Callable[[str, str, Samples], Metric],
    prefix: str,
    texts: Mapping[str, str],
    number: Callable[[str], float],
) -> Iterator[Metric]:
    """Yield families without labels, by name and help."""
    for name, text in texts.items():
        yield make(f"{prefix}{name}", text, {(): number(name)})
