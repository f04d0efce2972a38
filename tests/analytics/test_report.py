"""`analyze` on the copy of a real broker's log, against what that broker answered itself."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Choice, Request
from groupkeeper.analytics.pipeline.run import Trunk
from groupkeeper.analytics.reading.problems import is_damage
from groupkeeper.protocol.group_events import Event, encode
from groupkeeper.protocol.records.consumer_offsets import (
    GroupConfigEntry,
    GroupConfigsKey,
    GroupConfigsValue,
    encode_key,
    encode_value,
)
from tests.analytics.logs import NOW, batch, commit, group, log, write_segment
from tests.watch.observed import Observed
from tests.watch.test_observer import play


@pytest.fixture(scope="module")
def answered(broker_copy):
    return json.loads((broker_copy / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(broker_copy, tmp_path_factory):
    """Tables by name, as Parquet readers see them, from one run with --out."""
    out = tmp_path_factory.mktemp("out") / "analysis"
    assert report.analyze([broker_copy], Request(out)) == 0
    read = {name: parquet.read_table(out / "report" / f"{name}.parquet") for name in report.TABLES}
    read |= {name: parquet.read_table(out / name) for name in ("records", "commits")}
    return {name: table.to_pylist() for name, table in read.items()}


def test_every_record_that_the_broker_dumps_is_there(written, answered):
    counts = Counter(str(row["partition"]) for row in written["records"])
    assert counts == answered["records_per_partition"]
    assert not any(row["problem"] for row in written["records"])


def test_groups_are_those_that_the_broker_describes(written, answered):
    found = {row["group"]: row for row in written["groups"]}
    for told in answered["groups"]:
        row = found.pop(told["group"])
        seen = (row["state"], row["protocol_type"] or "", row["protocol"] or "")
        assert seen == (told["state"], told["protocol_type"], told["protocol"])
        assert row["member_count"] == len(told["members"])
    assert {name: row["state"] for name, row in found.items()} == {
        "deleted": "Dead",
        "next-generation": "Stable",
    }


def test_members_are_those_that_the_broker_describes(written, answered):
    def flat(member):
        names = ("member_id", "group_instance_id", "client_id", "client_host")
        return tuple(member[name] for name in names)

    expected = {
        flat(member): member["assignment"]
        for group in answered["groups"]
        for member in group["members"]
    }
    found = {
        flat(row): {topic["topic"]: topic["partitions"] for topic in row["assignment"]}
        for row in written["members"]
        if row["group"] != "next-generation"
    }
    assert found == expected


def test_members_of_the_newer_protocol_are_read(written):
    """The copy has no other topic's folder, so that their topics have no names."""
    (row,) = [row for row in written["members"] if row["group"] == "next-generation"]
    assert (row["client_id"], row["member_epoch"], row["assigned_partitions"]) == ("ng", 1, 2)
    assert row["assignment"] == [{"topic": "P9tFGkEORDKPCiuyYifkkg", "partitions": [0, 1]}]


def test_offsets_are_those_that_the_broker_fetches(written, answered):
    found = [
        {
            "group": row["group"],
            "topic": row["topic"],
            "partition": row["topic_partition"],
            "offset": row["committed_offset"],
            "metadata": row["metadata"],
            "leader_epoch": row["commit_leader_epoch"],
        }
        for row in written["offsets"]
    ]
    assert sorted(found, key=repr) == sorted(answered["offsets"], key=repr)


@pytest.mark.parametrize(
    ("group", "kinds"),
    [
        ("billing", ["created", "rebalance", "static replacement"]),
        ("emptied", ["created", "rebalance", "rebalance", "emptied"]),
        ("deleted", ["created", "rebalance", "rebalance", "emptied", "deleted"]),
        ("orders-readers", ["created", *["rebalance"] * 4]),
    ],
)
def test_generations_tell_what_happened_to_the_group(written, group, kinds):
    assert [row["kind"] for row in written["generations"] if row["group"] == group] == kinds


def test_the_report_is_printed(broker_copy, capsys):
    assert report.analyze([broker_copy / "__consumer_offsets-1"]) == 0
    said = capsys.readouterr().out
    for part in ("Groups: ", "billing-client-1", "payments: 1, orders: 3-5", "static replacement"):
        assert part in said
    assert said.endswith(
        "Read 43 records from 5.2 kB in 1 segment of 1 partition, all of it sound.\n"
    )


