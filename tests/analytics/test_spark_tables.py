"""The dataflow on Spark makes the tables that the local one makes."""

import shutil
from collections import Counter

import pytest
from pyarrow import dataset

from groupkeeper.analytics.schemas import TABLES
from tests.analytics.churn import churn, told
from tests.analytics.logs import CONTROL, TRANSACTIONAL, batch, commit, log, write_segment
from tests.analytics.stored import analyzed
from tests.analytics.test_snapshots import configured

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COMMITTED, ABORTED = (b"\0\0\0\1", b"\0" * 6), (b"\0\0\0\0", b"\0" * 6)


def counted(table, name):
    rows = table.select(TABLES[name].schema.names).cast(TABLES[name].schema).to_pylist()
    return Counter(map(repr, rows))


def local(data, out):
    analyzed(data, out)
    schemas = {name: table.schema for name, table in TABLES.items()}
    return {
        name: counted(dataset.dataset(out / name, schema, partitioning=None).to_table(), name)
        for name, schema in schemas.items()
    }


TRANSACTIONS = log(
    batch([commit("g", "t", 0, 1)], attributes=TRANSACTIONAL, producer=4000),
    batch([commit("g", "t", 1, 2)], attributes=TRANSACTIONAL, producer=4001),
    batch([commit("g", "t", 2, 3)]),
    batch([ABORTED], attributes=TRANSACTIONAL | CONTROL, producer=4000),
    batch([COMMITTED], attributes=TRANSACTIONAL | CONTROL, producer=4001),
    batch([commit("g", "t", 0, 5)], attributes=TRANSACTIONAL, producer=4000),
    batch([configured("g", **{"consumer.session.timeout.ms": "45000"})]),
)
"""The second and the third commit count."""
OF_TRANSACTIONS, OF_CHURN = 49, 48
"""Partitions of the log."""


@pytest.fixture(scope="module")
def data(broker_copy, tmp_path_factory):
    """A data directory with a log of Kafka's, transactions, and groups in which much happens."""
    folder = tmp_path_factory.mktemp("logs") / "data"
    shutil.copytree(broker_copy, folder)
    written, events = churn()
    write_segment(folder / f"__consumer_offsets-{OF_CHURN}", 0, written)
    write_segment(folder / f"__consumer_offsets-{OF_TRANSACTIONS}", 0, TRANSACTIONS)
    stored = log(*(batch([told(each)], base_time=each.at_ms) for each in events))
    write_segment(folder / f"__group_events-{OF_CHURN}", 0, stored)
    return folder


def test_the_tables_are_those_of_one_machine(spark, data, tmp_path):
    from groupkeeper.analytics.spark import Logs, tables_of

    tables = tables_of(Logs.read(spark, str(data)))
    found = {name: counted(tables[name].toArrow(), name) for name in TABLES}
    for name, rows in local(data, tmp_path / "out").items():
        assert found[name] == rows, name
    assert {name for name, rows in found.items() if not rows} == {"lag"}
    in_transactions = [row for row in found["commits"] if f"'partition': {OF_TRANSACTIONS}" in row]
    assert len(in_transactions) == 2


def test_a_stream_ends_with_the_tables_of_a_batch(spark, data, tmp_path):
    """Records and events come in pieces, and one batch is repeated after a failure."""
    from groupkeeper.analytics.spark import Logs
    from groupkeeper.analytics.streaming import kept

    grown, out = tmp_path / "data", tmp_path / "out"
    segments = {
        each.parent.name: each.read_bytes()
        for number in (OF_CHURN, OF_TRANSACTIONS)
        for each in data.glob(f"*-{number}/*.log")
    }

    def grow(share):
        for name, written in segments.items():
            write_segment(grown / name, 0, cut(written, share))

    def run():
        read = {
            name: spark.readStream.format(name).load(str(grown))
            for name in ("consumer_offsets", "group_events")
        }
        writer = kept(Logs(read["consumer_offsets"], read["group_events"]), str(out)).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    for share in (0.4, 0.9):
        grow(share)
        run()
    last = max(
        (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda each: int(each.name)
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    grow(1)
    run()
    expected = local(grown, tmp_path / "local")
    found = {
        name: counted(spark.read.parquet(str(out / name)).toArrow(), name)
        for name, rows in expected.items()
        if rows and name != "lag"
    }
    for name, rows in found.items():
        assert rows == expected[name], name


def cut(written, share):
    """The whole batches in the first part of a log."""
    from groupkeeper.protocol.record_batch import read_header

    at = 0
    while at < len(written) * share:
        at += read_header(written[at:]).size
    return written[:at]
