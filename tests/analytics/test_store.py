"""Tables on disk: runs on a log that grows give what one run on all of it gives."""

import random
import shutil
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyarrow import parquet

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Choice, Request
from groupkeeper.analytics.pipeline import chunks
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.store import tables as merging
from groupkeeper.analytics.store.durable import DurableFiles
from groupkeeper.analytics.store.folder import TableStore
from groupkeeper.analytics.store.resume import NAME as STATE
from groupkeeper.analytics.store.tables import by_day
from tests.analytics.churn import churn
from tests.analytics.logs import NOW, batch, commit, group, write_segment
from tests.analytics.logs import log as log_of
from tests.analytics.power import Death, KilledError
from tests.analytics.stored import analyzed, ask_little, ended, files, read_tables, rows, same, seen
from tests.analytics.test_history import event_log
from tests.analytics.test_minutes import random_log

OFFSETS, EVENTS = "__consumer_offsets-0", "__group_events-0"


@pytest.fixture
def little_asked(monkeypatch):
    ask_little(monkeypatch)


@pytest.fixture(scope="module")
def story():
    return churn()


@pytest.mark.usefixtures("little_asked")
@pytest.mark.parametrize("seed", range(2))
def test_any_cut_gives_what_one_run_gives(seed, story, tmp_path):
    chance = random.Random(seed)
    data, events = story
    told = b"".join(event_log(events)) if seed % 2 else b""
    cuts = sorted(chance.randrange(1, len(data)) for _ in range(2))
    log, out = tmp_path / "log", tmp_path / "out"
    for cut in [*cuts, len(data)]:
        write_segment(log / OFFSETS, 0, data[:cut])
        if told:
            # Events are written before what they tell of.
            write_segment(log / EVENTS, 0, told[: len(told) * (len(data) + cut) // len(data) // 2])
        assert analyzed(log, out) == 0
    assert analyzed(log, tmp_path / "at once") == 0
    same(rows(out), rows(tmp_path / "at once"))


@pytest.mark.usefixtures("little_asked")
@pytest.mark.parametrize("seed", range(3))
def test_transactions_may_be_cut(seed, tmp_path):
    chance = random.Random(seed)
    batches, _ = random_log(seed)
    log, out = tmp_path / "log", tmp_path / "out"
    for cut in [*sorted(chance.sample(range(1, len(batches)), 2)), len(batches)]:
        write_segment(log / OFFSETS, 0, b"".join(batches[:cut]))
        analyzed(log, out)
    analyzed(log, tmp_path / "at once")
    same(rows(out), rows(tmp_path / "at once"))


@pytest.mark.usefixtures("little_asked")
@pytest.mark.parametrize("rebuild", [False, True])
def test_a_table_without_rows_is_a_folder_too(rebuild, tmp_path):
    log, out = tmp_path / "log", tmp_path / "out"
    first = batch([commit("g", "t", 0, 1)])
    write_segment(log / OFFSETS, 0, first)
    assert analyzed(log, out) == 0
    write_segment(log / OFFSETS, 0, log_of(first, batch([group("g", 1, "m")])))
    assert report.analyze([log], Request(out, rebuild=rebuild)) == 0
    for name, table in TABLES.items():
        found = parquet.read_table(out / name)
        assert found.drop_columns("day").schema == table.schema
        assert len(found) == len(rows(out)[name])
    assert len(rows(out)["rounds"]) == 1


def test_without_news_no_file_is_touched(story, tmp_path, capsys):
    data, events = story
    log, out = tmp_path / "log", tmp_path / "out"
    write_segment(log / OFFSETS, 0, data + b"torn")
    write_segment(log / EVENTS, 0, b"".join(event_log(events)) + b"torn")
    analyzed(log, out)
    first, before = capsys.readouterr().out, files(out)
    analyzed(log, out)
    assert files(out) == before
    assert capsys.readouterr().out == first
    assert first.count("unfinished batch") == 2


@pytest.mark.usefixtures("little_asked")
def test_a_run_that_is_killed_anywhere_leaves_no_trace(story, tmp_path, monkeypatch):
    data, events = story
    log, out = tmp_path / "log", tmp_path / "out"
    few = len(data) // 9
    write_segment(log / OFFSETS, 0, data[: few // 2])
    write_segment(log / EVENTS, 0, b"".join(event_log(events[:20])))
    analyzed(log, out)
    write_segment(log / OFFSETS, 0, data[:few])
    write_segment(log / EVENTS, 0, b"".join(event_log(events[:40])))
    shutil.copytree(out, tmp_path / "alive")
    before = seen(out)
    death = Death(monkeypatch)
    analyzed(log, tmp_path / "alive")
    expected, steps = rows(tmp_path / "alive"), [*death.steps]
    counts = next(at for at, each in enumerate(steps) if each[-1] == STATE)
    assert 5 < counts < len(steps) - 20
    for at in {*range(0, len(steps), 7), counts - 1, counts, counts + 1, len(steps) - 1}:
        folder = shutil.copytree(out, tmp_path / f"killed-{at}")
        death.at, death.steps = at, []
        with pytest.raises(KilledError):
            analyzed(log, folder)
        death.at = None
        if at <= counts:
            assert seen(folder) == before
        if at >= len(steps) - 2:
            assert seen(folder) == {name: expected[name] for name in TABLES}
        analyzed(log, folder)
        same(rows(folder), expected)
        assert ended(folder)


def refused(capsys, log, out, **options):
    assert analyzed(log, out, **options) == 2
    printed, said = capsys.readouterr()
    assert (printed, said.count("\n")) == ("", 1)
    return said


@pytest.fixture
def folder(little_asked, tmp_path, capsys):
    """A log, and what was made of it."""
    made = log_of(*(batch([commit("g", "t", 0, number)]) for number in range(20)))
    write_segment(tmp_path / "log" / OFFSETS, 0, made)
    analyzed(tmp_path / "log", tmp_path / "out")
    capsys.readouterr()
    return tmp_path / "log", tmp_path / "out"


def test_a_log_that_went_backwards_is_refused(folder, capsys):
    log, out = folder
    path = log / OFFSETS / f"{0:020d}.log"
    whole = path.read_bytes()
    before = files(out)
    path.write_bytes(whole[: len(whole) // 2])
    said = refused(capsys, log, out)
    assert "ends before offset 20, up to which it was read" in said
    assert "--rebuild" in said
    other = log_of(*(batch([commit("g", "t", 1, number)]) for number in range(25)))
    path.write_bytes(other)
    said = refused(capsys, log, out)
    assert "has another batch at offset 19 (leader epoch 5, was 5)" in said
    data = bytearray(whole)
    last = data.rindex((19).to_bytes(8, "big"), 0, len(data) - 40)
    data[last + 12 : last + 16] = (6).to_bytes(4, "big")
    path.write_bytes(data)
    assert "leader epoch 6, was 5" in refused(capsys, log, out)
    assert files(out) == before
    assert analyzed(log, out, rebuild=True) == 0
    assert analyzed(log, out.with_name("at once")) == 0
    same(rows(out), rows(out.with_name("at once")))
    assert len([*out.glob("commits/*/*")]) == 1


def test_a_log_that_is_not_there_is_refused(folder, capsys):
    log, out = folder
    (log / OFFSETS).rename(log / "__consumer_offsets-1")
    assert "__consumer_offsets-0 was read into this folder and is now missing" in refused(
        capsys, log, out
    )


def test_folders_with_other_content_are_refused(folder, tmp_path, capsys):
    log, out = folder
    asked = {"choice": Choice(frozenset({"g"}))}
    assert "holds all groups: ask for the same (--group)" in refused(capsys, log, out, **asked)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    assert "name a new or an empty folder" in refused(capsys, log, tmp_path / "other")
    state = out / STATE
    with ZipFile(state) as packed:
        progress = packed.read("progress.json")
    for changed, said in {
        progress.replace(b'"format": 6', b'"format": 5'): "was written by another version",
        progress + b"}": "state.zip cannot be read",
    }.items():
        with ZipFile(state, "w") as packed:
            packed.writestr("progress.json", changed)
        assert said in refused(capsys, log, out)
    assert analyzed(log, out, rebuild=True) == 0
    capsys.readouterr()
    with TableStore(out):
        assert "another analysis writes to" in refused(capsys, log, out)
    assert report.analyze([log], Request(rebuild=True)) == 2


def test_compaction_of_what_was_read_is_no_other_log(folder, tmp_path):
    log, out = folder
    path = log / OFFSETS / f"{0:020d}.log"
    data = path.read_bytes()
    size = len(data) // 20
    path.write_bytes(data[19 * size :])
    write_segment(log / OFFSETS, 20, batch([commit("g", "t", 0, 20)], 20))
    assert analyzed(log, out) == 0
    found = read_tables(out)
    assert found["commits"].column("offset").to_pylist() == [*range(21)]
    assert found["coverage"].column("known_from_offset").to_pylist() == [0]


def test_what_was_removed_before_it_was_read_is_told(folder, capsys):
    log, out = folder
    (log / OFFSETS / f"{0:020d}.log").unlink()
    write_segment(log / OFFSETS, 30, batch([commit("g", "t", 0, 30)], 30))
    assert analyzed(log, out) == 0
    assert "offsets removed before they were read: 20 to 29 are missing" in (
        capsys.readouterr().out
    )
    found = read_tables(out)
    assert found["commits"].column("offset").to_pylist() == [*range(20), 30]
    (row,) = found["coverage"].to_pylist()
    assert (row["known_from_offset"], row["first_offset"], row["records"]) == (30, 0, 21)


def test_only_what_is_new_is_read(folder, monkeypatch):
    log, out = folder
    more = [batch([commit("g", "t", 0, number)], number) for number in range(20, 22)]
    path = log / OFFSETS / f"{0:020d}.log"
    old = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"".join(more))
    read = []

    def parsed(split, *arguments):
        read.append((split.start, split.size))
        return parse_split(split, *arguments)

    monkeypatch.setattr(chunks, "parse_split", parsed)
    analyzed(log, out)
    assert read == [(old, len(b"".join(more)))]
    write_segment(log / OFFSETS, 22, batch([commit("g", "t", 0, 22)], 22))
    read.clear()
    analyzed(log, out)
    assert read == [(0, len(more[0]))]


def test_days_are_found_by_their_folder(tmp_path):
    day = 86_400_000
    days = [commit("g", "t", 0, number, time=NOW + number * day) for number in range(3)]
    write_segment(tmp_path / "log" / OFFSETS, 0, log_of(batch(days)))
    out = tmp_path / "out"
    analyzed(tmp_path / "log", out)
    assert sorted(path.name for path in (out / "commits").iterdir()) == [
        *("day=2023-11-14", "day=2023-11-15", "day=2023-11-16")
    ]
    read = parquet.read_table(out / "commits").to_pylist()
    assert {row["time"].date().isoformat() for row in read} == {row["day"] for row in read}
    since = read_tables(out, ["commits"], NOW + day)["commits"]
    assert since.column("committed_offset").to_pylist() == [1, 2]
    assert since.schema == TABLES["commits"].schema
    assert not len(read_tables(out, ["rounds"], NOW + 9 * day)["rounds"])


def test_rows_without_a_time_have_the_default_folder():
    times = [None, 0, -1, 86_400_000, 2**62]
    for kind in pa.int64(), pa.timestamp("ms", "UTC"):
        rows = pa.table({"time": pa.array(times, kind)})
        found = {
            day: each["time"].cast(pa.int64()).to_pylist() for day, each in by_day(rows, "time")
        }
        assert found == {
            "__HIVE_DEFAULT_PARTITION__": [None, -1, 2**62],
            "1970-01-01": [0],
            "1970-01-02": [86_400_000],
        }


def test_many_small_files_become_one(folder, monkeypatch, capsys):
    log, out = folder
    monkeypatch.setattr(merging, "MOST_FILES", 3)
    path = log / OFFSETS / f"{0:020d}.log"
    for number in range(20, 26):
        path.write_bytes(path.read_bytes() + batch([commit("g", "t", 0, number)], number))
        analyzed(log, out)
    found = sorted(each.name[:6] for each in out.glob("commits/*/*"))
    assert found == ["000005", "000006", "000007"]
    analyzed(log, out.with_name("at once"))
    same(rows(out), rows(out.with_name("at once")))


def test_damage_is_told_by_later_runs_and_once(folder):
    log, out = folder
    path = log / OFFSETS / f"{0:020d}.log"
    bad = bytearray(batch([commit("g", "t", 0, 20)], 20))
    bad[-1] ^= 1
    good = batch([group("g", 1, "m")], 21)
    for more in (bytes(bad), good, batch([commit("g", "t", 0, 22)], 22) + b"torn"):
        path.write_bytes(path.read_bytes() + more)
        assert analyzed(log, out) == 1
    at_once = out.with_name("at once")
    assert analyzed(log, at_once) == 1
    same(rows(out), rows(at_once))
    told = parquet.read_table(out / "report" / "problems.parquet").to_pylist()
    assert [row["problem"].partition(":")[0] for row in told] == [
        "batch with a wrong checksum skipped",
        "unfinished batch at the end of the log",
    ]


def test_a_full_disk_leaves_the_folder_as_it_was(folder, monkeypatch, capsys):
    log, out = folder
    write_segment(log / OFFSETS, 20, batch([commit("g", "t", 0, 20)], 20))
    before = files(out)
    write = DurableFiles.write

    def full(of, path, data):
        if path.endswith("offsets.parquet"):
            raise OSError(28, "No space left on device")
        write(of, path, data)

    monkeypatch.setattr(DurableFiles, "write", full)
    assert analyzed(log, out) == 1
    said = capsys.readouterr().err
    assert said == f"groupkeeper: {out} was not written: No space left on device\n"
    assert files(out) == before
    assert ended(out)
