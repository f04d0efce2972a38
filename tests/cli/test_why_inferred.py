"""`groupkeeper why` against a node that stores no causes, but has the records of its groups."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from groupkeeper.cli import main
from groupkeeper.cli.why import inferred as why_inferred
from groupkeeper.cli.why import last as why_last
from groupkeeper.cli.why import read as why_read
from groupkeeper.cli.why.inferred import Inferred, Wanted, read_inferred
from groupkeeper.client import Client
from groupkeeper.client.client import CallFailed
from groupkeeper.history.rounds import Round, SessionLimits
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event
from groupkeeper.watch.group_log import GroupLog
from tests.analytics import newer_logs
from tests.client.stub import cluster
from tests.support.event_node import EventNode
from tests.support.newer_log import UNRELEASED, ConsumerLog
from tests.support.told_events import NOON, Told
from tests.support.written_log import WrittenLog, commit, member

Capture = pytest.CaptureFixture[str]
Why = Callable[..., Awaitable[tuple[str, str]]]
A, B, C = member("a", 0), member("b", 1), member("c", 2)
SINCE = ("--since", "2025-11-22T12:00Z")


@pytest.fixture
def why(capsys: Capture) -> Why:
    async def run(node: EventNode, *arguments: str, code: int = 0) -> tuple[str, str]:
        async with cluster(node) as address:
            call = ["why", "g", "--bootstrap-server", address, "--timeout", "5", *arguments]
            assert await asyncio.to_thread(main, [*call, "--http", "off"]) == code
        out, err = capsys.readouterr()
        return out, err

    return run


def grown(base: int = 0, generation: int = 1) -> WrittenLog:
    """a and b for 100 s, c for a minute as well; a round every ten seconds after that."""
    made = WrittenLog(base)
    made.group(0, generation, A, B)
    for at in range(2, 101, 2):
        made.write(at, commit("g", 0), commit("g", 1), commit("other", 0))
    made.commits(0, 102, 110)
    made.group(111, generation + 1, A)
    made.group(120, generation + 2, A, C)
    return made


def node_with(offsets: WrittenLog | None, **how: Any) -> EventNode:
    """A node without stored events."""
    node = EventNode(how.pop("events", None), how.pop("setting", None))
    node.offsets = offsets
    return node


async def test_each_cause_says_how_sure_it_is(why: Why) -> None:
    out, err = await why(node_with(grown()), *SINCE)
    lines = out.splitlines()
    assert lines[0] == "2025-11-22 12:00:00.000Z  rebalance to generation 1"
    assert lines[1].startswith("  Inferred, 99 %: a, b joined the empty group.")
    text = " ".join(out.split())
    assert (
        "Inferred, 95 %: b (on 10.0.0.7) was removed: no heartbeat came within its "
        "session.timeout.ms of 10000; the last commit was at 2025-11-22 12:01:40.000Z. 1 "
        "partition is assigned; none changed its owner. Find what ended or paused the process, or "
        "cut its network."
    ) in text
    assert "Inferred, 99 %: c (on 10.0.0.7) joined." in text
    assert lines[-1].startswith("Now: Stable, 1 member.")
    assert err == (
        "groupkeeper: causes are inferred from __consumer_offsets, since 2025-11-22 "
        "12:00:00.000Z: only Groupkeeper stores them\n"
    )


async def test_the_json_says_it_as_well(why: Why) -> None:
    out, _ = await why(node_with(grown()), *SINCE, "--json")
    *found, now = map(json.loads, out.splitlines())
    assert [(each["source"], each["confidence"]) for each in found] == [
        ("log", 0.99),
        ("log", 0.95),
        ("log", 0.99),
    ]
    assert found[1]["cause"]["code"] == "session_expired"
    assert found[1]["cause_text"].startswith("Inferred, 95 %: b (on 10.0.0.7) was removed")
    assert now["kind"] == "described"


async def test_stored_rounds_have_neither(why: Why) -> None:
    told = Told()
    told.started({"code": "member_left"})
    told.completed()
    out, err = await why(EventNode(told.events), "--json")
    first = json.loads(out.splitlines()[0])
    assert first["kind"] == "round" and first.keys().isdisjoint({"source", "confidence"})
    assert err == ""


async def test_without_a_time_an_hour_is_read(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 3_600 + 105)
    node = node_with(grown())
    out, err = await why(node)
    assert out.count("  rebalance ") == 2
    assert "since 2025-11-22 12:01:45.000Z" in err
    assert min(node.fetched) > 100


async def test_for_the_last_rounds_more_is_read(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 3_600 + 105)
    node = node_with(grown())
    out, err = await why(node, "--last", "2")
    assert out.count("  rebalance ") == 2 and min(node.fetched) > 100
    out, err = await why(node, "--last", "3")
    assert out.count("  rebalance ") == 3 and "since 2025-11-21 13:01:45.000Z" in err
    out, err = await why(node, "--last", "4")
    assert out.count("  rebalance ") == 3 and "in the whole log" in err


async def test_the_first_round_of_what_was_read_may_have_no_cause(why: Why) -> None:
    out, err = await why(node_with(grown(generation=7)), "--since", "2025-11-22T12:01:51Z")
    assert "Inferred: the record before this one was not read, so the cause is not known." in (
        " ".join(out.split())
    )
    assert "Inferred, 99 %: c (on 10.0.0.7) joined." in out
    assert "give --since an earlier time" in err


async def test_of_a_whole_log_an_earlier_time_is_not_proposed(why: Why) -> None:
    _, err = await why(node_with(grown(base=500, generation=7)), "--last", "20")
    assert "not known, as a compaction has removed the record before it\n" in err


async def test_no_rebalances_in_that_time(why: Why) -> None:
    out, err = await why(node_with(grown()), "--since", "2025-11-23T00:00Z")
    assert out.startswith("Now: Stable")
    assert err == (
        "groupkeeper: no rebalances of group 'g' since 2025-11-23 00:00:00.000Z: try an earlier "
        "--since\n"
    )


async def test_a_group_that_does_not_exist(why: Why) -> None:
    node = node_with(WrittenLog())
    node.state = "Dead"
    out, err = await why(node, *SINCE, code=1)
    assert out == ""
    assert err == (
        "groupkeeper: consumer group 'g' does not exist, and has no records since 2025-11-22 "
        "12:00:00.000Z\n"
    )


async def test_a_deleted_group_still_has_its_records(why: Why) -> None:
    made = grown()
    made.deleted(130)
    node = node_with(made)
    node.state = "Dead"
    out, err = await why(node, *SINCE)
    assert out.splitlines()[-1].endswith("the group was deleted (inferred, 99 %)")
    assert err.endswith("groupkeeper: consumer group 'g' does not exist now\n")


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_missing_right_is_named(has_log: bool, why: Why) -> None:
    """By Metadata if the topic may not even be described, or else by Fetch."""
    node = node_with(grown() if has_log else None)
    node.offsets_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    out, err = await why(node, *SINCE)
    assert out.startswith("Now: Stable, 1 member.")
    assert err == (
        "groupkeeper: this cluster has no topic __group_events, and causes cannot be inferred, as "
        "the topic __consumer_offsets may not be read (needed: READ on the topic "
        "__consumer_offsets, DESCRIBE on the group); state and members are all that is known\n"
    )


async def test_a_cluster_that_hides_the_topic(why: Why) -> None:
    out, err = await why(node_with(None))
    assert out.startswith("Now: Stable, 1 member.")
    assert "as the cluster shows no topic __consumer_offsets; state and members are all" in err
    assert err.count("\n") == 1


async def test_events_that_were_switched_off(why: Why) -> None:
    out, err = await why(node_with(grown(), setting="false"), *SINCE)
    assert out.count("  rebalance ") == 3
    assert "group.events.enabled=true" in err and "causes are inferred" in err


async def test_events_that_do_not_know_the_group(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 200)
    told = Told("another")
    told.loaded()
    node = node_with(grown(), events=told.events, setting="true")
    for arguments in (), SINCE:
        out, err = await why(node, *arguments)
        assert out.count("  rebalance ") == 3
        assert "causes are inferred" in err


async def test_a_whole_log_without_rebalances(why: Why) -> None:
    made = WrittenLog()
    made.write(0, commit("g", 0))
    _, err = await why(node_with(made), "--last", "3")
    assert err == "groupkeeper: no rebalances of group 'g' in the whole log\n"


async def test_what_cannot_be_read_is_counted(why: Why) -> None:
    made = grown()
    made.write(130, (b"\0\x63?", b"?"), (b"\0\x01\0\x09g", b"?"), (b"\0\x64?", None))
    _, err = await why(node_with(made), *SINCE)
    assert "groupkeeper: 1 record of key type 99, which this version does not know\n" in err
    assert "groupkeeper: 1 record of key type 100, which this version does not know\n" in err
    assert "groupkeeper: skipped 1 unreadable record (partition 1: offset " in err


async def test_what_is_kept_is_bounded(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why_read, "MOST_ENTRIES", 2)
    out, err = await why(node_with(grown()), *SINCE)
    assert out.count("  rebalance ") == 2
    assert "too much was stored: only entries since" in err


async def test_a_group_whose_partitions_the_server_assigns(why: Why) -> None:
    made = WrittenLog()
    made.write(0, newer_logs.share_member("g", "one"))
    made.write(1, newer_logs.epoch("g", 1, kind=11))
    made.write(2, newer_logs.share_current("g", "one", 1, 0, 1))
    node = node_with(made)
    out, err = await why(node, *SINCE)
    assert "one (client client, on 127.0.0.1) joined (inferred, 99 %)" in out
    assert "one now has " in " ".join(out.split())
    assert "group 'g' is a share group: the server assigns its partitions" in err


async def test_a_consumer_group_has_rebalances(why: Why) -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    made.reaches(3, "alpha", 2, [0])
    made.reaches(4, "beta", 2, [1])
    out, err = await why(node_with(made), *SINCE)
    text = " ".join(out.split())
    assert "rebalance to epoch 2, 3.0 s Inferred, 99 %: beta (on 10.0.0.7) joined." in text
    assert "Last to reach the epoch was alpha (on 10.0.0.7), 2.0 s after the start" in text
    assert "the server assigns" not in err


async def test_whom_an_epoch_waits_for_is_told(why: Why) -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    out, err = await why(node_with(made), *SINCE)
    assert "It is still in progress." in " ".join(out.split())
    assert (
        "groupkeeper: waiting for 2 of 2 to reach epoch 2: alpha (on 10.0.0.7), at epoch 1, beta"
        " (on 10.0.0.7), at epoch 2, and waits for partitions of others\n"
    ) in err


async def test_all_of_the_log_is_read_of_a_consumer_group(why: Why) -> None:
    """Each record states one member: that beta was there is known from long before."""
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    made.reaches(3, "alpha", 2, [0])
    made.reaches(4, "beta", 2, [1])
    made.leaves(40, 3, "beta")
    made.retargets(41, 3, {"alpha": [0, 1]}, "alpha", [0, 1])
    out, _ = await why(node_with(made), "--since", "2025-11-22T12:00:30Z")
    text = " ".join(out.split())
    assert "joined" not in text
    assert "Inferred: beta is gone, and the records do not show why." in text
    assert "1 of 2 partitions moved." in text


async def test_a_damaged_batch_is_left_out_and_told(why: Why) -> None:
    made = grown()
    base, at, end, data = made.placed[3]
    made.placed[3] = base, at, end, data[:16] + b"\x07" + data[17:]
    text, err = await why(node_with(made), *SINCE)
    assert f"the batch at offset {base} has a damaged header, or is of a later format" in err
    assert "rebalance to generation 3" in text


async def test_bytes_that_are_no_batch_are_one_line(why: Why) -> None:
    made = grown()
    base, at, end, data = made.placed[0]
    made.placed[0] = base, at, end, data[:8] + b"\0\0\0\5" + data[12:]
    _, err = await why(node_with(made), *SINCE, code=1)
    assert "CORRUPT_MESSAGE" in err and err.count("\n") == 1


async def test_following_shows_each_round_as_its_record_appears() -> None:
    node = node_with(grown())
    assert node.offsets is not None
    async with cluster(node) as address, Client(address, request_timeout_ms=5_000) as client:
        log = await GroupLog.of(client, "g")
        async for _ in log.read(log.start, log.end):
            pass

        async def next_events(found: AsyncIterator[list[Any]]) -> list[str]:
            async for events in found:
                if events:
                    return [each.type for each in events]
            raise AssertionError

        def lost(failure: CallFailed) -> None:
            raise failure

        followed = log.follow(log.end, lambda: 0, lost)
        node.offsets.group(140, 4, A, B, C)
        assert "rebalance_completed" in await next_events(followed)
        node.offsets.commits(0, 141, 143)
        node.offsets.group(150, 5)
        assert (await next_events(followed))[-1] == "group_emptied"


async def test_nothing_is_shown_twice_or_left_out_between_reading_and_following(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A response may reach beyond the end at the beginning: following begins behind it."""
    node = node_with(grown())
    assert node.offsets is not None
    async with cluster(node) as address, Client(address, request_timeout_ms=5_000) as client:
        log = await GroupLog.of(client, "g")
        node.offsets.group(140, 4, A)
        found = [each async for events in log.read(log.start, log.end) for each in events]
        assert log.end == node.offsets.end
        assert [each.type for each in found].count("rebalance_completed") == 4


