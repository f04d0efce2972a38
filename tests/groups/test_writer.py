"""Flushes of group commit: what is written together, and what leaves when."""

import asyncio
import errno
from itertools import count
from unittest.mock import Mock

import pytest

from groupkeeper.groups.writer import CATCH_UP_S, LINGER_S
from groupkeeper.protocol.errors import ErrorCode
from tests.support.broken import boom
from tests.support.served import Client, Lines, Serve, Served, groups_apart, settle

PARTITIONS = 4


def in_flight(served: Served, *group_ids: str) -> list[Client]:
    """Clients whose commits, of offset 7, arrive in the same turn."""
    clients = {served.client(): group_id for group_id in group_ids}
    served.at_once({client: client.commit_frame(7, group) for client, group in clients.items()})
    return list(clients)


def deliver(frames: dict[Client, bytes]) -> None:
    """Within a turn of the loop."""
    for client, data in frames.items():
        assert client.pipe.peer is not None
        client.pipe.peer.protocol.data_received(data)


# -- flushes ---------------------------------------------------------------------------------------


def test_what_arrives_in_one_turn_is_one_round(served: Served) -> None:
    before = served.syncs()
    clients = in_flight(served, *(f"g{number}" for number in range(30)))
    assert [client.committed() for client in clients] == [0] * 30
    assert served.syncs() == before + 1
    assert served.server.metrics.appends.seconds.count() == 1


def test_what_arrives_in_the_next_turn_shares_the_round(served: Served) -> None:
    before = served.syncs()
    first, second = served.client(), served.client()
    served.at_once({first: first.commit_frame(7, "g")}, {second: second.commit_frame(7, "h")})
    assert (first.committed(), second.committed()) == (0, 0)
    assert served.syncs() == before + 1


def test_a_flush_does_not_wait_for_a_second_slow_iteration(served: Served) -> None:
    before = served.syncs()
    first, second = served.client(), served.client()

    async def slowly() -> None:
        deliver({first: first.commit_frame(7, "g")})
        served.loop.idle.now += LINGER_S
        await asyncio.sleep(0)
        deliver({second: second.commit_frame(7, "h")})

    served.run(slowly())
    assert (first.committed(), second.committed()) == (0, 0)
    assert served.syncs() == before + 2


def test_what_arrives_during_a_flush_is_the_next_flush(served: Served) -> None:
    before = served.syncs()
    first = in_flight(served, "g")
    served.advance(0.0001)
    later = in_flight(served, *(f"g{number}" for number in range(30)))
    assert [client.committed() for client in first] == [0]
    assert (served.syncs(), [client.frames for client in later]) == (before + 1, [[]] * 30)
    assert [client.committed() for client in later] == [0] * 30
    assert served.syncs() == before + 2


def test_a_flush_alone_does_not_wait_for_company(served: Served) -> None:
    began = served.loop.time()
    assert served.client().commit(1) == 0
    assert served.loop.time() - began < 0.005


def test_several_partitions_share_a_round(served: Served) -> None:
    before = served.syncs()
    groups = groups_apart(PARTITIONS, 4)
    assert [client.committed() for client in in_flight(served, *groups)] == [0] * 4
    assert served.syncs() == before + 1
    store = served.server.store
    logs = [store.open_log(log.name) for log in served.server.logs.by_partition]
    assert [log.next_offset for log in logs] == [1, 1, 1, 1]


def test_what_exceeds_a_flush_is_written_in_the_next_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.groups.writer.FLUSH_BYTES", 100)
    before = served.syncs()
    clients = in_flight(served, *groups_apart(PARTITIONS, 4))
    served.until(lambda: served.syncs() == before + 1)
    served.advance(0.0005)
    assert [len(client.frames) for client in clients] == [1, 0, 0, 0]
    assert [client.committed() for client in clients] == [0] * 4
    assert served.syncs() == before + 4


def test_a_flushes_records_and_bytes_are_counted(serve: Serve) -> None:
    served = serve("group.events.enabled=false")
    served.client().commit(1)
    served.client().commit(2)
    stats = served.server.metrics.appends
    assert (stats.records, stats.failures) == (2, 0)
    assert stats.bytes == served.log().size


# -- acknowledged means durable --------------------------------------------------------------------


def test_no_answer_leaves_before_the_sync(served: Served) -> None:
    before = served.syncs()
    [client] = in_flight(served, "g")
    while served.syncs() == before:
        assert client.frames == []
        served.advance(0.0001)
    assert client.committed() == 0


