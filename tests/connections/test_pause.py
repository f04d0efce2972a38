"""A process that stood still reads what came meanwhile before it ends sessions."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from groupkeeper.groups.deadline_alarm import LATE_MS
from tests.support.process import Process
from tests.support.requests import heartbeat, join_request, sync_request
from tests.support.served import Serve, Served, settle
from tests.support.wire import Address, connect

MEMBERS = 700
"""More than are read in one iteration of the loop."""
SESSION_MS = 6_000
PAUSE_S = 8.0


class Member:
    """A member of a group of its own, which beats whether it is answered or not."""

    def __init__(self, address: Address, group_id: str) -> None:
        self._client = connect(address)
        join = join_request(group_id, "", session_timeout_ms=SESSION_MS)
        joined = self._client.call(3, join)
        member_id, generation = joined.member_id, joined.generation_id
        plan = {member_id: b"plan"}
        self._client.call(3, sync_request(member_id, generation, group_id, plan))
        self._beat = heartbeat(member_id, generation, group_id)
        self._sent = 0

    def beat(self) -> None:
        self._sent += 1
        self._client.send(3, self._beat)

    def beaten(self) -> list[int]:
        codes = [self._client.take().error_code for _ in range(self._sent)]
        self._sent = 0
        return codes

    def close(self) -> None:
        self._client.close()


def beat_once(members: list[Member]) -> None:
    for member in members:
        member.beat()
    for member in members:
        assert member.beaten() == [0]


def test_members_that_beat_survive_a_stopped_process(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    with Process("--dev", "--http", "off", "--data-dir", data_dir, log=tmp_path / "log") as process:
        address = process.ready().kafka
        members: list[Member] = []
        for number in range(MEMBERS):
            members.append(Member(address, f"group-{number}"))
            if not number % 50:  # on a slow machine, all take longer than a session
                beat_once(members)
        beat_once(members)  # all sessions begin together
        process.send_signal(signal.SIGSTOP)
        for _ in range(2):
            for member in members:
                member.beat()
            time.sleep(PAUSE_S / 2)
        process.send_signal(signal.SIGCONT)
        for member in members:
            assert set(member.beaten()) == {0}
            member.close()
    assert '"the process stood still"' in (tmp_path / "log").read_text()


@pytest.fixture
def late(serve: Serve) -> Served:
    return serve("offsets.topic.num.partitions=1")


def stand_still(served: Served, seconds: float, meanwhile: Callable[[], None]) -> None:
    """The process does nothing for so long; what happens meanwhile is in the sockets then."""

    async def still() -> None:
        served.loop.idle.now += seconds
        served.loop.call_soon(meanwhile)

    served.run(still())


def test_who_beat_while_the_process_stood_still_stays(late: Served) -> None:
    client = late.client()
    member_id, generation = settle(client, session_timeout_ms=10_000)
    frame = client.frame(4, heartbeat(member_id, generation))
    stand_still(late, 30.0, lambda: client.pipe.peer.protocol.data_received(frame))  # type: ignore[union-attr]
    assert client.take().error_code == 0
    late.advance(9.0)
    assert late.members() == 1


def test_who_did_not_beat_goes_at_once(late: Served) -> None:
    client = late.client()
    settle(client, session_timeout_ms=10_000)
    stand_still(late, 30.0, lambda: None)
    late.advance(0.001)
    assert late.members() == 0


def test_a_session_that_ends_on_time_is_not_prolonged(late: Served) -> None:
    """A beat that comes with its end comes too late."""
    client = late.client()
    settle(client, session_timeout_ms=10_000)
    late.advance(10.0 + LATE_MS / 2_000)
    assert late.members() == 0
