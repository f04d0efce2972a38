"""`groupkeeper status`: what it prints, and its exit codes."""

import json
from typing import Any

import pytest

from groupkeeper.cli import main
from groupkeeper.cli.status import findings
from tests.support.process import Process
from tests.support.wire import connect

Capture = pytest.CaptureFixture[str]
COMPACTION = {"failures": 0, "hung": 0, "running_s": 0.0, "uncleanable_logs": 0}
WELL: dict[str, Any] = {
    "node": 0,
    "cluster": "c",
    "version": "1",
    "ready": True,
    "partitions": {"active": 50},
    "not_active": [],
    "disk": {"free_bytes": 50, "total_bytes": 100},
    "loop": {"iterations": 10, "over_20_ms": 0, "longest_ms": 10.0},
    "appends": {"failures": 0},
    "compaction": COMPACTION,
    "events": {"dropped": 0, "logs_closed": 0, "wait_for_room": False},
    "connections": {"refused": 0, "unaccepted": 0},
    "limits_reached": {},
}


def test_a_server_that_is_ready(capsys: Capture) -> None:
    with Process("--dev", "--memory", "--http", "127.0.0.1:0") as process:
        ready = process.ready()
        connect(ready.kafka).close()
        assert main(["status", "--http", ready.http]) == 0
        out = capsys.readouterr().out
        assert main(["status", "--http", ready.http, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    lines = out.splitlines()
    assert lines[0].startswith("ready: node 0 of cluster ")
    assert [each.split()[0] for each in lines[1:8]] == [
        *("partitions", "disk", "appends", "loop", "compaction", "events", "connections")
    ]
    assert found["ready"]


def test_no_server_is_not_ready(capsys: Capture) -> None:
    assert main(["status", "--http", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "no Groupkeeper answers at 127.0.0.1:1" in err
    assert "name its HTTP port with --http" in err
    assert err.count("\n") == 1


def test_the_kafka_port_is_not_the_http_port(capsys: Capture) -> None:
    with Process("--dev", "--memory", "--http", "off") as process:
        address = "{}:{}".format(*process.ready().kafka)
        assert main(["status", "--http", address]) == 1
    assert f"no Groupkeeper answers at {address}" in capsys.readouterr().err


def test_a_wrong_call() -> None:
    assert main(["status", "--http", "9644"]) == 2


def test_what_deserves_a_look() -> None:
    closed = {"partition": 7, "state": "closed", "reason": "disk full"}
    for section, changed, told in (
        ("not_active", [closed], "partition 7 is closed (disk full): it is retried automatically"),
        ("disk", {"free_bytes": 9, "total_bytes": 100}, "9 bytes are left on the disk"),
        ("disk", {"free_bytes": -1, "total_bytes": -1}, None),
        ("loop", {"longest_ms": 250.0}, "an iteration took up to 250 ms"),
        ("loop", {"longest_ms": None}, "took up to more than all bounds"),
        ("appends", {"failures": 3}, "appends: 3 failed"),
        ("compaction", {"failures": 2}, "compaction: 2 failed"),
        ("compaction", {"uncleanable_logs": 1}, "compaction: 1 logs are damaged"),
        ("compaction", {"hung": 1}, "compaction: 1 made no progress"),
        ("compaction", {"running_s": 150.4}, "compaction: one has been running for 150 s"),
        ("events", {"dropped": 4}, "events: 4 dropped, so `groupkeeper why`"),
        ("events", {"wait_for_room": True}, "less than group.events.min.free.bytes"),
        ("connections", {"refused": 5}, "max.connections.per.ip is reached"),
        ("connections", {"unaccepted": 6}, "raise the limit of open files"),
        ("limits_reached", {"max_groups": 8}, "limit max_groups was reached 8 times"),
    ):
        new = changed if isinstance(changed, list) else WELL[section] | changed
        found = [*findings(WELL | {section: new})]
        assert len(found) == (told is not None), changed
        assert told is None or told in found[0]
    assert [*findings(WELL)] == []


def test_what_deserves_a_look_at_an_observer() -> None:
    observer = {"losses": 0, "records_unreadable": 0, "groups_dropped": 0}
    well = WELL | {"observer": observer, "unread": None}
    assert [*findings(well | {"loop": {"iterations": 9, "longest_ms": 250.0}})] == []
    little = WELL["disk"] | {"free_bytes": 9}
    for changed, told in (
        ({"unread": {"partitions": 2, "for_ms": 90_000}}, "could not be read for 90 s"),
        ({"observer": observer | {"losses": 2}}, "see `history is lost`"),
        ({"disk": little}, "when it is full, the observer ends"),
    ):
        [found] = findings(well | changed)
        assert told in found
