"""`groupkeeper analyze --bootstrap-server`: what is read over the wire is what is in the files."""

import asyncio
import base64
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from groupkeeper.cli import INTERRUPTED, main
from groupkeeper.client import segment_copy
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import TOPIC as EVENTS
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.testing import Broker
from tests.client.log_node import LogNode
from tests.client.stub import SILENCE, cluster
from tests.support.process import ROOT
from tests.support.requests import commit_request, join_request, leave_request, sync_request
from tests.support.wire import connect

OFFSETS = "__consumer_offsets"
LOG = ROOT / "tests/fixtures/kafka-consumer-offsets"
NEWER = ROOT / "tests/fixtures/kafka-group-protocols"
STARTED_S = 60.0

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; it is empty at the end of a test."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert [*place.iterdir()] == []


@contextmanager
def served(node: LogNode) -> Iterator[str]:
    """The address of the node, which answers in a thread: commands handle signals in this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(STARTED_S)

    nodes = cluster(node)
    try:
        yield run(nodes.__aenter__())
    finally:
        run(nodes.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def analyze(node: LogNode, *words: object) -> int:
    with served(node) as address:
        return main(["analyze", "--bootstrap-server", address, *map(str, words)])


def rows(text: str) -> list[dict[str, Any]]:
    """What `--json` printed."""
    return [json.loads(line) for line in text.splitlines()]


def told(folder: Path, capsys: Capture, *words: object) -> list[dict[str, Any]]:
    assert main(["analyze", str(folder), "--json", *map(str, words)]) == 0
    return rows(capsys.readouterr().out)


@pytest.mark.parametrize("folder", [LOG, NEWER])
def test_tables_are_those_of_the_files(folder: Path, capsys: Capture) -> None:
    node = LogNode(folder, most_bytes=3_000)
    ids = {each.parent.name[:-2]: each for each in folder.glob("*/partition.metadata")}
    node.ids = {name: _id(each) for name, each in ids.items()}
    assert analyze(node, "--json") == 0
    out, err = capsys.readouterr()
    assert (rows(out), err) == (told(folder, capsys), "")
    assert {place for place, _ in node.fetched} == node.logs.keys()


def _id(file: Path) -> bytes:
    found = re.search(r"topic_id: (\S+)", file.read_text())
    assert found is not None
    return base64.urlsafe_b64decode(found[1] + "==")


def test_of_a_group_only_its_partition_is_read(capsys: Capture) -> None:
    node = LogNode(LOG)
    count = max(number for _, number in node.logs) + 1
    assert analyze(node, "--json", "--group", "billing") == 0
    assert rows(capsys.readouterr().out) == told(LOG, capsys, "--group", "billing")
    assert {place for place, _ in node.fetched} == {(OFFSETS, partition_of("billing", count))}


def test_a_folder_of_tables_goes_on_from_either_side(tmp_path: Path, capsys: Capture) -> None:
    """Over the wire, from files, over the wire; each time the log is longer."""
    files, out = tmp_path / "log", tmp_path / "out"
    node, whole = LogNode(), LogNode(LOG)

    def grow(share: float) -> None:
        for (topic, number), log in whole.logs.items():
            some = log[: round(share * len(log))]
            node.logs[topic, number] = some
            folder = files / f"{topic}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / "00000000000000000000.log"
            file.write_bytes(b"".join(data for _, _, data in some))

    for step, share in enumerate((0.2, 0.4, 0.6, 0.8, 1, 1)):
        known = {place: log[-1][0] if log else 0 for place, log in node.logs.items()}
        grow(share)
        if step % 2:
            assert main(["analyze", str(files), "--out", str(out)]) == 0
        else:
            node.fetched.clear()
            assert analyze(node, "--out", out) == 0
            begins = {place: known.get(place, 0) for place, log in node.logs.items() if log}
            assert dict(reversed(node.fetched)) == begins
        capsys.readouterr()
    anew = tmp_path / "anew"
    expected = told(LOG, capsys, "--out", anew)
    node.fetched.clear()
    assert analyze(node, "--json", "--out", out) == 0
    assert rows(capsys.readouterr().out) == expected
    assert len(node.fetched) == sum(map(bool, whole.logs.values())), "the last batch of each log"


def test_another_cluster_is_refused_for_a_folder_of_tables(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert analyze(LogNode(LOG), "--out", out) == 0
    node = LogNode(LOG)
    for place, log in node.logs.items():
        node.logs[place] = log[: len(log) // 2]
    capsys.readouterr()
    assert analyze(node, "--out", out) == 1
    line = r"groupkeeper: __consumer_offsets, partition \d+ ends before offset .*--rebuild.*\n"
    assert re.fullmatch(line, capsys.readouterr().err)
    assert analyze(node, "--out", out, "--rebuild") == 0


def test_what_a_folder_of_tables_has_must_be_there(tmp_path: Path, capsys: Capture) -> None:
    out, node = tmp_path / "out", LogNode(LOG)
    node.logs[EVENTS, 0] = [(0, 1, encode_batch(0, 0, 1000, [(b"g", b"{}")]))]
    assert analyze(node, "--out", out) in (0, 1)
    capsys.readouterr()
    assert analyze(node, "--out", out, "--group", "billing") == 2
    assert "holds all groups: ask for the same (--group)" in capsys.readouterr().err
    del node.logs[EVENTS, 0]
    assert analyze(node, "--out", out) == 2
    assert "__group_events-0 was read into this folder" in capsys.readouterr().err


def test_a_report_names_the_cluster(tmp_path: Path, capsys: Capture) -> None:
    node, page = LogNode(LOG), tmp_path / "report.html"
    assert analyze(node, "--report", page) == 0
    text = page.read_text(encoding="utf-8")
    assert f"127.0.0.1:{node.port}" in text
    assert "groupkeeper-analyze-" not in text
    assert "over the wire they are not read" in text
    assert not any(topic == EVENTS for (topic, _), _ in node.fetched)


def test_events_are_read_for_a_report_only(tmp_path: Path, capsys: Capture) -> None:
    for words in ([], ["--out", tmp_path / "out"]):
        node = LogNode(LOG)
        node.logs[EVENTS, 0] = []
        metadata = node.answers["Metadata"]
        asked: list[str] = []

        def noted(request: Any, metadata: Any = metadata, asked: list[str] = asked) -> Any:
            asked += [each.name for each in request.topics or ()]
            return metadata(request)

        node.answers["Metadata"] = noted
        assert analyze(node, *words) == 0
        assert (EVENTS in asked) is bool(words)
    capsys.readouterr()


def test_what_a_user_may_not_read_is_said_with_the_right(capsys: Capture) -> None:
    right = f"this user may not read {OFFSETS}"
    node = LogNode(LOG)
    node.topic_errors[OFFSETS] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert analyze(node) == 1
    err = capsys.readouterr().err
    assert err == f"groupkeeper: {right}: it needs the READ permission on that topic\n"
    node = LogNode(LOG)
    node.errors[next(iter(node.logs))] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert analyze(node) == 1
    assert re.match(f"groupkeeper: {right}, partition .*: it needs", capsys.readouterr().err)


def test_events_that_may_not_be_read_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    node = LogNode(LOG)
    node.topic_errors[EVENTS] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert analyze(node, "--out", tmp_path / "out") == 0
    assert "events are not read: this user may not read __group_events" in capsys.readouterr().err


def test_a_cluster_without_groups_says_so(capsys: Capture) -> None:
    assert analyze(LogNode()) == 1
    line = f"groupkeeper: this cluster has no topic {OFFSETS}: no group has joined or committed"
    assert capsys.readouterr().err.startswith(line)


def test_a_topic_that_is_being_made_is_an_error(capsys: Capture) -> None:
    node = LogNode(LOG)
    node.topic_errors[OFFSETS] = ErrorCode.LEADER_NOT_AVAILABLE
    assert analyze(node) == 1
    assert f"{OFFSETS} cannot be read: LEADER_NOT_AVAILABLE" in capsys.readouterr().err


def test_no_cluster_is_one_line(capsys: Capture) -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5"]
    assert main(["analyze", *words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("groupkeeper: no Kafka node answers at 127.0.0.1:1 (")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["data", "--bootstrap-server", "host:9092"]])
def test_either_paths_or_a_cluster_are_named(words: list[str], capsys: Capture) -> None:
    assert main(["analyze", *words]) == 2
    assert "give a PATH, or a cluster with --bootstrap-server" in capsys.readouterr().err


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(segment_copy._Segments, "write", full)
    assert analyze(LogNode(LOG)) == 1
    err = capsys.readouterr().err
    assert re.fullmatch(
        r"groupkeeper: cannot write to \S+: No space left on device; TMPDIR names .*\n", err
    )


def test_what_is_wrong_with_the_call_is_said_before_the_copy(
    tmp_path: Path, capsys: Capture
) -> None:
    node = LogNode(LOG)
    (tmp_path / "full").mkdir()
    shutil.copy(LOG / "expected.json", tmp_path / "full")
    for words in (
        ["--rebuild"],
        ["--csv", tmp_path / "full"],
        ["--report", tmp_path],
        ["--out", tmp_path / "full" / "expected.json"],
    ):
        assert analyze(node, *words) in (1, 2)
        assert capsys.readouterr().err.count("\n") == 1
    assert node.fetched == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_copy_leaves_nothing(number: int, temporary: Path) -> None:
    node, reached = LogNode(LOG), threading.Event()

    def never(_: object) -> object:
        reached.set()
        return SILENCE

    node.answers["Fetch"] = never
    with (
        served(node) as address,
        subprocess.Popen(
            [sys.executable, "-m", "groupkeeper", "analyze", "--bootstrap-server", address],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        try:
            assert reached.wait(STARTED_S)
            assert [*temporary.iterdir()]
            process.send_signal(number)
            assert process.communicate(timeout=STARTED_S) == (b"", b"\n")
        finally:
            process.kill()
    assert process.returncode == INTERRUPTED


def test_our_own_broker_is_read_with_its_events(tmp_path: Path, capsys: Capture) -> None:
    data, names = tmp_path / "data", ("groups", "members", "generations", "offsets", "rounds")
    with Broker({"orders": 3}, data=data) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        client = connect((host, int(port)))
        for group in ("one", "two"):
            joined = client.call(4, join_request(group))
            joined = client.call(4, join_request(group, joined.member_id))
            who, generation = joined.member_id, joined.generation_id
            client.call(3, sync_request(who, generation, group, {who: b"all"}))
            client.call(7, commit_request({("orders", 1): 7}, group, who, generation))
        client.call(3, leave_request(who, group_id="two"))
        client.close()
    with Broker(data=data) as broker:
        broker.freeze()  # no session is over when the files are read
        words = ["--bootstrap-server", broker.bootstrap_servers, "--out", str(tmp_path / "wire")]
        assert main(["analyze", *words]) == 0
    assert main(["analyze", str(data), "--out", str(tmp_path / "files")]) == 0
    for name in names:
        wire, files = (
            parquet.read_table(next(p for p in places if p.exists())).to_pylist()
            for places in (
                (tmp_path / out / "report" / f"{name}.parquet", tmp_path / out / name)
                for out in ("wire", "files")
            )
        )
        assert wire == files
        assert wire