def commit_until_the_power_goes(served: Served) -> dict[str, int]:
    """Three groups commit in turn, two of them in one partition; what was acknowledged."""
    client = served.client()
    acknowledged: dict[str, int] = {}
    one, two = groups_apart(PARTITIONS)
    for offset in range(1, 4):
        for group_id in (one, two, f"{one}-other"):
            client.pipe.write(client.commit_frame(offset, group_id))
            served.until(lambda: bool(client.frames) or served.disk.dead)
            if served.disk.dead:
                return acknowledged
            assert client.committed() == 0
            acknowledged[group_id] = offset
    return acknowledged


@pytest.mark.parametrize("mode", ["lose", "tear", "keep"])
def test_what_was_acknowledged_survives_a_power_cut_in_any_position(
    serve: Serve, mode: str
) -> None:
    for position in count(1):
        served = serve(f"offsets.topic.num.partitions={PARTITIONS}", seed=position)
        served.disk.crash_at = served.disk.calls + position
        acknowledged = commit_until_the_power_goes(served)
        if not served.disk.dead:
            break
        served.recover(mode)
        for group_id, offset in acknowledged.items():
            assert served.client().fetched(group_id)["orders", 0] >= offset, (position, group_id)
    assert position > 20


def test_a_member_that_got_its_assignment_is_there_after_a_power_cut(served: Served) -> None:
    member_id, generation = settle(served.client())
    served.recover("lose")
    assert served.client().beat(member_id, generation) == 0


# -- failed flushes --------------------------------------------------------------------------------


def fail_next(served: Served, code: int, calls: int = 1) -> None:
    """The next call that changes the disk fails; it is the journal's write, the one after its
    sync.
    """
    served.disk.failures[served.disk.calls + calls] = OSError(code, "injected")


def test_a_failed_flush_acknowledges_nothing_and_its_partitions_come_back(served: Served) -> None:
    one, two, third, _ = groups_apart(PARTITIONS, 4)
    assert served.client().commit(1, third) == 0
    fail_next(served, errno.ENOSPC)
    clients = in_flight(served, one, two)
    codes = [client.committed() for client in clients]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2
    assert served.server.metrics.appends.failures == 1
    assert served.server.metrics.counts["partitions_closed", "AppendFailed"] == 2
    served.settled()
    assert [client.commit(8, group) for client, group in zip(clients, (one, two), strict=True)] == [
        0,
        0,
    ]


def test_partitions_outside_a_failed_flush_notice_nothing(served: Served) -> None:
    one, other = groups_apart(PARTITIONS)
    client = served.client()
    member_id, generation = settle(client, other)
    fail_next(served, errno.ENOSPC)
    [failed] = in_flight(served, one)
    assert failed.committed() == ErrorCode.NOT_COORDINATOR
    assert client.beat(member_id, generation, other) == 0
    assert [each.state for each in served.server.group_partitions.snapshots()].count("loading") <= 1


def test_what_waited_for_a_failed_flush_is_refused_in_the_form_of_its_request(
    served: Served,
) -> None:
    client, reader = served.client(), served.client()
    joined = client.join()
    fail_next(served, errno.ENOSPC)
    served.at_once({reader: reader.commit_frame(1)})
    synced = client.sync(joined.member_id, joined.generation_id)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NOT_COORDINATOR, b"")


