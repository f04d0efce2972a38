"""Members of groups on raw connections, which do only what they are told; and what a broker told
about its groups.
"""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from groupkeeper.coordinator.facts import Fact, NotedFact
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.testing import Broker
from tests.support.requests import heartbeat, join_request, sync_request
from tests.support.wire import Client
from tests.testing.wired import dial

LONGEST_S: Final = 60.0

Noted = TypeVar("Noted", bound=Fact)


def joined(client: Client, group: str = "g", **fields: Any) -> tuple[str, int]:
    """A new member that is alone in its group: its id and generation. No heartbeats follow."""
    version = 9 if "group_instance_id" in fields else 3  # without the second step
    answer = client.call(version, join_request(group, **fields))
    assert answer.error_code == 0
    member_id, generation = answer.member_id, answer.generation_id
    synced = client.call(5, sync_request(member_id, generation, group, {member_id: b""}))
    assert synced.error_code == 0
    return member_id, generation


def beat(client: Client, member_id: str, generation: int, **more: Any) -> int:
    """The error code."""
    return int(client.call(4, heartbeat(member_id, generation, **more)).error_code)


def members(broker: Broker, group: str = "g") -> list[str]:
    """Their ids."""
    with dial(broker) as client:
        [described] = client.call(5, DescribeGroupsRequest(groups=[group])).groups
        return [each.member_id for each in described.members]


def beats(broker: Broker, member_id: str) -> int:
    """How many heartbeats of a member have come."""
    pulse = broker._bench.presence._pulses.get(member_id)
    return 0 if pulse is None else pulse.beats


class Facts:
    """What happened to groups since this was made, in one life of the server."""

    def __init__(self, broker: Broker) -> None:
        self._running = broker._bench.running
        self._noted: list[NotedFact] = []
        self._running.server.readers.subscribe("test", lambda _, noted: self._noted.append(noted))

    def noted(self, kind: type[Noted]) -> list[tuple[int, Noted]]:
        """Those of a kind, with their Unix time in ms."""
        self._running.call(self._running.server.readers.flush)
        return [(each.wall, each.fact) for each in self._noted if isinstance(each.fact, kind)]

    def of(self, kind: type[Noted]) -> list[Noted]:
        """Those of a kind."""
        return [fact for _, fact in self.noted(kind)]


def until(done: Callable[[], bool]) -> None:
    """Wait for something that a client does."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < LONGEST_S, "it did not happen"
        time.sleep(0.005)
