"""The metric series of single groups and topics, written as text in slices.

There are two sets of families: Groupkeeper's own, and those of kafka_exporter under its names and
labels, so that existing dashboards show this server. There may be hundreds of thousands of samples,
so the lines are written here and not by prometheus-client. The number of series is limited: further
groups and topics are summed under the name `OTHER`.

Source: kafka_exporter 1.9, its README and `kafka_exporter.go`, for names, labels and meanings.
"""

from typing import Final

from groupkeeper import __version__
from groupkeeper.observe.group_rows import GroupRow, ReplicaRow, Sight, TopicRow
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import Slices

LINES_IN_A_SLICE: Final = 500
"""Takes about half a millisecond."""

OTHER: Final = "__other__"
"""The group or topic under which the rest is summed up."""

_log = Logger("metrics")


FAMILIES: Final = {
    "kafka_brokers": "Brokers of the cluster.",
    "kafka_exporter_build_info": "Constant 1: this server in place of the exporter.",
    "kafka_topic_partitions": "Partitions of the topic.",
    "kafka_topic_partition_current_offset": "End of the log: the offset of the next record.",
    "kafka_topic_partition_oldest_offset": "Start of the log: the first offset that is kept.",
    "kafka_topic_partition_in_sync_replica": "Replicas in sync: 1 for topics of a server.",
    "kafka_topic_partition_leader": "Node id of the leader.",
    "kafka_topic_partition_leader_is_preferred": "Whether it is the first replica.",
    "kafka_topic_partition_replicas": "Replicas: 1 for topics of a server.",
    "kafka_topic_partition_under_replicated_partition": "Whether replicas are missing.",
    "kafka_consumergroup_current_offset": "The committed offset.",
    "kafka_consumergroup_current_offset_sum": "Sum of the committed offsets of a topic.",
    "kafka_consumergroup_lag": "Records left to read.",
    "kafka_consumergroup_lag_sum": "Records left to read in a topic.",
    "kafka_consumergroup_members": "Members of the group.",
    "groupkeeper_group_lag_seconds": "Age of the oldest record left to read, to the batch.",
    "groupkeeper_group_last_rebalance_timestamp_seconds": "Start of the last rebalance.",
    "groupkeeper_group_rebalances_total": "Rebalances since the group was created or loaded.",
    "groupkeeper_group_state_timestamp_seconds": "Time when the group entered its state.",
    "groupkeeper_group_static_member_silence_seconds": "Silence of the quietest static member.",
    "groupkeeper_groups_without_series": "Groups beyond metrics.max.series.",
    "groupkeeper_topics_without_series": "Topics beyond metrics.max.series.",
}
"""Name -> help of each family here: a counter if the name ends in `_total`, else a gauge."""

_PER_PARTITION: Final = 7
_PER_GROUP: Final = 3
"""Members, rebalances and state; further series depend on the group."""
_PER_LAG: Final = 2
_PER_GROUP_TOPIC: Final = 3


class Series:
    """Writes the series of successive scrapes. A group that has series keeps them."""

    def __init__(self, most: int) -> None:
        """`most`: maximum number of series for groups, and for topics."""
        self._most = most
        self.shown: dict[str, None] = {}
        """The groups that had series in the last scrape."""
        self._warned = {"groups": False, "topics": False}

    def text(self, sight: Sight) -> Slices[list[bytes]]:
        """Return the part of the page about groups and topics, in pieces."""
        out = _Out()
        out.add("kafka_brokers", "", sight.brokers)
        out.add("kafka_exporter_build_info", _labels(version=__version__), 1)
        yield from self._topics(sight, out)
        yield from self._groups(sight, out)
        return out.finish()

    def _topics(self, sight: Sight, out: "_Out") -> Slices[None]:
        left, beyond, partitions = self._most, 0, 0
        for name in sight.topics:
            row = yield from sight.topic(name)
            if row is None:
                continue
            size = 1 + _PER_PARTITION * row.partitions
            if size <= left:
                left -= size
                yield from _write_topic(row, sight.node_id, out)
            else:
                beyond += 1
                partitions += row.partitions
            if out.is_full():
                yield
        if beyond:
            out.add("kafka_topic_partitions", _labels(topic=OTHER), partitions)
        out.add("groupkeeper_topics_without_series", "", beyond)
        self._warn("topics", beyond)

    def _groups(self, sight: Sight, out: "_Out") -> Slices[None]:
        left, beyond, members, lag = self._most, 0, 0, 0
        shown = dict[str, None]()
        for group_id in sight.groups:
            row = yield from sight.group(group_id)
            if row is None:
                continue
            size = _PER_GROUP + bool(row.cause) + (row.silence_ms is not None)
            size += _PER_LAG * row.partitions + _PER_GROUP_TOPIC * len(row.topics)
            if size <= left:
                left -= size
                shown[group_id] = None
                _write_group(row, out)
                yield from _write_lags(row, out)
            else:
                beyond += 1
                members += row.members
                lag += row.lag
            if out.is_full():
                yield
        if beyond:
            other = _labels(consumergroup=OTHER)
            out.add("kafka_consumergroup_members", other, members)
            both = _labels(consumergroup=OTHER, topic=OTHER)
            out.add("kafka_consumergroup_lag_sum", both, lag)
        out.add("groupkeeper_groups_without_series", "", beyond)
        self._warn("groups", beyond)
        self.shown = shown

    def _warn(self, what: str, beyond: int) -> None:
        """Log one line, until all have series again."""
        if beyond and self._most and not self._warned[what]:
            limit = {"limit": "metrics.max.series", "most": self._most}
            _log.warning(f"not all {what} have series", without=beyond, **limit)
        self._warned[what] = bool(beyond)


