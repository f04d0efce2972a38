"""`groupkeeper why` against a node that has the events of a test."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from groupkeeper.cli import main
from groupkeeper.cli.why import read as why_read
from groupkeeper.cli.why.times import read_since
from groupkeeper.client import CallFailed, Client, group_events, partition_log
from groupkeeper.client.group_events import EventTopicReader
from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event
from tests.client.stub import SILENCE, StubNode, cluster
from tests.support.event_node import CLUSTER, EventNode
from tests.support.told_events import NOON, Told, cause, who
from tests.support.told_incidents import told_absence

Capture = pytest.CaptureFixture[str]
Why = Callable[..., Awaitable[tuple[str, str]]]
"""Runs the command against a node; returns what it prints on both streams."""


@pytest.fixture
def why(capsys: Capture) -> Why:
    async def run(node: StubNode, *arguments: str, code: int = 0) -> tuple[str, str]:
        async with cluster(node) as address:
            call = ["why", "g", "--bootstrap-server", address, "--timeout", "5", *arguments]
            call += [] if "--http" in arguments else ["--http", "off"]
            assert await asyncio.to_thread(main, call) == code
        out, err = capsys.readouterr()
        return out, err

    return run


def rounds(count: int) -> Told:
    """Rounds a minute apart, each with a line of another event before it."""
    told = Told()
    for number in range(count):
        told.at(60_000 * number).tell("offsets_expired", count=number, partitions={})
        told.started(cause("member_left", who(f"m{number}"), likely="shutdown"))
        told.generation += 1
        told.completed()
    return told


async def test_rounds_are_paragraphs_in_order_of_time(why: Why) -> None:
    out, err = await why(EventNode(rounds(2).events))
    lines = out.splitlines()
    assert lines[0].startswith("2025-11-22 12:00:00.000Z  0 offsets expired")
    heads = [each for each in lines if "  rebalance " in each]
    assert [each.partition("  ")[2] for each in heads] == [
        "rebalance to generation 1, 3.0 s",
        "rebalance to generation 2, 3.0 s",
    ]
    assert out.count("Nothing is wrong if it was meant to stop.") == 2
    assert lines[-1] == (
        "Now: Stable, 1 member. m1 (client billing, on 10.0.0.7) has nothing assigned."
    )
    assert max(map(len, lines)) <= 100
    assert err == ""


async def test_the_last_rounds_and_what_happened_since(why: Why) -> None:
    out, _ = await why(EventNode(rounds(5).events), "--last", "2")
    assert "generation 4," in out and "generation 5," in out and "generation 3," not in out
    assert "3 offsets expired" not in out and "4 offsets expired" in out


async def test_since_reads_nothing_before(why: Why) -> None:
    node = EventNode(rounds(5).events)
    out, _ = await why(node, "--since", "2025-11-22T12:03:00Z")
    assert "generation 4," in out and "generation 3," not in out
    assert min(node.fetched) == 9


async def test_of_a_long_log_only_the_end_is_read(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_events, "FIRST_PIECE", 10)
    node = EventNode(rounds(200).events)
    out, _ = await why(node, "--last", "3")
    assert "generation 198," in out
    assert min(node.fetched) >= 580


async def test_what_is_read_backwards_is_bounded(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_events, "FIRST_PIECE", 10)
    monkeypatch.setattr(group_events, "BACKWARDS_BYTES", 1)
    node = EventNode(rounds(20).events)
    out, err = await why(node, "--last", "15")
    assert "generation 20," in out and "generation 15," not in out
    assert "only events since 2025-11-22 12:16:00.000Z were read: give --since" in err


async def test_a_group_whose_events_were_not_reached_is_not_said_to_have_none(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_events, "FIRST_PIECE", 10)
    monkeypatch.setattr(group_events, "BACKWARDS_BYTES", 1)
    node = EventNode(rounds(1).events)
    node.state = "Dead"
    node.records += [(b"other", node.records[1][1])] * 20
    _, err = await why(node)
    assert "no rebalances of group 'g': only events since 2025-11-22 12:00:00.000Z were" in err
    assert "has no events" not in err


async def test_a_piece_with_too_much_of_the_group_is_read_in_shorter_ones(
    why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_events, "FIRST_PIECE", 4)
    monkeypatch.setattr(group_events, "PIECE_BYTES", 2_000)
    node = EventNode(rounds(40).events)
    out, _ = await why(node, "--last", "30")
    assert [f"generation {n}, 3.0 s" in out for n in (10, 11, 40)] == [False, True, True]
    assert out.count("  rebalance ") == 30


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_MEMBERS"])
async def test_what_is_kept_of_a_long_time_is_bounded(
    limit: str, why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_read, limit, 6)
    node = EventNode(rounds(40).events)
    out, err = await why(node, "--since", "2025-11-22T12:00Z")
    assert "generation 40," in out and "generation 30," not in out
    assert "too much was stored: only entries since 2025-11-22 12:3" in err


@pytest.mark.parametrize("arguments", [(), ("--since", "2025-11-22T12:00Z")])
async def test_advice_knows_which_sessions_the_coordinator_accepts(
    arguments: tuple[str, ...], why: Why
) -> None:
    longest = {"group.max.session.timeout.ms": "30000"}
    told = told_absence(away_ms=28_000, took_ms=20_000, timeouts=(20_000, 300_000))
    out, _ = await why(EventNode(told.events, **longest), *arguments)
    assert (
        "group.max.session.timeout.ms=35000 (35 s) of the coordinator, which has 30000, and "
        "a group.instance.id for each member and session.timeout.ms=35000 (35 s)"
    ) in " ".join(out.split())


async def test_json_is_one_object_a_line(why: Why) -> None:
    out, _ = await why(EventNode(rounds(1).events), "--json")
    event, round_, now = map(json.loads, out.splitlines())
    assert (event["kind"], event["type"], event["count"]) == ("event", "offsets_expired", 0)
    assert (round_["kind"], round_["round"], round_["outcome"]) == ("round", 1, "completed")
    assert round_["cause"]["code"] == "member_left"
    assert round_["advice"] == "Nothing is wrong if it was meant to stop."
    assert (now["kind"], now["state"]) == ("described", "Stable")


async def test_events_of_other_groups_are_passed_over(why: Why) -> None:
    node = EventNode(rounds(1).events)
    node.records.insert(0, (b"other", node.records[1][1]))
    out, _ = await why(node)
    assert out.count("  rebalance ") == 1


async def test_tombstones_are_passed_over(why: Why) -> None:
    node = EventNode(rounds(1).events)
    node.raw.append((b"g", None))
    out, err = await why(node)
    assert out.count("  rebalance ") == 1
    assert not err


async def test_what_a_newer_server_wrote_is_counted_and_named(why: Why) -> None:
    told = rounds(1)
    for _ in range(2):
        told.tell("quota_reached", most=3)
    told.tell("coordinator_closed", why="stopped", mood="bad")
    node = EventNode(told.events)
    node.raw.append((b"g", b'{"v":2}'))
    _, err = await why(node)
    assert err == (
        "groupkeeper: 2 events of type quota_reached, which this version does not know\n"
        "groupkeeper: 1 event with the field coordinator_closed.mood, which this version does not "
        "know\n"
        "groupkeeper: skipped 1 record that is no event (a group event of version 2; this reads "
        "version 1)\n"
    )


async def test_of_very_many_unknown_types_the_first_are_named(why: Why) -> None:
    told = rounds(1)
    for number in range(30):
        told.tell(f"new_{number}")
    _, err = await why(EventNode(told.events))
    assert err.count("which this version does not know") == 20
    assert err.endswith("groupkeeper: 10 more types and fields are not known\n")


async def test_repeated_restarts_are_folded_for_people_and_each_is_in_the_json(why: Why) -> None:
    told = rounds(1)
    for _ in range(4):
        told.tell("member_replaced", who=who(instance="pod"), quick=True, old_member="o", away_ms=1)
    out, _ = await why(EventNode(told.events))
    assert out.count("pod restarted 4 times") == 1
    out, _ = await why(EventNode(told.events), "--json")
    assert out.count('"type": "member_replaced"') == 4


# -- nothing to tell -------------------------------------------------------------------------------


async def test_a_cluster_without_events_tells_what_it_can(why: Why) -> None:
    out, err = await why(EventNode(None))
    assert out.startswith("Now: Stable, 1 member.")
    assert "causes cannot be inferred, as the cluster shows no topic" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [("false", "group.events.enabled=true"), ("true", "no rebalances of group 'g' are stored yet")],
)
async def test_a_groupkeeper_without_events_says_why(setting: str, said: str, why: Why) -> None:
    _, err = await why(EventNode(None, setting))
    assert said in err


@pytest.mark.parametrize("events", [None, []])
async def test_a_group_that_does_not_exist(events: list[Event] | None, why: Why) -> None:
    node = EventNode(events)
    node.state = "Dead"
    out, err = await why(node, code=1)
    assert out == ""
    assert err.startswith("groupkeeper: consumer group 'g' does not exist")
    assert err.count("\n") == 1


async def test_a_deleted_group_still_has_its_events(why: Why) -> None:
    node = EventNode(rounds(1).events)
    node.state = "Dead"
    out, err = await why(node)
    assert "generation 1," in out
    assert err == "groupkeeper: consumer group 'g' does not exist now\n"


async def test_nothing_since_then_says_when_that_is(why: Why) -> None:
    node = EventNode(rounds(1).events)
    _, err = await why(node, "--since", "2030-01-01T03:00+01:00")
    assert "no rebalances of group 'g' since 2030-01-01 02:00:00.000Z: try an earlier" in err


async def test_a_narrow_terminal_is_not_overrun(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = await why(EventNode(rounds(1).events))
    assert max(map(len, out.splitlines())) > 80
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out, _ = await why(EventNode(rounds(1).events))
    assert 50 < max(map(len, out.splitlines()[1:])) <= 60


async def test_no_events_yet(why: Why) -> None:
    _, err = await why(EventNode([]))
    assert "no rebalances of group 'g' are stored yet" in err


@pytest.mark.parametrize(("count", "more"), [(0, ""), (1, "; these are older")])
async def test_events_that_were_switched_off_later(count: int, more: str, why: Why) -> None:
    out, err = await why(EventNode(rounds(count).events, "false"))
    assert out.count("  rebalance ") == count
    assert err == (
        "groupkeeper: events are switched off: start the server with group.events.enabled=true"
        f"{more}\n"
    )


async def test_a_topic_of_somebody_else(why: Why) -> None:
    node = EventNode([])
    node.raw.append((b"g", b"hello"))
    out, err = await why(node)
    assert "was not written by Groupkeeper: not a group event: no JSON" in err
    assert out.startswith("Now: Stable")


def test_a_wrong_address_is_one_line(capsys: Capture) -> None:
    assert main(["why", "g", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("groupkeeper: no Kafka node answers at 127.0.0.1:1")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["why"], "Missing argument 'GROUP'"),
        (["why", "g", "--last", "0"], "--last"),
        (["why", "g", "--since", "noon"], "'noon' is not a time"),
        (["why", "g", "--http", "here"], "--http"),
    ],
)
def test_a_wrong_call(arguments: list[str], problem: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert problem in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", NOON - 90_000),
        ("3h", NOON - 3 * 3_600_000),
        ("2d", NOON - 2 * 86_400_000),
        ("03:00", NOON - 9 * 3_600_000),
        ("13:00:30", NOON - 23 * 3_600_000 + 30_000),
        ("2025-11-22T11:00", NOON - 3_600_000),
        ("2025-11-22T12:00+02:00", NOON - 2 * 3_600_000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert read_since(text, NOON) == ms


# -- the present -----------------------------------------------------------------------------------


async def with_http(why: Why, node: StubNode, answer: HttpAnswer) -> tuple[str, str]:
    async def api(request: HttpRequest) -> HttpAnswer:
        assert request.path == "groups/g"
        return answer

    server = HttpServer({"/api/v1/": api})
    host, port = await server.start(("127.0.0.1", 0))
    try:
        return await why(node, "--http", f"{host}:{port}")
    finally:
        await server.close()


async def test_following_goes_on_when_a_node_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "LONGEST_PAUSE_S", 0.01)
    node = EventNode(rounds(1).events)
    fetch, told = node.answers["Fetch"], 0

    def lost(failure: CallFailed) -> None:
        nonlocal told
        assert failure.error is ErrorCode.REQUEST_TIMED_OUT
        told += 1
        if told == 2:
            node.answers["Fetch"] = fetch

    async with cluster(node) as address, Client(address, request_timeout_ms=200) as client:
        log = await EventTopicReader.of(client, "g")
        node.answers["Fetch"] = lambda _: SILENCE
        async for events in log.follow(log.start, lambda: 0, lost):
            assert [each.type for each in events][:1] == ["offsets_expired"]
            break
    assert told == 2


def page(status: int = 200, **live: Any) -> HttpAnswer:
    found = {"cluster": live.pop("cluster", CLUSTER), "live": live}
    return HttpAnswer(status, json.dumps(found | live).encode())


async def test_the_present_comes_from_the_http_port(why: Why) -> None:
    node = EventNode(rounds(1).events)
    answer = page(state="Stable", state_ms=5_000, generation=7, members=[])
    out, err = await with_http(why, node, answer)
    assert out.splitlines()[-1] == "Now: Stable for 5.0 s, generation 7, 0 members."
    assert err == ""


async def test_another_clusters_http_port_is_not_believed(why: Why) -> None:
    node = EventNode(rounds(1).events)
    out, err = await with_http(why, node, page(cluster="another", state="Empty"))
    assert out.splitlines()[-1].startswith("Now: Stable, 1 member.")
    assert "belongs to another cluster" in err


async def test_a_partition_that_does_not_serve_is_told(why: Why) -> None:
    node = EventNode(rounds(1).events)
    _, err = await with_http(why, node, page(503, error="the partition of group 'g' is closed"))
    assert "the partition of group 'g' is closed" in err


async def test_a_kafka_port_given_as_the_http_port_is_one_line(capsys: Capture) -> None:
    async with cluster(EventNode(rounds(1).events)) as address:
        call = ["why", "g", "--bootstrap-server", address, "--http", address]
        assert await asyncio.to_thread(main, call) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"groupkeeper: no HTTP port of Groupkeeper answers at {address} (")


@pytest.mark.parametrize(
    "command", [["why", "g"], ["groups", "list"], ["groups", "describe", "--group", "g"]]
)
async def test_the_http_port_given_as_a_kafka_port_is_a_wrong_call(
    command: list[str], capsys: Capture
) -> None:
    server = HttpServer({})
    host, port = await server.start(("127.0.0.1", 0))
    try:
        call = [*command, "--bootstrap-server", f"{host}:{port}"]
        assert await asyncio.to_thread(main, call) == 2
    finally:
        await server.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"groupkeeper: --bootstrap-server: {host}:{port} answers HTTP: give the")
    assert err.count("\n") == 1


async def test_without_an_http_port_one_line_says_so(why: Why) -> None:
    out, err = await why(EventNode(rounds(1).events), "--http", "127.0.0.1:1")
    assert "generation 1," in out
    assert err.startswith("groupkeeper: no HTTP port of Groupkeeper answers at 127.0.0.1:1")
    assert err.count("\n") == 1
