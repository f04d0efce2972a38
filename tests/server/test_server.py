"""The server put together: what the settings do, who gets the locks, what stopping leaves."""

from pathlib import Path
from typing import Any

import pytest

from groupkeeper.connections.connection_table import ConnectionState
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.server.group_config import group_config
from groupkeeper.server.server import Server, World
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.errors import Locked
from groupkeeper.storage.store import Store
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import fetch_request, join_request
from tests.support.served import Served, settle


def test_every_setting_of_groups_reaches_them() -> None:
    given = [
        "group.initial.rebalance.delay.ms=1",
        "group.min.session.timeout.ms=2",
        "group.max.session.timeout.ms=3",
        "group.max.size=4",
        "offset.metadata.max.bytes=5",
        "offsets.retention.minutes=6",
        "offsets.retention.check.interval.ms=7",
        "message.max.bytes=8",
    ]
    assert group_config(load(assignments=given)[0]) == GroupConfig(
        initial_rebalance_delay_ms=1,
        min_session_timeout_ms=2,
        max_session_timeout_ms=3,
        max_size=4,
        offset_metadata_max_bytes=5,
        offsets_retention_ms=360_000,
        offsets_retention_check_interval_ms=7,
        message_max_bytes=8,
        max_groups=1_000_000 // 50,
    )


def test_the_number_of_connections_is_limited_by_its_setting(serve: Any) -> None:
    served: Served = serve("max.connections=2")
    clients = [served.client() for _ in range(2)]  # one more has made the topics
    served.until(lambda: clients[1].closed)
    assert not clients[0].closed


def test_the_size_of_a_request_is_limited_by_its_setting(serve: Any) -> None:
    served: Served = serve("socket.request.max.bytes=1000")
    client = served.client()
    client.pipe.write((1001).to_bytes(4, "big"))
    served.until(lambda: client.closed)


def test_the_offsets_topic_has_as_many_partitions_as_its_setting_says(serve: Any) -> None:
    assert len(serve("offsets.topic.num.partitions=7").server.group_partitions) == 7


@pytest.mark.parametrize("later", [1, 2, 50])
def test_the_number_of_partitions_is_fixed_once_there_is_data(
    serve: Any, lines: Any, later: int
) -> None:
    """As in Kafka. Under another number no group would be found where it is."""
    served: Served = serve("offsets.topic.num.partitions=4")
    groups = [f"g{number}" for number in range(10)]
    assert [served.client().commit(7, each) for each in groups] == [0] * 10
    served.cut_power("lose")
    served.machine.settings = load(assignments=[f"offsets.topic.num.partitions={later}"])[0]
    served.recover()
    assert [served.client().fetched(each) for each in groups] == [{("orders", 0): 7}] * 10
    assert len(served.server.group_partitions) == 4
    assert {"asked": later, "used": 4}.items() <= lines()[-1].items()


def test_segments_of_the_offsets_topic_roll_at_their_setting(serve: Any) -> None:
    served: Served = serve("offsets.topic.segment.bytes=300", "offsets.topic.num.partitions=1")
    for offset in range(10):
        served.client().commit(offset)
        served.advance(0.1)
    folder = "data/__consumer_offsets-0"
    assert sum(name.endswith(".log") for name in served.disk.children(folder)) > 2
    served.recover()
    assert served.client().fetched() == {("orders", 0): 9}


@pytest.mark.parametrize("setting", ["log.roll.ms", "log.cleaner.max.compaction.lag.ms"])
def test_segments_of_the_offsets_topic_roll_when_they_are_old(serve: Any, setting: str) -> None:
    served: Served = serve(f"{setting}=60000", "offsets.topic.num.partitions=1")
    for offset in range(4):
        served.client().commit(offset)
        served.advance(40)
    files = served.disk.children("data/__consumer_offsets-0")
    assert [int(name[:20]) for name in files if name.endswith(".log")] == [0, 2]


