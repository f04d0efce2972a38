"""`group.events.purge` in a whole server: what is left of a deleted group's events, and when."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from groupkeeper.cleaner.log_cleaner import PURGE_PAUSE_S
from groupkeeper.coordinator import gate
from groupkeeper.groups import driver, event_limits, event_purge
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.record_batch import Record, decode_records, iter_batches
from groupkeeper.storage.backup.backup import restore
from tests.support.backups import DEST, backed_up
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.partition_logs import RefusingDisk
from tests.support.requests import heartbeat, join_request
from tests.support.served import Client, Lines, Served, settle
from tests.support.stored_events import stored

Serve = Callable[..., Served]

ONE = "offsets.topic.num.partitions=1"
FOLDER = "data/__group_events-0"
PURGE = (ONE, "group.events.purge=true", "log.cleaner.backoff.ms=1000")
CLEANED_S = 3


class Stored(NamedTuple):
    """A record of the log."""

    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def records(served: Served) -> Iterator[Stored]:
    """All records that readers find, after all that waits was written."""
    stored(served)
    log = served.server.event_logs.log_of(0)
    assert log is not None
    for piece in log.batches(log.start_offset):
        for header in iter_batches(piece):
            found: list[Record] = decode_records(piece, header)
            yield from (Stored(r.offset, r.timestamp_ms, r.key, r.value) for r in found)


def of_group(served: Served, group_id: str) -> list[str]:
    """The types of the group's events; "" is a tombstone."""
    key = group_id.encode()
    types = {event.seq: event.type for event in stored(served) if event.group == group_id}
    found = list(types.values())
    own = [record for record in records(served) if record.key == key]
    assert len(own) - sum(record.value is None for record in own) == len(found)
    whole = iter(found)
    return ["" if record.value is None else next(whole) for record in own]


def is_in_folder(served: Served, text: str) -> bool:
    stored(served)
    return is_in(served, FOLDER, text)


def is_in(served: Served, folder: str, text: str) -> bool:
    """Whether a file of the folder has the text."""
    names = served.disk.children(folder)
    return any(text.encode() in served.disk.contents(f"{folder}/{name}") for name in names)


def run_through(served: Served, group_id: str) -> str:
    """A group forms, commits and is empty again. Returns the id of its member."""
    client = served.client()
    member_id, generation = settle(client, group_id)
    assert client.commit(7, group_id, member_id=member_id, generation=generation) == 0
    assert client.leave(member_id, group_id=group_id) == 0
    client.hang_up()
    return member_id


def delete(served: Served, *group_ids: str) -> None:
    client: Client = served.client()
    answer = client.call(1, DeleteGroupsRequest(groups_names=list(group_ids)))
    assert {each.error_code for each in answer.results} == {0}
    client.hang_up()


def test_the_events_of_a_deleted_group_are_removed_and_no_others(serve: Serve) -> None:
    served = serve(*PURGE)
    gone, kept = run_through(served, "gone"), run_through(served, "kept")
    others = [record for record in records(served) if record.key != b"gone"]
    assert is_in_folder(served, gone)
    delete(served, "gone")
    assert of_group(served, "gone")[-2:] == ["", "group_deleted"]
    served.advance(CLEANED_S)
    assert of_group(served, "gone") == ["", "group_deleted"]
    assert not is_in_folder(served, gone)
    assert is_in_folder(served, kept)
    left = [record for record in records(served) if record.key != b"gone"]
    assert left[: len(others)] == others
    assert "purge" not in served.disk.children(FOLDER)


def test_journals_keep_the_events_until_a_clean_stop(serve: Serve) -> None:
    served = serve(*PURGE)
    run_through(served, "gone")
    delete(served, "gone")
    served.advance(CLEANED_S)
    joined = '"group":"gone","type":"member_joined"'
    assert not is_in_folder(served, joined)
    assert is_in(served, "data/journals", joined)
    served.stop()
    assert not is_in(served, "data/journals", joined)
    assert not is_in(served, FOLDER, joined)
    served.start()
    served.settled()
    assert of_group(served, "gone") == ["", "group_deleted"]


def test_nothing_is_told_later_of_a_purged_group(serve: Serve) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")
    client = served.client()
    for _ in range(3):
        assert client.beat(member_id, 9, "gone") == ErrorCode.UNKNOWN_MEMBER_ID
    served.advance(0.5)
    delete(served, "gone")
    served.advance(200)
    assert of_group(served, "gone") == ["", "group_deleted"]
    assert not is_in_folder(served, member_id)


def test_commits_of_the_round_of_the_deletion_are_not_told(serve: Serve) -> None:
    served = serve(*PURGE)
    client, other = served.client(), served.client()
    assert client.commit(1, "gone") == 0
    request = DeleteGroupsRequest(groups_names=["gone"])
    served.at_once({client: client.commit_frame(2, "gone"), other: other.frame(1, request)})
    assert client.committed() == 0
    assert other.take().results[0].error_code == 0
    served.advance(200)
    assert of_group(served, "gone") == ["", "group_deleted"]


