"""What the sources do to the Python workers of Spark."""

import gc

import pyspark
import pytest

from groupkeeper.analytics.reading.segments import OFFSETS
from groupkeeper.analytics.sources import readers
from groupkeeper.analytics.sources.options import Options
from groupkeeper.analytics.sources.readers import TopicLogReader
from tests.analytics.logs import log, varied, write_segment


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Calls of gc.freeze, which would last in this process."""
    calls: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    monkeypatch.setattr(readers, "_done", [])
    return calls


def read_twice(folder: object) -> None:
    reader = TopicLogReader(OFFSETS, Options.of({"path": str(folder)}), ["offset"])
    for _ in range(2):
        for partition in reader.partitions():
            assert sum(len(rows) for rows in reader.read(partition))


def test_a_worker_sets_loaded_modules_aside_once(tmp_path, frozen, monkeypatch):
    write_segment(tmp_path / "__consumer_offsets-3", 0, log(*varied()))
    monkeypatch.setattr(pyspark.TaskContext, "get", object)
    read_twice(tmp_path)
    assert len(frozen) == 1


def test_no_other_process_is_changed(tmp_path, frozen):
    write_segment(tmp_path / "__consumer_offsets-3", 0, log(*varied()))
    read_twice(tmp_path)
    assert frozen == []
