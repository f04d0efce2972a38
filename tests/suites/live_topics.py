"""Reads the live topics of a broker with Spark's Kafka source, beside its files, and tells each
check as an event. Arguments: a name for the broker, HOST:PORT, its data directory.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources.live import decode_consumer_offsets, decode_group_events
from tests.suites.checks import tell
from tests.support.spark import open_session

NAMES = {OFFSETS: "what groups committed and were", EVENTS: "events"}
FORMATS = {OFFSETS: "consumer_offsets", EVENTS: "group_events"}
DECODE: dict[str, Callable[[DataFrame], DataFrame]] = {
    OFFSETS: decode_consumer_offsets,
    EVENTS: decode_group_events,
}
FILES_ONLY = {"batch_position", "leader_epoch", "producer_id", "attributes", "problem_bytes"}
FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_WAIT_S = 60

Rows = dict[tuple[int, int], dict[str, Any]]  # by partition and offset


class Live:
    """A broker as Spark sees it."""

    def __init__(self, spark: SparkSession, bootstrap: str, data: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._data = data

    def is_same(self, topic: str) -> None:
        """What the files had before is what is fetched: the log only grows meanwhile."""
        files = self._files(topic)
        live = _rows(DECODE[topic](self._fetched(topic).load()))
        assert files, f"no records in {self._data}"
        assert not [place for place in files if place not in live], "records are missing"
        for place, row in files.items():
            assert live[place] == row, f"{place}: {live[place]} != {row}"

    def is_same_in_a_stream(self, topic: str) -> None:
        files = self._files(topic)
        source = self._fetched(topic, self._spark.readStream).load()
        writer = DECODE[topic](source).writeStream.format("memory").queryName("streamed")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(_WAIT_S), "the stream does not end"
        live = _rows(self._spark.table("streamed"))
        assert {at: live.get(at) for at in files} == files

    def finds_nothing_without_a_setting(self) -> None:
        """As docs/analytics.md warns: no row, and no error."""
        self._spark.conf.set(FETCHING, "false")
        try:
            assert self._fetched(OFFSETS).load().count() == 0
        finally:
            self._spark.conf.set(FETCHING, "true")

    def _files(self, topic: str) -> Rows:
        return _rows(self._spark.read.format(FORMATS[topic]).load(str(self._data)))

    def _fetched(self, topic: str, reader: Any = None) -> Any:  # two kinds
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        partitions = sorted(admin.list_topics(topic, 10).topics[topic].partitions)
        options = {
            "kafka.bootstrap.servers": self._bootstrap,
            "assign": json.dumps({topic: partitions}),
            "kafka.isolation.level": "read_committed",
            "startingOffsets": "earliest",
        }
        return (reader or self._spark.read).format("kafka").options(**options)


def _rows(frame: DataFrame) -> Rows:
    found = (row.asDict(recursive=True) for row in frame.collect())
    return {
        (row["partition"], row["offset"]): {
            name: value for name, value in row.items() if name not in FILES_ONLY
        }
        for row in found
        if row["offset"] is not None
    }


def main(name: str, bootstrap: str, data: str) -> None:
    spark = open_session("live-topics")
    spark.conf.set(FETCHING, "true")
    live = Live(spark, bootstrap, Path(data))
    topics = [topic for topic in FORMATS if any(Path(data).glob(f"{topic}-*"))]
    for topic in topics:
        tell(f"{name}: {NAMES[topic]}", partial(live.is_same, topic))
    tell(f"{name}: a stream", partial(live.is_same_in_a_stream, OFFSETS))
    tell(f"{name}: nothing without the setting", live.finds_nothing_without_a_setting)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
