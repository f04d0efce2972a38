"""Which group lives where."""

import pytest

from groupkeeper.groups import group_partitions as module
from groupkeeper.protocol.placement import partition_of
from tests.support.served import Serve, Served, groups_apart
from tests.support.slices import whole


def test_a_group_lives_where_kafka_would_put_it(served: Served) -> None:
    for group_id in ("", "g", "größe", "a" * 1000):
        assert served.driver(group_id).index == partition_of(group_id, 4)


def test_a_group_is_always_in_the_same_partition_however_many_are_asked_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLACEMENTS", 3)
    before = [served.driver(f"g{number}") for number in range(20)]
    assert [served.driver(f"g{number}") for number in range(20)] == before
    assert len(served.server.group_partitions._placed) <= 3


def test_only_ids_of_a_usual_length_are_remembered(served: Served) -> None:
    group_partitions = served.server.group_partitions
    for length in (255, 256, 30_000):
        assert group_partitions.of("g" * length) is group_partitions.of("g" * length)
    assert [len(group_id) for group_id in group_partitions._placed] == [255]


def test_every_partition_is_in_the_snapshot(served: Served) -> None:
    client = served.client()
    for group_id in groups_apart(4, 4):
        client.join(group_id)
        client.commit(1, f"{group_id}-offsets")
    snapshots = [*whole(served.server.group_partitions.counted())]
    assert [each.partition for each in snapshots] == [0, 1, 2, 3]
    assert [each.members for each in snapshots] == [1] * 4
    assert sum(each.offsets for each in snapshots) == 4
    assert sum(each.groups["CompletingRebalance"] for each in snapshots) == 4


def test_groups_are_counted_in_slices(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve("offsets.topic.num.partitions=1")
    monkeypatch.setattr(module, "COUNTED_IN_A_SLICE", 10)
    client = served.client()
    for number in range(40):
        client.commit(1, f"g{number}")
    counting = served.server.group_partitions.counted()
    assert [next(counting) for _ in range(8)] == [None] * 8  # each group has one topic
    client.commit(1, "meanwhile")
    [snapshot] = whole(counting)
    assert (snapshot.groups["Empty"], snapshot.offsets) == (40, 40)


def test_a_partition_with_a_log_is_loaded_and_one_without_serves_at_once(served: Served) -> None:
    served.client().commit(1)
    served.advance(0.1)
    served.restart()
    states = served.states()
    assert states.pop(served.driver("g").index) == "loading"
    assert states == ["active"] * 3