def raising(failure: CallFailed) -> None:
    raise failure


@pytest.mark.parametrize(
    ("wanted", "code"), [(Wanted(), "unknown"), (Wanted(to_record=True), "member_joined")]
)
async def test_following_reads_back_to_the_last_record(wanted: Wanted, code: str) -> None:
    """Else the next rebalance of a group that is stable for days had no cause."""
    node = node_with(grown())
    assert node.offsets is not None
    async with cluster(node) as address, Client(address, request_timeout_ms=5_000) as client:
        found = await read_inferred(client, "g", wanted, SessionLimits())
        assert isinstance(found, Inferred)
        node.offsets.group(130, 4, A, B, C)
        async for events in found.log.follow(found.log.end, lambda: 0, raising):
            rounds = [one for each in events for one in found.told.folding.add(each)]
            if rounds:
                break
    [only] = rounds
    assert isinstance(only, Round)
    assert (only.cause or {})["code"] == code


async def test_a_right_that_is_taken_away_while_following_is_told() -> None:
    node = node_with(grown())
    async with cluster(node) as address, Client(address, request_timeout_ms=5_000) as client:
        log = await GroupLog.of(client, "g")
        node.offsets_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(CallFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            async for _ in log.follow(log.end, lambda: 0, raising):
                pass


@pytest.mark.parametrize("base", [0, 500])
async def test_a_topic_that_was_made_anew_or_deleted_from_begins_anew(base: int) -> None:
    node = node_with(grown(100))
    async with cluster(node) as address, Client(address, request_timeout_ms=5_000) as client:
        log = await GroupLog.of(client, "g")
        async for _ in log.read(log.start, log.end):
            pass
        end, node.offsets = log.end, WrittenLog(base)
        node.offsets.group(200, 7, A)
        found: list[Event] = []
        async for events in log.follow(end, lambda: 0, raising):
            if not found and not node.offsets.placed[1:]:
                node.offsets.group(210, 8, A, B)
                node.offsets.group(220, 9, A)
            found += events
            if any(each.type == "rebalance_completed" and each.generation == 9 for each in found):
                break
        started = [each for each in found if each.type == "rebalance_started"]
        codes = [each.fields["cause"]["code"] for each in started]
        assert codes[0] == "unknown"


# -- the last cause of groups ----------------------------------------------------------------------


async def describe(node: EventNode, capsys: Capture, *more: str) -> tuple[str, str]:
    async with cluster(node) as address:
        call = ["groups", "describe", "--group", "g", "--state", "--why", "--timeout", "5", *more]
        assert await asyncio.to_thread(main, [*call, "--bootstrap-server", address]) == 0
    out, err = capsys.readouterr()
    return out, err


async def test_the_last_cause_is_inferred_from_the_last_hour(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 200)
    out, err = await describe(node_with(grown()), capsys)
    assert out.split("\n")[1].endswith("LAST-CAUSE")
    assert "2025-11-22 12:02:00.000Z member_joined (inferred, 99 %)" in out
    assert err == ""
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 10_000)
    out, _ = await describe(node_with(grown()), capsys, "--json")
    assert json.loads(out)["last_cause"] is None


async def test_an_unknown_last_cause_has_no_figure(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record before the only one of the last hour is not read."""
    monkeypatch.setattr(time, "time", lambda: NOON / 1000 + 3_600 + 115)
    out, _ = await describe(node_with(grown(generation=7)), capsys)
    assert out.rstrip().endswith("2025-11-22 12:02:00.000Z unknown (inferred)")


async def test_a_last_cause_that_cannot_be_inferred_is_one_line(capsys: Capture) -> None:
    out, err = await describe(node_with(None), capsys)
    assert out.rstrip().endswith("-")
    assert err == (
        "groupkeeper: causes cannot be inferred, as the cluster shows no topic __consumer_offsets\n"
    )


async def test_of_very_many_groups_the_first_are_read(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_last, "GROUPS_READ", 0)
    _, err = await describe(node_with(grown()), capsys)
    assert err == "groupkeeper: causes of 0 of 1 groups are read: name groups with --group\n"


def test_spans_grow() -> None:
    *spans, whole = why_inferred.SPANS_MS
    assert whole is None and spans == sorted(filter(None, spans))