def options(node_id: int = 0) -> ServeOptions:
    return ServeOptions(Path("data"), node_id=node_id)


@pytest.mark.parametrize("node_id", [0, 1])
def test_a_second_process_on_the_same_data_is_refused_in_one_line(
    served: Served, node_id: int
) -> None:
    with pytest.raises(Locked) as refused:
        Server(options(node_id), World(files=FakeFiles(served.disk)))
    assert "\n" not in str(refused.value)
    assert served.client().commit(1) == 0


def test_stopping_gives_back_the_locks(served: Served) -> None:
    served.stop()
    Server(options(), World(files=FakeFiles(served.disk)))


def test_after_a_clean_stop_the_journal_holds_no_batches(served: Served) -> None:
    for offset in range(50):
        served.client().commit(offset)
    served.stop()
    [journal] = served.disk.children("data/journals")
    assert len(served.disk.contents(f"data/journals/{journal}").rstrip(b"\0")) < 1000
    served.start()
    served.settled()
    assert served.client().fetched() == {("orders", 0): 49}


def test_a_clean_restart_is_no_rebalance(served: Served) -> None:
    member_id, generation = settle(served.client())
    served.stop()
    served.start()
    assert served.client().beat(member_id, generation) == 0


def test_a_bug_in_the_topics_is_not_taken_for_a_disk(tmp_path: Path, lines: Any) -> None:
    failed = Server(ServeOptions(tmp_path)).topics.partitions._failed
    failed("orders-0", OSError("no space"))
    failed("request", KeyError("orders"))
    disk, bug = lines()
    assert (disk["where"], disk["error"]) == ("orders-0", "no space")
    assert "KeyError" in bug["exception"]


def test_an_empty_data_directory_needs_few_files(serve: Any) -> None:
    """Folders are made with the first record: fifty empty ones would only be in the way."""
    disk: FakeDisk = serve().disk
    assert not [name for name in disk.children("data") if name.startswith("__consumer_offsets")]


def test_after_stopping_nothing_is_done_any_more(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[object] = []
    served.client().commit(1)
    writer = served.server._writer
    served.stop()
    monkeypatch.setattr(writer, "call", jobs.append)
    served.advance(1)
    assert jobs == []


def test_what_happens_to_groups_is_counted_and_logged(served: Served, lines: Any) -> None:
    settle(served.client())
    assert served.server.metrics.counts["rebalances", "member_joined"] == 1
    assert [line["event"] for line in lines()] == ["rebalance started", "rebalance completed"]


@pytest.fixture
def busy(served: Served) -> Served:
    """A server with one request at each of the places where requests wait."""
    joining, committing, fetching, polling = (served.client() for _ in range(4))
    settle(served.client())
    joining.send(3, join_request())
    polling.send(4, POLL)
    served.advance(0.01)
    served.at_once(
        {
            committing: committing.commit_frame(1, "h"),
            fetching: fetching.frame(8, fetch_request("h", "g")),
        }
    )
    return served


POLL = FetchRequest(
    max_wait_ms=60_000,
    min_bytes=1,
    topics=[
        FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1)])
    ],
)


def test_every_request_under_way_is_held_exactly_once(busy: Served) -> None:
    opened = busy.server.listener.connections.opened
    waiting = [each for each in opened if each.state is ConnectionState.WAITING]
    assert len(waiting) == 4
    busy.check_accounts()


def test_a_request_whose_token_is_lost_is_noticed(busy: Served) -> None:
    """The check itself, which the simulation relies on."""
    for member in busy.group().members.values():
        member.awaiting_join = None
    with pytest.raises(AssertionError, match="its token is lost"):
        busy.check_accounts()


def test_a_server_that_stops_syncs_no_log_beside_the_rounds_any_more(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []
    monkeypatch.setattr(Store, "write_back_on", lambda _, aside: given.append(aside))
    served: Served = serve()
    assert given[-1] is not None
    served.run(served.server.stop())
    assert given[-1] is None
