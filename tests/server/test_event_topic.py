"""`__group_events` in a whole server: what clients see, crashes at every call, retention."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from groupkeeper.cli.app import command
from groupkeeper.protocol.group_events import Event, decode, encode
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches
from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch
from groupkeeper.server.stops import note_clock, note_stop
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.topics.names import EVENT_TOPIC
from tests.simulation.cluster import VirtualClock
from tests.support.fake_files import FakeFiles
from tests.support.served import Serve, Served, settle
from tests.support.stored_events import stored, types

ONE = "offsets.topic.num.partitions=1"
FIRST_ROUND = [
    "group_created",
    "member_joined",
    "rebalance_started",
    "rebalance_joined",
    "rebalance_completed",
]


def fetch_request(offset: int, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=EVENT_TOPIC, partitions=[partition])
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic]
    )


def events_in(answer: Any) -> list[Event]:
    data = answer.responses[0].partitions[0]
    assert data.error_code == 0
    return [
        decode(record.key, record.value)
        for header in iter_batches(data.records)
        for record in decode_records(data.records, header)
        if record.key != b"somebody's"
    ]


def fetched(answer: Any) -> list[str]:
    return [event.type for event in events_in(answer)]


def span(served: Served) -> tuple[int, int]:
    return served.client().span(EVENT_TOPIC)


def test_clients_see_an_internal_topic_and_read_all_events(serve: Serve) -> None:
    served = serve(ONE)
    client = served.client()
    [topic] = [
        topic
        for topic in client.call(12, MetadataRequest(topics=None)).topics
        if topic.name == EVENT_TOPIC
    ]
    assert (topic.is_internal, len(topic.partitions), topic.error_code) == (True, 1, 0)
    assert fetched(client.call(11, fetch_request(0))) == []
    assert span(served) == (0, 0)
    settle(client)
    served.advance(0.3)
    assert fetched(client.call(11, fetch_request(0))) == FIRST_ROUND
    assert fetched(client.call(11, fetch_request(4)))[-1:] == FIRST_ROUND[-1:]
    assert span(served) == (0, 5)


def test_a_fetch_that_waits_is_woken(serve: Serve) -> None:
    served = serve(ONE)
    settle(served.client())
    served.advance(1)
    waiting = served.client()
    waiting.send(11, fetch_request(span(served)[1], 30_000))
    began = served.loop.time()
    settle(served.client(), "another")
    assert set(fetched(waiting.take())) <= set(FIRST_ROUND)
    assert served.loop.time() - began < 1


def test_nobody_deletes_the_topic(serve: Serve) -> None:
    served = serve(ONE)
    request = DeleteTopicsRequest(topic_names=[EVENT_TOPIC], timeout_ms=1000)
    [answer] = served.client().call(3, request).responses
    assert answer.error_code != 0


def test_old_events_are_deleted(serve: Serve) -> None:
    served = serve(ONE, "group.events.retention.ms=3600000", "log.retention.ms=-1")
    settle(served.client())
    served.advance(3_000)
    assert span(served)[0] == 0
    settle(served.client(), "young")
    served.advance(1_500)
    start, end = span(served)
    assert 0 < start < end, "events of the first hour only"
    assert {event.group for event in stored(served)} >= {"young"}
    assert not any(event.type == "group_created" and event.group == "g" for event in stored(served))
    served.recover()
    assert span(served)[0] == start
    served.advance(8_000)
    assert span(served)[0] >= end
    settle(served.client(), "younger")
    assert types(served)[-1] == "rebalance_completed"
    served.restart_cleanly()
    assert "coordinator_loaded" in types(served)


def test_a_stop_of_the_process_is_stored_where_members_are(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=2")
    settle(served.client())

    async def stop() -> None:
        now = served.loop.time()
        note_stop(served.server, now - 7.0, now)
        note_clock(served.server, -3_600.0)

    served.run(stop())
    served.advance(1)
    stops = [event for event in stored(served) if event.type == "coordinator_stalled"]
    assert [event.group for event in stops] == [None, None]
    assert [event.fields["what"] for event in stops] == ["process", "clock"]
    assert [event.fields["duration_ms"] for event in stops] == [7_000, 0]
    assert [event.fields["jump_ms"] for event in stops] == [None, -3_600_000]
    assert stops[0].at_ms - stops[0].fields["from_ms"] == 7_000


def test_a_stop_that_no_member_notices_is_only_a_line(serve: Serve) -> None:
    served = serve(ONE)

    async def stop() -> None:
        note_stop(served.server, 0.0, 7.0)

    served.run(stop())
    served.advance(1)
    assert "coordinator_stalled" not in types(served)


@pytest.mark.parametrize("jump_ms", [365 * 86_400_000, -365 * 86_400_000])
def test_a_wrong_time_for_a_second_neither_ends_retention_nor_takes_events(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    skew, right = [0], VirtualClock.wall
    monkeypatch.setattr(VirtualClock, "wall", lambda clock: right(clock) + skew[0])
    served = serve(ONE, "group.events.retention.ms=3600000", "log.retention.ms=-1")
    settle(served.client(), "before")
    served.advance(1_000)
    skew[0] = jump_ms
    settle(served.client(), "meanwhile")
    served.advance(1)
    skew[0] = 0
    settle(served.client(), "after")
    served.advance(1_000)
    assert {event.group for event in stored(served)} >= {"before", "meanwhile", "after"}
    settle(served.client(), "young")
    served.advance(3_000)
    settle(served.client(), "younger")
    found = {event.group for event in stored(served)}
    assert "younger" in found
    assert not found & {"before", "meanwhile", "after"}


def test_events_are_kept_without_limit(serve: Serve) -> None:
    served = serve(ONE, "group.events.retention.ms=-1", "log.retention.ms=1")
    settle(served.client())
    served.advance(100_000)
    assert span(served)[0] == 0


def acknowledged(served: Served) -> list[str]:
    """Groups that settle, one after the other, until the process dies."""
    settled: list[str] = []
    client = served.client()
    for number in range(4):
        group_id = f"g{number}"
        try:
            settle(client, group_id)
        except AssertionError:
            assert served.machine.server is None or served.disk.dead
            return settled
        settled.append(group_id)
    return settled


def crashed_at(calls: int, mode: str) -> bool:
    """Crash in one of the calls that change the disk, and compare. False: nothing crashed."""
    served = Served(ONE, start=False)
    try:
        served.machine.died = lambda: None
        served.start()
        served.machine.crash_in(calls)
        groups = acknowledged(served)
        crashed = served.machine.server is None
        if not crashed:
            served.machine.kill()
        served.disk.crash_at = None
        if mode != "kill":
            served.disk.power_cut(mode, calls)
        served.start()
        served.settled()
        events = stored(served)
        for group_id in groups:
            own = [event.type for event in events if event.group == group_id]
            assert own == FIRST_ROUND, (calls, group_id)
        assert served.states() == ["active"]
        return crashed
    finally:
        served.close()


@pytest.mark.parametrize("mode", ["kill", "lose", "keep", "tear"])
def test_events_of_what_was_acknowledged_survive_a_crash_at_any_call(mode: str) -> None:
    calls = 1
    while crashed_at(calls, mode):
        calls += 1
    assert calls > 20


def test_a_topic_of_that_name_in_copied_data_is_kept(serve: Serve) -> None:
    served = serve(ONE, start=False)
    files = FakeFiles(served.disk)
    log = open_log(files, "data/__group_events-0", Limits())
    log.append(encode_batch(0, 900, 1, [(b"somebody's", b"record")]))
    log.close()
    served.start()
    served.settled()
    settle(served.client())
    served.advance(0.3)
    events = events_in(served.client().call(11, fetch_request(1)))
    assert [event.type for event in events] == FIRST_ROUND
    assert {event.epoch for event in events} == {901}


def test_dump_shows_the_events(tmp_path: Path) -> None:
    log = open_log(Files(), f"{tmp_path}/__group_events-0", Limits())
    event = Event(0, 1, 0, 5, 5, "g", "group_created", fields={"who": None})
    values = encode(event), b"odd", None
    records = [TimedRecord(5 + number, b"g", value) for number, value in enumerate(values)]
    log.append(encode_timed_batch(0, 1, records))
    log.close()
    shown = CliRunner().invoke(command, ["dump", f"{tmp_path}/__group_events-0"]).output
    lines = [line for line in shown.splitlines() if line.startswith("| offset")]
    assert lines[0] == (
        '| offset: 0 CreateTime: 5 key: "g" payload: {"v":1,"seq":0,"epoch":1,"node":0,'
        '"at_ms":5,"mono_ms":5,"group":"g","type":"group_created","generation":0,"state":"",'
        '"round":0,"who":null}'
    )
    assert 'unreadable: "not a group event' in lines[1]
    assert lines[2] == '| offset: 2 CreateTime: 7 key: "g" payload: null'
