"""What clients and the broker said, as text."""

import re
from collections.abc import Iterator

import pytest

from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.testing import Broker
from groupkeeper.testing.wire.tap import Exchange
from groupkeeper.testing.wire.transcript import ENTRIES, Transcript
from tests.support.raw_member import member, settle
from tests.support.requests import produce_request

CONVERSATION = """\
-- the broker starts
lea -> JoinGroup v3: group_id=billing session_timeout_ms=10000 \
rebalance_timeout_ms=60000 protocol_type=consumer
  protocols: name=range metadata=<orders>
lea <- JoinGroup: NONE generation_id=1 protocol_name=range leader=lea-1 member_id=lea-1
  members: member_id=lea-1 metadata=<orders>
lea -> SyncGroup v1: group_id=billing generation_id=1 member_id=lea-1
  assignments: member_id=lea-1 assignment=<orders 0>
lea <- SyncGroup: NONE assignment=<orders 0>
lea -> OffsetCommit v7: group_id=billing generation_id_or_member_epoch=1 member_id=lea-1
  topics: name=orders
    partitions: partition_index=0 committed_offset=5
lea <- OffsetCommit:
  topics: name=orders
    partitions: NONE partition_index=0
lea -> LeaveGroup v5: group_id=billing
  members: member_id=lea-1 reason='it was closed'
lea <- LeaveGroup: NONE
  members: NONE member_id=lea-1 group_instance_id=null
lea -> Heartbeat v3: group_id=billing generation_id=1 member_id=lea-1
lea <- Heartbeat: UNKNOWN_MEMBER_ID"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        yield broker


def test_a_conversation_reads_as_the_parity_transcripts_do(broker: Broker) -> None:
    with member(broker, "lea") as lea:
        settle(lea)
        lea.commit(5)
        lea.leave()
        lea.beat()
    assert broker.transcript(times=False) == CONVERSATION


def test_apis_and_clients_are_chosen(broker: Broker) -> None:
    with member(broker, "lea") as lea, member(broker, "fred") as fred:
        settle(lea, fred)
        fred.commit(1)
        lea.commit(2)
    text = broker.transcript(apis=["OffsetCommit"], clients=["fred"], times=False)
    assert [line.split(":")[0] for line in text.splitlines() if line[0] != " "] == [
        "fred -> OffsetCommit v7",
        "fred <- OffsetCommit",
    ]


def test_an_answer_stands_where_it_was_given(broker: Broker) -> None:
    with member(broker, "lea") as lea, member(broker, "fred") as fred:
        settle(lea)
        fred.ask_join()
        broker.group("billing").wait_until(rounds=2)
        settle(lea, fred)
    joins = [line for line in broker.transcript(apis=["JoinGroup"]).splitlines() if "JoinG" in line]
    heads = [line.split("JoinGroup")[0].split()[1:] for line in joins]
    assert heads[2:4] == [["fred", "->"], ["lea", "->"]]
    assert sorted(heads[4:]) == [["fred", "<-"], ["lea", "<-"]]


def test_what_is_said_again_is_counted(broker: Broker) -> None:
    with member(broker, "lea") as lea:
        settle(lea)
        assert [lea.beat() for _ in range(3)] == [0, 0, 0]
    beats = [line for line in broker.transcript(times=False).splitlines() if "Heartbeat" in line]
    assert beats == [
        "lea -> Heartbeat v3: group_id=billing generation_id=1 member_id=lea-1 (3 times)",
        "lea <- Heartbeat: NONE",
    ]
    assert re.search(r" \(3 times, until \d+\.", broker.transcript())


def test_connections_of_one_client_are_told_apart(broker: Broker) -> None:
    with member(broker, "lea") as first, member(broker, "lea") as second:
        settle(first)
        second.call(9, produce_request("orders", 0, b"x"))
    text = broker.transcript(times=False)
    assert "lea/2 -> Produce v9" in text
    assert "partition_data: index=0 records=0+1" in text


def test_crashes_are_told_and_a_reset_begins_anew(broker: Broker) -> None:
    broker.restart()
    assert [line.split("--")[1] for line in broker.transcript().splitlines()] == [
        " the broker starts",
        " the broker crashed",
        " the broker starts",
    ]
    broker.reset()
    assert broker.transcript(times=False) == "-- the broker starts"


# -- bounds, without a broker ----------------------------------------------------------------------


class _Client:
    """Takes answers."""

    def answer(self, response: object) -> None:
        self.answered = response


def _say(transcript: Transcript, request: object, peer: Peer, key: int = 12) -> Exchange:
    exchange = Exchange(key, request, Caller(4, peer), _Client())
    transcript.take(exchange, lambda: exchange.answer(HeartbeatResponse()))
    return exchange


def test_the_end_of_a_long_conversation_is_kept_and_the_text_says_so() -> None:
    transcript, peer = Transcript(lambda: 0), Peer("lea")
    for number in range(ENTRIES + 7):
        _say(transcript, HeartbeatRequest(group_id="g", generation_id=number), peer)
    lines = transcript.text((), (), times=False).splitlines()
    assert lines[0] == "-- the first 7 exchanges were dropped"
    assert lines[-2] == f"lea -> Heartbeat v4: group_id=g generation_id={ENTRIES + 6}"


def test_long_messages_and_texts_are_cut() -> None:
    transcript, peer = Transcript(lambda: 0), Peer("lea")
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(201)]
    _say(transcript, MetadataRequest(topics=topics), peer, key=3)
    _say(transcript, HeartbeatRequest(group_id="ab" * 5_000), peer)
    first, _, third, *_ = transcript.text((), (), times=False).splitlines()
    assert first == "lea -> Metadata v4: (201 elements)"
    assert len(third) == 2_003
