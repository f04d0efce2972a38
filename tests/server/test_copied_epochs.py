"""Leader epochs of topics in a directory whose folders come from a broker with later epochs."""

from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupkeeper.protocol.record_batch import encode_batch, iter_batches
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.recovery.opening import open_log
from tests.support.batches import TIME, batch
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import create_request, produce_request
from tests.support.served import Lines, Serve, Served

OF_COMMIT, OF_LOG = 6, 8
"""The newest epochs in the copied folders."""


def copy_folders(disk: FakeDisk, *, topics: bool) -> None:
    """What a broker had: a commit, and messages of a topic in two epochs."""
    files = FakeFiles(disk)
    key = encode_key(OffsetCommitKey(group="g", topic="orders", partition=0))
    value = encode_value(OffsetCommitValue(offset=2, leader_epoch=OF_COMMIT), 3)
    log = open_log(files, "data/__consumer_offsets-0", Limits())
    log.append(encode_batch(0, 3, TIME, [(key, value), (key, None), (b"\0\x09", b"unknown")]))
    log.close()
    if topics:
        log = open_log(files, "data/orders-0", Limits())
        log.append(batch(0, b"a", epoch=2) + batch(1, b"b", epoch=OF_LOG))
        log.close()
    for name in disk.children("data"):
        disk.remove(f"data/{name}/manifest")
    disk.write_back()
    disk.revive()


def moved(serve: Serve, *, topics: bool) -> Served:
    served = serve("offsets.topic.num.partitions=1", start=False)
    copy_folders(served.disk, topics=topics)
    served.start()
    served.settled()
    make(served, "orders")
    return served


def make(served: Served, name: str) -> None:
    made = served.client().call(4, create_request(name))
    assert made.topics[0].error_code == 0


def epochs(served: Served) -> dict[str, int]:
    topics = served.client().call(12, MetadataRequest(topics=None)).topics
    return {t.name: t.partitions[0].leader_epoch for t in topics if not t.is_internal}


def produce(served: Served, base: int) -> None:
    request = produce_request("orders", 0, b"new", time=TIME)
    [answer] = served.client().call(9, request).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (0, base)


def end_of(served: Served, epoch: int) -> tuple[int, int]:
    partitions = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
    topics = [OffsetForLeaderTopic(topic="orders", partitions=partitions)]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    [answer] = served.client().call(4, request).topics[0].partitions
    return answer.leader_epoch, answer.end_offset


def written_epochs(served: Served) -> list[int]:
    log = open_log(FakeFiles(served.disk), "data/orders-0", Limits())
    return [header.leader_epoch for chunk in log.batches() for header in iter_batches(chunk)]


def test_topics_begin_after_the_newest_epoch_of_a_commit(serve: Serve) -> None:
    served = moved(serve, topics=False)
    make(served, "other")
    assert epochs(served) == {"orders": OF_COMMIT + 1, "other": OF_COMMIT + 1}
    produce(served, 0)
    served.restart()
    assert epochs(served) == {"orders": OF_COMMIT + 1, "other": OF_COMMIT + 1}


def test_copied_messages_are_continued_in_a_newer_epoch_and_a_line_says_so_once(
    serve: Serve, lines: Lines
) -> None:
    served = moved(serve, topics=True)
    assert epochs(served) == {"orders": OF_LOG + 1}
    produce(served, 2)
    served.restart()
    produce(served, 3)
    served.stop()
    found = [line for line in lines() if "leader epoch" in line["event"]]
    assert [line["epoch"] for line in found] == [OF_LOG + 1]
    assert written_epochs(served) == [2, OF_LOG, OF_LOG + 1, OF_LOG + 1]


def test_folders_that_are_copied_later_count_when_the_next_start_finds_them(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    served.stop()
    log = open_log(FakeFiles(served.disk), "data/copied-0", Limits())
    log.append(batch(0, b"a", epoch=OF_LOG))
    log.close()
    served.start()
    assert epochs(served) == {"orders": OF_LOG + 1, "payments": OF_LOG + 1}
    make(served, "copied")
    served.restart()
    assert epochs(served)["copied"] == OF_LOG + 1


def test_the_ends_of_copied_epochs_are_known(serve: Serve) -> None:
    served = moved(serve, topics=True)
    wanted = (2, 5, OF_LOG, OF_LOG + 1, 99)
    ends = [(2, 1), (2, 1), (OF_LOG, 2), (OF_LOG + 1, 2), (-1, -1)]
    assert [end_of(served, epoch) for epoch in wanted] == ends


def test_without_copied_folders_topics_are_in_epoch_0(served: Served, lines: Lines) -> None:
    assert epochs(served) == {"orders": 0, "payments": 0}
    served.restart()
    assert epochs(served) == {"orders": 0, "payments": 0}
    assert [line for line in lines() if "leader epoch" in line["event"]] == []