def test_a_partition_that_fails_to_close_costs_no_other_its_refusal(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    one, two = groups_apart(PARTITIONS)
    monkeypatch.setattr(served.driver(one), "_dismiss", boom)
    fail_next(served, errno.ENOSPC)
    _, lost = in_flight(served, one, two)
    assert lost.committed() == ErrorCode.NOT_COORDINATOR
    assert served.server.metrics.counts["partitions_closed", "AppendFailed"] == 2
    assert "a failed partition could not be closed" in [line["event"] for line in lines()]
    served.settled()
    assert served.client().commit(1, two) == 0
    assert served.client().commit(1, one) == 0


def test_a_partition_that_does_not_hear_of_its_loss_acknowledges_nothing_lost(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps it from closing, a later flush does not pass over the one that failed."""
    driver = served.driver("g")
    with monkeypatch.context() as deaf:
        deaf.setattr(driver, "not_written", lambda error: None)
        fail_next(served, errno.ENOSPC)
        [lost] = in_flight(served, "g")
        served.advance(0.05)
    assert lost.frames == []
    assert served.client().commit(1) == ErrorCode.NOT_COORDINATOR
    assert lost.committed() == ErrorCode.NOT_COORDINATOR
    served.settled()
    assert served.client().commit(2) == 0


def test_a_bug_while_a_partition_closes_does_not_keep_it_from_starting_over(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(served.driver("g")._partition, "close", boom)
        fail_next(served, errno.ENOSPC)
        in_flight(served, "g")
        served.advance(0.05)
    served.settled()
    assert served.client().commit(2) == 0


def test_a_full_disk_acknowledges_nothing_until_there_is_room(served: Served) -> None:
    client = served.client()
    assert client.commit(1) == 0
    served.disk.capacity = 0
    for offset in range(2, 5):
        assert client.commit(offset) in (14, 16)
        served.advance(5)
    assert served.driver("g").snapshot().state != "active"
    served.disk.capacity = None
    served.settled()
    assert client.fetched() == {("orders", 0): 1}
    assert client.commit(9) == 0


def test_a_sync_that_fails_is_the_end_of_the_process(served: Served) -> None:
    served.client().commit(1)
    fail_next(served, errno.EIO, calls=2)
    [client] = in_flight(served, "g")
    assert client.committed() == ErrorCode.NOT_COORDINATOR
    assert "injected" in str(served.server.failed.result())
    served.advance(60)
    assert client.commit(8) != 0  # no commit is accepted by a disk that has lied once


# -- the end ---------------------------------------------------------------------------------------


def test_what_is_under_way_is_finished_when_the_server_stops(served: Served) -> None:
    first = in_flight(served, "g")
    served.advance(0.0001)
    second = in_flight(served, "g0")
    served.stop()
    assert [client.committed() for client in first + second] == [0, 0]
    served.start()
    served.settled()
    assert served.client().fetched("g0") == {("orders", 0): 7}


def test_stopping_with_nothing_to_write_does_not_wait(served: Served) -> None:
    before = served.loop.time()
    served.stop()
    assert served.loop.time() - before < 1


@pytest.mark.parametrize(
    ("broken", "method"), [("driver", "written"), ("partition_log", "prepare")]
)
def test_a_partition_that_raises_in_a_round_fails_alone_and_the_rounds_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch, broken: str, method: str
) -> None:
    one, other = groups_apart(PARTITIONS)
    monkeypatch.setattr(getattr(served, broken)(one), method, boom)
    failed, healthy = in_flight(served, one, other)
    assert healthy.committed() == 0
    assert failed.committed() == ErrorCode.NOT_COORDINATOR
    assert served.client().commit(8, other) == 0
    served.stop()


# -- the segments follow the journal ---------------------------------------------------------------


def commit_to_all(served: Served) -> list[str]:
    """One flush for four partitions, whose segments do not all have it yet."""
    groups = groups_apart(PARTITIONS, 4)
    assert [client.committed() for client in in_flight(served, *groups)] == [0] * 4
    assert 0 in segment_sizes(served)
    return groups


def segment_sizes(served: Served) -> list[int]:
    """Of every partition's first segment, as its file is now."""
    paths = [f"data/{log.name}/00000000000000000000.log" for log in served.server.logs.by_partition]
    return [len(served.disk.contents(p)) if served.disk.has(p) else 0 for p in paths]


def test_when_nothing_is_left_to_do_the_segments_catch_up(served: Served) -> None:
    commit_to_all(served)
    served.advance(CATCH_UP_S + 0.01)
    assert segment_sizes(served) == [
        each.log.size for each in served.server.logs.by_partition if each.log
    ]
    assert 0 not in segment_sizes(served)


def test_the_segments_catch_up_once_however_often_the_writer_rests(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up, later = Mock(), Mock(wraps=served.loop.call_later)
    monkeypatch.setattr(served.server.store, "catch_up", catch_up)
    monkeypatch.setattr(served.loop, "call_later", later)
    client = served.client()
    for offset in range(3):
        client.commit(offset)
    served.advance(1)
    assert catch_up.call_count == 1
    assert [call.args[0] for call in later.call_args_list].count(CATCH_UP_S) == 1


def test_a_partition_that_is_loaded_again_misses_nothing(served: Served) -> None:
    groups = commit_to_all(served)
    for group_id in groups:
        served.fail(group_id)
    served.settled()
    assert [served.client().fetched(each) for each in groups] == [{("orders", 0): 7}] * 4


def test_a_segment_that_cannot_be_written_loses_nothing(served: Served) -> None:
    """The journal has it; the log is repaired when it is opened again."""
    groups = commit_to_all(served)
    fail_next(served, errno.ENOSPC)
    served.advance(1)
    codes = [client.committed() for client in in_flight(served, *groups)]
    assert set(codes) <= {0, ErrorCode.NOT_COORDINATOR}
    served.settled()
    assert [served.client().commit(9, each) for each in groups] == [0] * 4
    served.recover("lose")
    assert [served.client().fetched(each) for each in groups] == [{("orders", 0): 9}] * 4
