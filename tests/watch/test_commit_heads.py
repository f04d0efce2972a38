"""The short cut for batches of one commit takes those that it knows, and no others."""

from random import Random

import pytest

from groupkeeper.coordinator.records import offset_in, offset_value
from groupkeeper.history.records import CommitRun
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.watch import commit_heads
from groupkeeper.watch.commit_heads import CommitHeads, CommitStretch
from groupkeeper.watch.offsets import CommittedOffsets
from tests.analytics.logs import NOW, batch, commit, group

PLACE = ("g", "orders", 3)
EPOCH = 5
"""Of the leader that wrote the batches."""


def learnt(*places: tuple[str, str, int]) -> CommitHeads:
    heads = CommitHeads()
    for place in places:
        data = batch([commit(*place, 1)])
        heads.learn(data, 0, len(data), place)
    return heads


def test_batches_with_known_heads_are_read_up_to_the_first_other() -> None:
    data = b"".join(batch([commit(*PLACE, 7 * n)], base=n, base_time=NOW + n) for n in range(3))
    rest = batch([group("g", 1, "ann")], base=3)
    end, [run], *about = learnt(PLACE).read(data + rest, 0, 0, EPOCH)
    assert (end, *about) == (len(data), 0, 3, NOW, NOW + 2)
    assert run.run == CommitRun(0, 2, *PLACE, NOW, NOW + 2, 3, 1, EPOCH)
    assert [(place, offset_in(each)) for place, each in run.values] == [(PLACE, 0), (PLACE, 14)]


def test_each_place_has_a_run() -> None:
    other = ("g", "orders", 4)
    data = b"".join(
        batch([commit(*place, 1)], base=n) for n, place in enumerate([PLACE, other] * 2)
    )
    runs = learnt(PLACE, other).read(data, 0, 0, EPOCH).runs
    assert [(each.place, each.run[:2]) for each in runs] == [(PLACE, (0, 2)), (other, (1, 3))]


@pytest.mark.parametrize("seed", range(20))
def test_the_values_of_a_run_leave_the_offsets_as_all_of_its_commits_do(seed: int) -> None:
    chance, batches = Random(seed), list[bytes]()
    one, all_at_once = CommittedOffsets(), CommittedOffsets()
    for n in range(chance.randrange(1, 8)):
        batches.append(batch([commit(*PLACE, chance.randrange(4))], base=n))
    if chance.random() < 0.5:
        before = [(PLACE, offset_value(chance.randrange(4), -1, "", NOW, -1))]
        one.put(before)
        all_at_once.put(before)
    for n, data in enumerate(batches):
        for run in learnt(PLACE).read(data, 0, n, EPOCH).runs:
            one.put(run.values)
    [run] = learnt(PLACE).read(b"".join(batches), 0, 0, EPOCH).runs
    all_at_once.put(run.values)
    assert one.groups == all_at_once.groups
    assert run.run.commits == len(batches)


@pytest.mark.parametrize(
    "data",
    [
        batch([commit("h", "orders", 3, 1)]),
        batch([commit(*PLACE, 1)], base=1),
        batch([commit(*PLACE, 1, metadata="m")]),
        batch([commit(*PLACE, 1)] * 2),
        batch([commit(*PLACE, 1)], attributes=0x10),
        batch([commit(*PLACE, 1)], base_time=-1),
        batch([commit(*PLACE, 1)])[:-1],
        batch([commit(*PLACE, 1)])[:-2] + b"\1\0",
        b"",
    ],
    ids="group offset metadata two transaction time cut checksum nothing".split(),
)
def test_others_are_left(data: bytes) -> None:
    assert learnt(PLACE).read(data, 0, 0, EPOCH) == CommitStretch(0, [])


def test_a_batch_of_another_leader_epoch_is_left() -> None:
    data = batch([commit(*PLACE, 1)])
    assert learnt(PLACE).read(data, 0, 0, EPOCH).end == len(data)
    assert learnt(PLACE).read(data, 0, 0, EPOCH - 1).end == 0


def test_no_more_than_so_many_heads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_heads, "HEADS_MOST", 3)
    heads = learnt(*(("g", "orders", n) for n in range(10)))
    assert 0 < len(heads) <= 3


def test_every_known_head_is_found_again() -> None:
    places = [(f"group {n % 3}", "orders" * (n % 20 + 1), n) for n in range(60)]
    batches = [batch([commit(*place, n)], base=n) for n, place in enumerate(places)]
    runs = learnt(*places).read(b"".join(batches), 0, 0, EPOCH).runs
    assert [each.place for each in runs] == places
    assert sum(len([*iter_batches(each)]) for each in batches) == 60
