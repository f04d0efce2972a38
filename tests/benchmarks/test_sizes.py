"""The day of a log: what it leaves."""

from benchmarks.sizes import DAY_S, KEYS, LOGS, Day
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.settings.table import Settings

NOW = 1_800_000_000_000
COMMITS = 4_000


def records(folder):
    for file in sorted(folder.glob("**/*.log")):
        data = file.read_bytes()
        for header in iter_batches(data):
            yield from decode_records(data, header)


def played(folder, **settings):
    day = Day(folder, COMMITS / DAY_S, 1, NOW, Settings(**settings))
    return day, day.run()


def test_a_day_that_is_not_compacted_has_every_commit_with_its_time(tmp_path):
    day, left = played(tmp_path / "day")
    found = list(records(tmp_path / "day"))
    assert len(found) == COMMITS
    assert NOW - DAY_S * 1000 <= found[0].timestamp_ms < found[-1].timestamp_ms < NOW
    assert len({record.key for record in found}) == KEYS // LOGS
    assert (day.compactions, day.most) == (0, 0)
    assert left >= day.written


def test_a_day_that_is_compacted_keeps_the_newest_of_each_key(tmp_path):
    played(tmp_path / "all")
    newest = {record.key: record.value for record in records(tmp_path / "all")}
    day, left = played(tmp_path / "day", offsets_topic_segment_bytes=100_000)
    found = list(records(tmp_path / "day"))
    assert {record.key: record.value for record in found} == newest
    assert day.compactions
    assert left < day.most
    assert left < day.written / 2