def test_commits_after_the_deletion_are_told(serve: Serve) -> None:
    served = serve(*PURGE)
    client, other = served.client(), served.client()
    assert client.commit(1, "gone") == 0
    request = DeleteGroupsRequest(groups_names=["gone"])
    served.at_once({other: other.frame(1, request), client: client.commit_frame(2, "gone")})
    assert other.take().results[0].error_code == 0
    assert client.committed() == 0
    served.advance(200)
    assert of_group(served, "gone")[:2] == ["", "group_deleted"]
    assert of_group(served, "gone")[-1] == "commits"


def test_a_group_that_is_created_again_keeps_its_new_events(serve: Serve) -> None:
    served = serve(*PURGE)
    old = run_through(served, "gone")
    delete(served, "gone")
    new = run_through(served, "gone")
    before = of_group(served, "gone")
    served.advance(CLEANED_S)
    after = of_group(served, "gone")
    assert after == before[before.index("") :]
    assert after[2] == "group_created"
    assert is_in_folder(served, new)
    assert not is_in_folder(served, old)


def test_without_the_setting_nothing_changes(serve: Serve) -> None:
    served = serve(ONE, "log.cleaner.backoff.ms=1000")
    member_id = run_through(served, "gone")
    delete(served, "gone")
    before = list(records(served))
    served.advance(CLEANED_S)
    assert list(records(served)) == before
    assert all(record.value is not None for record in before)
    assert is_in_folder(served, member_id)
    assert "purge" not in served.disk.children(FOLDER)
    assert served.server.metrics.cleaner.runs == 0


def test_a_group_that_expired_keeps_its_events(serve: Serve) -> None:
    expiry = ("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000")
    served = serve(*PURGE, *expiry)
    member_id = run_through(served, "old")
    served.advance(120)
    types = of_group(served, "old")
    assert types[-1] == "group_deleted"
    assert "" not in types
    assert is_in_folder(served, member_id)


def test_groups_that_are_deleted_soon_after_wait_and_go_together(serve: Serve) -> None:
    served = serve(*PURGE)
    for name in ("one", "two", "three"):
        run_through(served, name)
    delete(served, "one")
    served.advance(CLEANED_S)
    assert served.server.metrics.cleaner.runs == 1
    delete(served, "two")
    served.advance(60)
    delete(served, "three")
    served.advance(60)
    assert served.server.metrics.cleaner.runs == 1
    assert len(of_group(served, "two")) > 2
    served.advance(PURGE_PAUSE_S)
    assert served.server.metrics.cleaner.runs == 2
    for name in ("one", "two", "three"):
        assert of_group(served, name) == ["", "group_deleted"]


@pytest.mark.parametrize("mode", ["kill", "lose", "keep", "tear"])
def test_a_restart_purges_what_was_deleted_before_it(serve: Serve, mode: str) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")
    delete(served, "gone")
    assert is_in_folder(served, member_id)
    if mode == "kill":
        served.restart()
    else:
        served.cut_power(mode)
    served.settled()
    assert "purge" in served.disk.children(FOLDER)
    served.advance(CLEANED_S)
    assert of_group(served, "gone") == ["", "group_deleted"]
    assert not is_in_folder(served, member_id)
    assert "purge" not in served.disk.children(FOLDER)
    served.restart()
    served.settled()
    served.advance(CLEANED_S)
    assert served.server.metrics.cleaner.runs == 0, "a start looks for nothing"


def crashed_at(calls: int, mode: str) -> bool:
    """Crash in one of the calls that change the disk. False: nothing crashed."""
    served = Served(*PURGE, start=False)
    try:
        served.machine.died = lambda: None
        served.start()
        served._make_topics()
        run_through(served, "kept")
        member_id = run_through(served, "gone")
        others = [record for record in records(served) if record.key == b"kept"]
        served.machine.crash_in(calls)
        is_deleted = True
        try:
            delete(served, "gone")
            served.advance(CLEANED_S)
        except AssertionError:
            is_deleted = False
        crashed = served.machine.server is None
        served.disk.crash_at = None
        if crashed:
            if mode != "kill":
                served.disk.power_cut(mode, calls)
            served.start()
            served.settled()
            served.advance(CLEANED_S)
        if is_deleted:
            assert of_group(served, "gone") == ["", "group_deleted"]
            assert not is_in_folder(served, member_id), calls
        elif "" not in of_group(served, "gone"):
            assert is_in_folder(served, member_id)
        assert [record for record in records(served) if record.key == b"kept"] == others
        assert served.states() == ["active"]
        assert "purge" not in served.disk.children(FOLDER)
        return crashed
    finally:
        served.close()


