"""Configs of groups in a partition: stored when they change, durable before they are told, bounded.
What may be set, and by which requests, is in tests/apis/test_group_configs.py.
"""

from collections.abc import Mapping

import pytest

from groupkeeper.coordinator import group_configs
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.group_configs import GroupConfigsRequest
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.step import GroupConfigs
from groupkeeper.protocol.errors import ErrorCode
from tests.support.scene import CONFIG, WALL, Call
from tests.support.slices import whole

ONE = {"consumer.session.timeout.ms": "50000"}
OTHER = {"consumer.session.timeout.ms": "60000"}


@pytest.fixture
def partition() -> Partition:
    partition = Partition(CONFIG, str)
    whole(partition.restore())
    partition.activate(0, WALL)
    return partition


def ask(
    partition: Partition, group_id: str = "g", configs: Mapping[str, str] | None = None
) -> list[object]:
    """The answers that leave at once."""
    request = GroupConfigsRequest(group_id, configs)
    step = partition.handle(request, Caller(0), Call("admin", "GroupConfigs", 0, 0), (0, WALL))
    return [response for _, response in step.replies]


def write(partition: Partition) -> tuple[int, list[object]]:
    """The number of records that become durable, and the answers that waited for them."""
    unwritten = partition.take()
    assert unwritten is not None
    replies, _ = partition.written(unwritten, (0, WALL))
    return len(unwritten.records), [response for _, response in replies]


def test_nobody_hears_of_a_change_before_it_is_durable(partition: Partition) -> None:
    assert ask(partition, configs=ONE) == []
    assert ask(partition) == []
    assert write(partition) == (1, [GroupConfigs(configs=ONE)] * 2)
    assert ask(partition) == [GroupConfigs(configs=ONE)]


def test_a_change_to_the_same_configs_is_not_written(partition: Partition) -> None:
    ask(partition, configs=ONE)
    write(partition)
    assert ask(partition, configs=ONE) == [GroupConfigs(configs=ONE)]
    assert ask(partition, "another", configs={}) == [GroupConfigs()]
    assert not partition.has_unwritten
    ask(partition, configs=OTHER)
    assert write(partition) == (1, [GroupConfigs(configs=OTHER)])


def test_so_many_groups_may_have_configs(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_configs, "MAX_CONFIGURED_GROUPS", 2)
    for group_id in ("a", "b"):
        ask(partition, group_id, ONE)
    write(partition)
    assert ask(partition, "c", ONE) == [GroupConfigs(ErrorCode.POLICY_VIOLATION)]
    ask(partition, "a", OTHER)
    ask(partition, "b", {})
    ask(partition, "c", ONE)
    kept = [GroupConfigs(configs=OTHER), GroupConfigs(), GroupConfigs(configs=ONE)]
    assert write(partition) == (3, kept)


def test_who_waits_is_refused_when_the_log_fails(partition: Partition) -> None:
    ask(partition, configs=ONE)
    [(_, refused)] = partition.close(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert refused == GroupConfigs(ErrorCode.COORDINATOR_NOT_AVAILABLE)
