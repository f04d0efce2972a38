"""The short cut for batches of one commit takes those that it knows, and no others."""

import pytest

from groupkeeper.coordinator.records import offset_in
from groupkeeper.history.records import CommitRun
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.watch import commit_heads
from groupkeeper.watch.commit_heads import CommitHeads
from tests.analytics.logs import NOW, batch, commit, group

PLACE = ("g", "orders", 3)


def learnt(*places: tuple[str, str, int]) -> CommitHeads:
    heads = CommitHeads()
    for place in places:
        data = batch([commit(*place, 1)])
        heads.learn(data, 0, len(data), place)
    return heads


def test_batches_with_known_heads_are_read_up_to_the_first_other() -> None:
    data = b"".join(batch([commit(*PLACE, 7 * n)], base=n, base_time=NOW + n) for n in range(3))
    rest = batch([group("g", 1, "ann")], base=3)
    end, found, values, epoch = learnt(PLACE).read(data + rest, 0, 0)
    assert (end, epoch) == (len(data), 5)
    assert found == [CommitRun(n, n, *PLACE, NOW + n, NOW + n, 1, 0, 5) for n in range(3)]
    assert [offset_in(each) for each in values] == [0, 7, 14]


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
    assert learnt(PLACE).read(data, 0, 0) == (0, [], [], -1)


def test_no_more_than_so_many_heads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_heads, "HEADS_MOST", 3)
    heads = learnt(*(("g", "orders", n) for n in range(10)))
    assert 0 < len(heads) <= 3


def test_every_known_head_is_found_again() -> None:
    places = [(f"group {n % 3}", "orders" * (n % 20 + 1), n) for n in range(60)]
    batches = [batch([commit(*place, n)], base=n) for n, place in enumerate(places)]
    _, found, _, _ = learnt(*places).read(b"".join(batches), 0, 0)
    assert [each[2:5] for each in found] == places
    assert sum(len([*iter_batches(each)]) for each in batches) == 60