@pytest.mark.parametrize("mode", ["kill", "lose", "keep", "tear"])
def test_a_crash_at_any_call_loses_no_purge_and_no_other_events(mode: str) -> None:
    calls = 1
    while crashed_at(calls, mode):
        calls += 1
    assert calls > 20


def test_events_of_another_time_stay_apart_so_that_they_grow_old_apart(serve: Serve) -> None:
    served = serve(*PURGE, "group.events.retention.ms=70000000")
    run_through(served, "first")
    served.advance(6_000)
    run_through(served, "gone")
    served.advance(6_000)
    run_through(served, "third")
    delete(served, "gone")
    served.advance(CLEANED_S)
    log = served.server.event_logs.log_of(0)
    assert log is not None
    bases = [segment.base_offset for segment, _ in log.finished]
    assert len(bases) == 2, "a segment takes a seventh of the retention, 10,000 s"
    served.advance(PURGE_PAUSE_S)
    delete(served, "third")
    served.advance(CLEANED_S)
    log = served.server.event_logs.log_of(0)
    assert log is not None
    assert [segment.base_offset for segment, _ in log.finished] == bases


def test_the_tombstone_goes_when_readers_had_time_to_see_it(serve: Serve) -> None:
    served = serve(*PURGE, "log.cleaner.delete.retention.ms=3600000")
    for name in ("gone", "later", "last"):
        run_through(served, name)
    delete(served, "gone")
    served.advance(3_000)
    delete(served, "later")
    served.advance(CLEANED_S)
    assert of_group(served, "gone") == ["", "group_deleted"]
    served.advance(3_600)
    delete(served, "last")
    served.advance(CLEANED_S)
    assert of_group(served, "gone") == ["group_deleted"]
    assert of_group(served, "last") == ["", "group_deleted"]


def refusing(serve: Serve) -> Served:
    """A server whose event log fails; the groups `kept` and `gone` have events."""
    served = serve(*PURGE, start=False)
    served.machine.make_files = RefusingDisk
    served.start()
    served._make_topics()
    run_through(served, "gone")
    stored(served)
    refuse(served, f"{FOLDER}")
    for _ in range(3):
        run_through(served, "kept")
        served.advance(0.2)
    return served


def refuse(served: Served, *folders: str) -> None:
    """Let the disk be full for these, and for no others."""
    files = served.machine.files
    assert isinstance(files, RefusingDisk)
    files.full = folders


def test_a_purge_waits_for_an_event_log_that_cannot_be_written(serve: Serve, lines: Lines) -> None:
    served = refusing(serve)
    delete(served, "gone")
    served.advance(1)
    run_through(served, "again")
    delete(served, "again")
    [line] = [line for line in lines() if "not purged yet" in line["event"]]
    assert (line["partition"], line["count"], line["groups"]) == (0, 1, "gone")
    assert not served.server.metrics.counts["events_dropped", "requests_refused"]
    refuse(served)
    served.advance(130)
    assert of_group(served, "gone") == [""]
    assert of_group(served, "again") == [""]
    new = run_through(served, "gone")
    served.advance(PURGE_PAUSE_S)
    assert of_group(served, "gone")[:2] == ["", "group_created"]
    assert of_group(served, "gone").count("") == 1, "what was owed is written once"
    assert is_in_folder(served, new)


def test_purges_that_wait_are_bounded_and_named(
    serve: Serve, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_purge, "OWED_MOST", 1)
    served = refusing(serve)
    delete(served, "gone")
    delete(served, "kept")
    [line] = [line for line in lines() if line["event"].endswith("are not purged")]
    assert (line["partition"], line["count"], line["groups"]) == (0, 1, "kept")
    refuse(served)
    served.advance(130)
    assert of_group(served, "gone") == [""]
    assert "" not in of_group(served, "kept")


def test_a_deletion_that_failed_purges_nothing(serve: Serve) -> None:
    served = refusing(serve)
    refuse(served, FOLDER, "data/journals")
    client = served.client()
    answer = client.call(1, DeleteGroupsRequest(groups_names=["gone"]))
    assert answer.results[0].error_code != 0
    refuse(served, FOLDER)
    served.settled()
    run_through(served, "later")
    refuse(served)
    served.advance(130)
    run_through(served, "later")
    assert "" not in of_group(served, "gone")
    assert "group_created" in of_group(served, "gone")
    assert served.client().fetched("gone"), "the group is still there"