@pytest.fixture
def chosen(capsys):
    """Rows that --json prints of a choice."""

    def rows(path, **choice):
        request = Request(as_json=True, choice=Choice(**choice))
        assert report.analyze([path], request) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return rows


def test_json_has_one_object_a_line(broker_copy, chosen):
    lines = chosen(broker_copy, groups=frozenset({"billing", "simple"}))
    found = {row["group"]: row for row in lines if row["table"] == "groups"}
    assert found.keys() == {"billing", "simple"}
    assert found["billing"]["last_change"] == "2026-11-21T10:32:56.066Z"
    assert found["simple"]["protocol"] is None
    assert {row["table"] for row in lines} == {"groups", "members", "generations", "offsets"}


def csv_of(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def test_csv_files_hold_the_busiest_groups(broker_copy, tmp_path, capsys):
    request = Request(csv=tmp_path / "csv", choice=Choice(top=1))
    assert report.analyze([broker_copy], request) == 0
    assert "members.csv" in capsys.readouterr().out
    rows = {name: csv_of(tmp_path / "csv", name) for name in report.TABLES}
    assert [row["group"] for row in rows["groups"]] == ["orders-readers"]
    assert {row["group"] for row in rows["generations"]} == {"orders-readers"}
    assert rows["generations"][0]["time"].startswith("2026-11-21T10:3")


def test_the_busiest_groups_reached_most_generations(tmp_path, chosen):
    """Rewrites of a generation do not count; of equal groups the one that changed last is first."""
    duel = [group("duel", 1, (f"m{number}", "i")) for number in range(9)]
    twice = [group(name, number, "m") for name in ("calm", "late") for number in (1, 2)]
    records = [*duel, *twice, commit("idle", "t", 0, 1)]
    made = [batch([each], base_time=NOW + at) for at, each in enumerate(records)]
    write_segment(tmp_path / "__consumer_offsets-0", 0, log(*made))
    found = [row["group"] for row in chosen(tmp_path, top=3) if row["table"] == "groups"]
    assert found == ["late", "calm", "duel"]


def test_only_later_changes_are_shown(broker_copy, chosen):
    last = 1_795_257_177_000  # 2026-11-21T10:32:57Z
    lines = chosen(broker_copy, since_ms=last)
    assert {row["time"] >= "2026-11-21T10:32:57" for row in lines if "time" in row} == {True}
    groups = {row["group"] for row in lines if row["table"] == "groups"}
    assert "deleted" in groups
    assert "billing" not in groups


def test_nothing_may_have_changed_since_then(broker_copy, tmp_path, capsys):
    page = tmp_path / "report.html"
    later = Choice(since_ms=4_000_000_000_000)
    assert report.analyze([broker_copy], Request(report=page, choice=later)) == 0
    said = capsys.readouterr()
    assert "Groups: none\n" in said.out
    assert said.err == (
        "groupkeeper: no group changed or committed since 2096-10-02T07:06Z: the last time in what "
        "was read is 2026-11-21T10:32Z\n"
    )
    assert page.is_file()


def test_a_group_that_is_not_there_is_told(broker_copy, capsys):
    request = Request(choice=Choice(groups=frozenset({"billing", "bil\nling"})))
    assert report.analyze([broker_copy], request) == 0
    said = "groupkeeper: no group record and no commit of 'bil?ling' in what"
    out, err = capsys.readouterr()
    assert err == f"{said} was read\n"
    assert "Groups: 1\n" in out


@pytest.fixture
def one_log(broker_copy):
    return (broker_copy / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes()


def test_an_unfinished_batch_is_told_and_is_no_damage(one_log, tmp_path, capsys):
    write_segment(tmp_path / "__consumer_offsets-0", 0, one_log[:-10])
    assert report.analyze([tmp_path]) == 0
    said = capsys.readouterr().out
    assert "unfinished batch at the end of the log" in said
    assert said.endswith("115 bytes left over in 1 place.\n")


def test_damage_has_an_exit_code_of_its_own(one_log, tmp_path, capsys):
    damaged = bytearray(one_log)
    damaged[9] ^= 1
    write_segment(tmp_path / "__consumer_offsets-0", 0, bytes(damaged))
    assert report.analyze([tmp_path]) == 1
    assert "bytes that are not a batch skipped" in capsys.readouterr().out


def test_events_alone_are_analysed_with_every_option(tmp_path, capsys):
    event = Event(0, 5, 1, NOW, 0, "g", "group_created", fields={})
    pairs = [(b"g", encode(event))]
    write_segment(tmp_path / "log" / "__group_events-0", 0, log(batch(pairs)))
    for request in (Request(), Request(tmp_path / "out"), Request(report=tmp_path / "r.html")):
        assert report.analyze([tmp_path / "log"], request) == 0
        out, err = capsys.readouterr()
        assert (" of events" in out, "Groups" in out, err) == (True, False, "")


@pytest.mark.usefixtures("lines")
def test_the_events_that_an_observer_stored_are_analysed(served, tmp_path, capsys):
    """Its data directory has no offsets log; what it inferred stays inferred."""
    observed = Observed(served)
    play(served)
    observed.caught_up()
    pairs = [((each.group or "").encode(), encode(each)) for each in observed.inferred()]
    write_segment(tmp_path / "log" / "__group_events-0", 0, log(batch(pairs)))
    request = Request(tmp_path / "out", csv=tmp_path / "csv")
    assert report.analyze([tmp_path / "log"], request) == 0
    out, err = capsys.readouterr()
    assert err == ""
    titles = re.findall(r"^([A-Z][a-z ]+): (?:\d+|none)$", out, re.MULTILINE)
    assert titles == ["Causes of rebalances", "Findings"]
    assert re.search(r"^Read \S+ kB of events, all of it sound\.$", out, re.MULTILINE)
    rows = csv_of(tmp_path / "csv", "causes")
    found = {(row["cause"], row["rounds"], row["source"], row["confidence"]) for row in rows}
    assert found == {("member_joined", "2", "log", "0.99"), ("member_left", "1", "log", "0.97")}
    for name in "sessions", "rounds":
        table = parquet.read_table(tmp_path / "out" / name)
        assert table["source"].to_pylist() == ["log"] * len(table) != [], name
        assert max(table["confidence"].to_pylist()) < 1, name


def test_csv_files_hold_problems_too(one_log, tmp_path, capsys):
    write_segment(tmp_path / "log" / "__consumer_offsets-0", 0, one_log[:-10])
    assert report.analyze([tmp_path / "log"], Request(csv=tmp_path / "csv")) == 0
    assert "problems.csv" in capsys.readouterr().out
    [row] = csv_of(tmp_path / "csv", "problems")
    assert row["problem"] == "unfinished batch at the end of the log"
    assert row["problem_bytes"] == "115"


def refused(capsys, *arguments):
    assert report.analyze(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_what_cannot_be_read_is_said_in_one_line(broker_copy, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(broker_copy)
    assert "a path is empty" in refused(capsys, [broker_copy, ""])
    assert "no such file or folder" in refused(capsys, [tmp_path / "nowhere"])
    assert "nothing to read" in refused(capsys, [tmp_path])
    write_segment(tmp_path / "__consumer_offsets-0", 0, b"")
    assert "all segments are empty" in refused(capsys, [tmp_path])


@pytest.mark.parametrize("option", ["out", "csv"])
def test_a_folder_that_cannot_be_made_is_said_before_the_work(
    broker_copy, tmp_path, capsys, monkeypatch, option
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(Trunk, "run", None)
    request = Request(**{option: tmp_path / "file" / "new"})
    assert "new cannot be created: Not a directory" in refused(capsys, [broker_copy], request)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    request = Request(**{option: tmp_path / "new"})
    assert "new cannot be written to: name another" in refused(capsys, [broker_copy], request)


def test_a_reader_that_has_seen_enough_is_no_failure(broker_copy, capsys, monkeypatch):
    def closed(*text):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout.write", closed)
    with pytest.raises(BrokenPipeError):  # click, which calls it, ends without a word
        report.analyze([broker_copy], Request(as_json=True))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["out", "csv", "report"])
def test_files_are_not_written_to_standard_output(
    broker_copy, tmp_path, capsys, monkeypatch, option
):
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, [broker_copy], Request(**{option: Path("-")}))
    assert f"--{option} - " in said
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("place", ["out/report.html", "report.html"])
def test_a_report_may_be_in_a_folder_that_out_makes(broker_copy, tmp_path, place):
    """Also in one above it."""
    path = tmp_path / "new" / place
    for _ in range(2):
        assert report.analyze([broker_copy], Request(tmp_path / "new" / "out", report=path)) == 0
        assert path.is_file()


def test_other_folders_are_refused(broker_copy, tmp_path, capsys):
    said = refused(capsys, [broker_copy], Request(broker_copy))
    assert "exists: name a new or an empty folder" in said
    out = tmp_path / "out"
    request = Request(out, report=out / "pages" / "report.html")
    assert "pages is not a folder" in refused(capsys, [broker_copy], request)
    assert not out.exists()


def test_records_of_unknown_types_are_told_and_are_no_damage(tmp_path, capsys):
    unknown = [(b"\0\x28\x7f\xff\1", b"?"), (b"\0\x29\0\2g2", b"\0\0?"), (b"\0\x29\0\2g2", None)]
    path = tmp_path / "__consumer_offsets-0"
    write_segment(path, 0, batch([commit("g", "t", 0, 5), *unknown]))
    page = tmp_path / "report.html"
    told = "3 records of types 40, 41, which this version does not know"
    assert report.analyze([path], Request(report=page)) == 0
    assert f", all of it sound; {told}." in capsys.readouterr().out
    assert f"The log has {told}." in page.read_text(encoding="utf-8")
    for out in (tmp_path / "out", tmp_path / "out"):  # the second time nothing is new
        assert report.analyze([path], Request(out, as_json=True)) == 0
        rows = map(json.loads, capsys.readouterr().out.splitlines())
        problems = [row["problem"] for row in rows if row["table"] == "problems"]
        assert problems == [f"records of unknown types: {told}"]
        assert not any(map(is_damage, problems))


def test_configs_of_groups_are_known_and_make_no_group(tmp_path, capsys):
    configs = GroupConfigsValue(configs=[GroupConfigEntry(name="n", value="1")])
    record = encode_key(GroupConfigsKey(group="g2")), encode_value(configs, 0)
    path = tmp_path / "__consumer_offsets-0"
    write_segment(path, 0, batch([commit("g", "t", 0, 5), record]))
    assert report.analyze([path], Request(tmp_path / "out", as_json=True)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["group"] for row in rows if row["table"] == "groups"] == ["g"]
    assert not [row for row in rows if row["table"] == "problems"]


def test_events_of_unknown_types_are_told_and_are_no_damage(tmp_path, capsys):
    told = [Event(each, 5, 1, NOW + each, 7, "g", "omens_read", fields={}) for each in range(2)]
    made = Event(2, 5, 1, NOW, 7, "g", "group_created", fields={})
    path = tmp_path / "__group_events-0"
    write_segment(path, 0, batch([(b"g", encode(each)) for each in (*told, made)]))
    write_segment(tmp_path / "__consumer_offsets-0", 0, batch([commit("g", "t", 0, 5)]))
    page = tmp_path / "report.html"
    text = "2 events of type omens_read, which this version does not know, in __group_events"
    assert report.analyze([tmp_path], Request(report=page)) == 0
    assert f", all of it sound; {text}." in capsys.readouterr().out
    assert f"The log has {text}." in page.read_text(encoding="utf-8")
    assert report.analyze([tmp_path], Request(tmp_path / "out", as_json=True)) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    found = [(row["offset"], row["problem"]) for row in rows if row["table"] == "problems"]
    assert found == [(0, f"records of unknown types: {text}")]


def test_texts_in_csv_files_are_no_formulas(tmp_path):
    log = batch(
        [commit(name, "t", 0, -1, metadata="@SUM(A1)") for name in ("=1+1", "+1", "-1", "a-b")]
    )
    path = write_segment(tmp_path / "__consumer_offsets-0", 0, log)
    assert report.analyze([path], Request(csv=tmp_path / "csv")) == 0
    rows = csv_of(tmp_path / "csv", "offsets")
    assert [row["group"] for row in rows] == ["'+1", "'-1", "'=1+1", "a-b"]
    assert {(row["metadata"], row["committed_offset"]) for row in rows} == {("'@SUM(A1)", "-1")}