class _Out:
    """Lines by family: the format requires the lines of a family to be consecutive."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {name: [] for name in FAMILIES}
        self._pieces: dict[str, list[bytes]] = {name: [] for name in FAMILIES}
        self._count = 0

    def add(self, name: str, labels: str, value: float) -> None:
        self._lines[name].append(f"{name}{labels} {value}\n")
        self._count += 1

    def is_full(self) -> bool:
        """Return whether a slice is over."""
        if self._count < LINES_IN_A_SLICE:
            return False
        self._flush()
        return True

    def _flush(self) -> None:
        self._count = 0
        for name, lines in self._lines.items():
            if lines:
                self._pieces[name].append("".join(lines).encode("utf-8", "backslashreplace"))
                lines.clear()

    def finish(self) -> list[bytes]:
        self._flush()
        parts: list[bytes] = []
        for name, text in FAMILIES.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            parts.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode())
            parts += self._pieces[name]
        return parts


def _write_topic(row: TopicRow, node_id: int, out: _Out) -> Slices[None]:
    topic, alone = _quoted(row.topic), ReplicaRow(node_id, True, 1, 1)
    out.add("kafka_topic_partitions", f"{{topic={topic}}}", row.partitions)
    for partition in range(row.partitions):
        labels = f'{{topic={topic},partition="{partition}"}}'
        if partition in row.ends:
            start, end = row.ends[partition]
            out.add("kafka_topic_partition_current_offset", labels, end)
            out.add("kafka_topic_partition_oldest_offset", labels, start)
        leader, is_preferred, replicas, in_sync = row.replicas.get(partition, alone)
        out.add("kafka_topic_partition_in_sync_replica", labels, in_sync)
        out.add("kafka_topic_partition_leader", labels, leader)
        out.add("kafka_topic_partition_leader_is_preferred", labels, int(is_preferred))
        out.add("kafka_topic_partition_replicas", labels, replicas)
        under = "kafka_topic_partition_under_replicated_partition"
        out.add(under, labels, int(in_sync < replicas))
        if out.is_full():
            yield


def _write_group(row: GroupRow, out: _Out) -> None:
    group = _quoted(row.group)
    out.add("kafka_consumergroup_members", f"{{consumergroup={group}}}", row.members)
    out.add("groupkeeper_group_rebalances_total", f"{{group={group}}}", row.rebalances)
    since = f'{{group={group},state="{row.state}"}}'
    out.add("groupkeeper_group_state_timestamp_seconds", since, row.state_since_ms / 1000)
    if row.cause:
        began = f'{{group={group},cause="{row.cause}"}}'
        name = "groupkeeper_group_last_rebalance_timestamp_seconds"
        out.add(name, began, row.rebalanced_ms / 1000)
    if row.silence_ms is not None:
        name = "groupkeeper_group_static_member_silence_seconds"
        out.add(name, f"{{group={group}}}", row.silence_ms / 1000)


def _write_lags(row: GroupRow, out: _Out) -> Slices[None]:
    group = _quoted(row.group)
    for name, lags in row.topics.items():
        topic = _quoted(name)
        labels = f"{{consumergroup={group},topic={topic}}}"
        for each in lags:
            one = f'{labels[:-1]},partition="{each.partition}"}}'
            out.add("kafka_consumergroup_current_offset", one, each.committed)
            out.add("kafka_consumergroup_lag", one, each.lag)
            if out.is_full():
                yield
        committed = sum(each.committed for each in lags)
        out.add("kafka_consumergroup_current_offset_sum", labels, committed)
        out.add("kafka_consumergroup_lag_sum", labels, sum(each.lag for each in lags))
        known = [each.lag_ms for each in lags if each.lag_ms is not None]
        if known:
            seconds = max(known) / 1000
            out.add("groupkeeper_group_lag_seconds", f"{{group={group},topic={topic}}}", seconds)


def _labels(**values: str) -> str:
    return "{" + ",".join(f"{name}={_quoted(value)}" for name, value in values.items()) + "}"


def _quoted(text: str) -> str:
    """Quote a label value for the text format."""
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