def test_a_group_that_is_deleted_during_a_purge_is_purged_by_the_next_one(serve: Serve) -> None:
    served = serve(*PURGE)
    run_through(served, "one")
    run_through(served, "two")
    client = served.client()
    request = DeleteGroupsRequest(groups_names=["two"])
    served.machine.compacting = lambda: client.send(1, request)
    delete(served, "one")
    served.advance(CLEANED_S)
    served.machine.compacting = lambda: None
    assert client.take().results[0].error_code == 0
    assert of_group(served, "one") == ["", "group_deleted"]
    assert len(of_group(served, "two")) > 2
    assert "purge" in served.disk.children(FOLDER)
    served.advance(PURGE_PAUSE_S)
    assert of_group(served, "two") == ["", "group_deleted"]
    assert "purge" not in served.disk.children(FOLDER)


def test_a_purge_of_more_keys_than_fit_into_memory_goes_on_later(serve: Serve) -> None:
    served = serve(*PURGE, "log.cleaner.dedupe.buffer.size=1048576")
    names = [f"{number:0>30000}" for number in range(36)]
    client = served.client()
    for name in names:
        assert client.commit(1, name) == 0
    delete(served, *names)
    served.advance(CLEANED_S)
    assert of_group(served, names[0]) == ["", "group_deleted"]
    assert len(of_group(served, names[-1])) > 2
    assert "purge" in served.disk.children(FOLDER)
    served.advance(PURGE_PAUSE_S)
    assert of_group(served, names[-1]) == ["", "group_deleted"]
    assert "purge" not in served.disk.children(FOLDER)


def test_deletions_beyond_the_limit_are_told_and_not_purged(
    serve: Serve, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FACTS_MOST", 1)
    monkeypatch.setattr(gate, "DELETIONS_MOST", 1)
    served = serve(*PURGE, "offsets.topic.num.partitions=1")
    client, names = served.client(), [f"g{number}" for number in range(9)]
    served.advance(1)
    for name in names:
        client.call(4, join_request(name, ""))
    delete(served, *names)
    served.advance(3)
    told = [line for line in lines() if line["event"] == "events of deleted groups are not purged"]
    dropped = served.server.metrics.counts["events_dropped", "group_deleted"]
    assert sum(line["count"] for line in told) == dropped > 0


def test_a_purge_that_failed_is_tried_again(serve: Serve, lines: Lines) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")

    def fail() -> None:
        raise OSError("no room")

    served.machine.compacting = fail
    delete(served, "gone")
    served.advance(CLEANED_S)
    assert [line["error"] for line in lines() if line["event"] == "compaction failed"] == [
        "no room"
    ]
    assert is_in_folder(served, member_id)
    served.machine.compacting = lambda: None
    served.advance(PURGE_PAUSE_S)
    assert not is_in_folder(served, member_id)


def test_refusals_of_the_round_of_the_deletion_are_purged_or_told_alone(serve: Serve) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")
    client, other = served.client(), served.client()
    assert client.beat(member_id, 9, "gone") == ErrorCode.UNKNOWN_MEMBER_ID
    stale = client.frame(4, heartbeat(member_id, 9, "gone"))
    request = DeleteGroupsRequest(groups_names=["gone"])
    served.at_once({client: stale + stale, other: other.frame(1, request)})
    assert other.take().results[0].error_code == 0
    served.advance(200)
    assert of_group(served, "gone") == ["", "group_deleted"]
    assert not is_in_folder(served, member_id)


def test_it_is_not_told_whose_events_of_a_purged_group_were_dropped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")
    served.advance(2)
    monkeypatch.setattr(event_limits, "SENDER_EVENTS", 0)
    client = served.client()
    assert client.beat(member_id, 9, "gone")
    served.advance(0.2)
    assert client.sync(member_id, 9, "gone").error_code
    served.advance(0.2)
    assert is_in_folder(served, "events_dropped")
    monkeypatch.undo()
    delete(served, "gone")
    served.advance(CLEANED_S)
    assert of_group(served, "gone") == ["", "group_deleted", "events_dropped"]
    assert not is_in_folder(served, member_id)


def test_a_group_that_was_never_stored_is_purged_too(serve: Serve) -> None:
    served = refusing(serve)
    client = served.client()
    assert client.call(4, join_request("pending", "")).error_code == ErrorCode.MEMBER_ID_REQUIRED
    delete(served, "pending")
    refuse(served)
    served.advance(65)
    run_through(served, "kept")
    served.advance(CLEANED_S)
    assert of_group(served, "pending")[0] == ""


def test_a_restored_backup_is_purged(serve: Serve) -> None:
    served = serve(*PURGE)
    member_id = run_through(served, "gone")
    delete(served, "gone")
    backed_up(served.disk)
    copy = serve(*PURGE, start=False)
    copy.machine.disk = copy.disk = FakeDisk()
    restore(FakeFiles(served.disk), FakeFiles(copy.disk), DEST, "data")
    copy.disk.write_back()
    copy.start()
    copy.settled()
    assert is_in_folder(copy, member_id)
    copy.advance(CLEANED_S)
    assert of_group(copy, "gone") == ["", "group_deleted"]
    assert not is_in_folder(copy, member_id)
