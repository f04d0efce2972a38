"""The fold of one partition: events that do not depend on responses, limits, losses, its state."""

import json
from collections import Counter
from itertools import accumulate, pairwise
from random import Random

import pytest

from groupkeeper.history.fields import LAST_MS, checked
from groupkeeper.history.rows import Told
from groupkeeper.protocol.record_batch import CorruptBatch, iter_batches
from groupkeeper.watch.commit_heads import CommitStretch
from groupkeeper.watch.partition import HISTORY_LOST, STATE_VERSION, PartitionWatch, StateRecord
from groupkeeper.watch.records import LogReader
from tests.analytics import newer_logs
from tests.analytics.churn import churn
from tests.analytics.logs import NOW, TRANSACTIONAL, batch, commit, forgotten, group, log, no_group
from tests.support.wandering_log import wandering_log


def begun(offset: int = 0, **limits: int) -> PartitionWatch:
    fold = PartitionWatch(0, **limits)
    fold.begin(offset, "topic")
    return fold


def events_of(batches: list[bytes], fold: PartitionWatch | None = None) -> list[Told]:
    fold = fold or begun()
    return [each for data in batches for each in fold.feed(data).events]


def newest(
    records: list[StateRecord], before: dict[bytes, bytes] | None = None
) -> dict[bytes, bytes]:
    found = dict(before or {})
    for key, value in records:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def types(events: list[Told]) -> list[str]:
    return [each.event.type for each in events]


@pytest.mark.parametrize("seed", range(20))
def test_events_do_not_depend_on_where_responses_end(seed: int) -> None:
    batches, chance = wandering_log(seed, 80), Random(seed)
    fold, found, data, start = begun(), list[Told](), b"".join(batches), 0
    while start < len(data):
        end = start + chance.randrange(100, 5_000)
        found += fold.feed(data[start:end]).events
        start += (
            next(  # all batches that were whole
                (at for at in [*accumulate(map(len, batches), initial=0)][::-1] if at <= end), 0
            )
            - start
        )
    assert fold.position == begun().feed(data).position
    assert found == events_of(batches)


@pytest.mark.parametrize("seed", range(20))
def test_a_restored_fold_goes_on_with_the_same_events(seed: int) -> None:
    batches, chance = wandering_log(seed, 80), Random(seed)
    fold, found, state = begun(), list[Told](), dict[bytes, bytes]()
    for data in batches:
        found += fold.feed(data).events
        if chance.random() < 0.2:
            state = newest(fold.checkpoint(), state)
            fold = PartitionWatch.restore(0, state)
    assert found == events_of(batches)


def test_events_that_are_stored_are_left_out_when_the_log_is_read_again() -> None:
    batches = wandering_log(1, 40)
    fold = begun()
    state = newest(fold.checkpoint())
    for data in batches[:30]:
        fold.feed(data)
    before = events_of(batches[:30])
    again = PartitionWatch.restore(0, state)
    last = before[-1].offset
    again.leave_out(last, sum(each.offset == last for each in before) - 1)
    assert again.position == 0
    assert events_of(batches, again) == events_of(batches)[len(before) - 1 :]


def test_commits_that_a_state_contains_are_not_added_again() -> None:
    """A process was killed in the middle of a checkpoint: the states of groups are newer than how
    far the log is said to be read.
    """
    batches = [batch([group("g", 1, "ann", orders={"ann": [0]})])]
    batches += [
        batch([commit("g", "orders", 0, n)], base=n, base_time=NOW + n * n) for n in range(1, 10)
    ]
    fold = begun()
    for data in batches[:2]:
        fold.feed(data)
    state = newest(fold.checkpoint())
    fold.feed(b"".join(batches[2:5]))
    later = newest(fold.checkpoint(), state)
    again = PartitionWatch.restore(0, later | {b"": state[b""]})
    assert again.position == 2
    again.feed(b"".join(batches[2:]))
    fold.feed(b"".join(batches[5:]))
    assert again.groups["g"].events.state() == fold.groups["g"].events.state()


def test_rounds_of_a_group_are_numbered() -> None:
    records, _ = churn()
    numbers = dict[str, list[int]]()
    for told in events_of([records]):
        if told.event.type == "rebalance_started":
            numbers.setdefault(told.event.group or "", []).append(told.event.round)
    assert len(numbers) == 8
    for each in numbers.values():
        assert all(two in (one + 1, 1) for one, two in pairwise([0, *each]))  # 1: created anew


def test_a_deleted_group_is_told_and_forgotten() -> None:
    fold = begun()
    data = batch([group("g", 1, "ann")], base=0) + batch([no_group("g")], base=1)
    step = fold.feed(data)
    assert types(step.events)[-1] == "group_deleted"
    assert not fold.groups
    assert [*step.changed] == ["g"]


def test_the_oldest_groups_are_dropped_beyond_the_limit() -> None:
    fold = begun(groups_most=2)
    data = b"".join(batch([group(f"g{n}", 1, "ann")], base=n) for n in range(3))
    step = fold.feed(data)
    assert [*fold.groups] == ["g1", "g2"]
    assert fold.dropped == 1
    assert [*step.changed] == ["g0", "g1", "g2"]
    [(_, value), *_] = [each for each in fold.checkpoint() if each[0] == b"group:g0"]
    assert value is None


def test_a_group_that_was_dropped_is_not_taken_for_a_new_one() -> None:
    fold = begun(groups_most=1)
    data = b"".join(batch([group(name, 5 + n, "ann")], base=n) for n, name in enumerate("aba"))
    assert "group_created" in types(fold.feed(data[: len(data) // 3]).events)
    step = fold.feed(data[len(data) // 3 :])
    assert types(step.events)[-4:] == [
        *("rebalance_started", "member_rejoined", "rebalance_joined", "rebalance_completed")
    ]


def test_many_members_and_partitions_count_for_the_limit() -> None:
    fold = begun(size_most=6)
    data = b"".join(batch([group(f"g{n}", 1, "ann", "bea")], base=n) for n in range(4))
    fold.feed(data)
    assert len(fold.groups) < 4
    assert fold.dropped


def test_commits_change_the_state_of_their_group_only() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann"), group("h", 1, "ann")], base=0))
    fold.checkpoint()
    assert not fold.is_dirty
    fold.feed(batch([commit("g", "orders", 0, 5)], base=2))
    assert fold.is_dirty
    assert [key for key, _ in fold.checkpoint()] == [b"offsets:g", b"group:g", b""]


ODD = 8
"""Kinds of batches that the short cut for batches of one commit does not take."""


def odd_commits(seed: int) -> list[bytes]:
    """A log of batches with one commit each, nearly all of them plain, and some group records."""
    chance, base, found = Random(seed), 0, list[bytes]()
    for number in range(300):
        ms = NOW + 1_000 * number
        if number % 40:
            odd = chance.randrange(5 * ODD) if number > 30 else ODD
            made = one_commit(odd, base, ms, (chance.choice("gh"), "orders", chance.randrange(3)))
        else:
            others = ["bea"] if number % 80 else []
            members, orders = ["ann", *others], {"ann": [0, 1], "bea": [2]}
            value = group("g", 1 + number // 40, *members, orders=orders)
            made = batch([value], base=base, base_time=ms)
        found.append(made)
        [header] = iter_batches(made)
        base = header.next_offset
    return found


def one_commit(odd: int, base: int, ms: int, place: tuple[str, str, int]) -> bytes:
    """A batch with a commit: an odd one if the number is below ODD."""
    pair = {
        0: commit(*place, 5, metadata="m"),
        1: forgotten(*place),
        2: commit(*place, 5, version=1),
    }.get(odd, commit(*place, base % 4))
    base += 2 if odd == 3 else 0  # compaction
    ms = {4: LAST_MS + 1, 5: ms - 10_000}.get(odd, ms)  # an impossible time, and a leader's clock
    attributes = TRANSACTIONAL if odd == 6 else 0
    made = batch([pair], base=base, attributes=attributes, base_time=ms, max_time=ms)
    return made[:-3] + bytes([made[-3] ^ (odd == 7)]) + made[-2:]


@pytest.mark.parametrize("seed", range(10))
def test_the_short_cut_for_batches_of_one_commit_changes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, chance, taken = odd_commits(seed), Random(seed), 0
    fold, events, pieces = begun(), list[Told](), list[list[bytes]]()
    while sum(map(len, pieces)) < len(batches):
        start = sum(map(len, pieces))
        pieces.append(batches[start : start + chance.randrange(1, 30)])
    short_cut = LogReader.commits

    def counted(reader: LogReader, data: bytes, position: int, since: int) -> CommitStretch:
        nonlocal taken
        found = short_cut(reader, data, position, since)
        taken += found.next_offset - found.first_offset
        return found

    monkeypatch.setattr(LogReader, "commits", counted)
    for piece in pieces:
        events += fold.feed(b"".join(piece)).events
    monkeypatch.setattr(
        LogReader, "commits", lambda _, data, position, since: CommitStretch(position)
    )
    other = begun()
    assert events_of(batches, other) == events
    assert other.whole() == fold.whole()
    assert (other.reader.records, other.reader.known) == (fold.reader.records, fold.reader.known)
    assert other.reader.unreadable == fold.reader.unreadable
    assert taken > 150


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        begun().feed(bytes(100))


def test_what_is_in_front_of_no_batch_is_folded_first() -> None:
    fold = begun()
    step = fold.feed(batch([group("g", 1, "ann")]) + bytes(100))
    assert (step.position, types(step.events)[0]) == (1, "group_created")
    with pytest.raises(CorruptBatch):
        fold.feed(bytes(100))
    assert fold.position == 1


def test_a_group_whose_value_cannot_be_read_is_counted() -> None:
    key, value = group("g", 2, "ann")
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")]))
    assert (fold.unreadable, fold.first_error) == (0, "")
    fold.feed(batch([(key, b"\0\x63" + value[2:])], base=1))
    assert fold.unreadable == 1
    assert fold.first_error == "partition 0: offset 1: unreadable value of group 'g'"


def test_a_batch_that_is_cut_off_waits_for_the_next_response() -> None:
    fold = begun()
    data = batch([group("g", 1, "ann")], base=0)
    assert fold.feed(data[:-1]).position == 0
    assert fold.feed(data).position == 1


MODERN = log(
    *(
        batch([each])
        for each in (
            newer_logs.epoch("g", 1),
            newer_logs.member("g", "one"),
            newer_logs.current("g", "one", 1, 0, 1),
            newer_logs.member("g", "two"),
            newer_logs.current("g", "one", 2, 0),
            newer_logs.current("g", "two", 2, 1),
            newer_logs.gone(newer_logs.current("g", "two", 2, 1)),
            newer_logs.gone(newer_logs.member("g", "two")),
        )
    )
)
"""A consumer group of KIP-848."""


def test_inferred_events_have_the_fields_of_their_types_and_no_others() -> None:
    """They are stored as they are."""
    logs = [MODERN, churn()[0], *(b"".join(wandering_log(seed, 80)) for seed in range(20))]
    strange = Counter[str]()
    for data in logs:
        for told in events_of([data]):
            event = told.stored()
            strange.update(f"{event.type}.{name}" for name in checked(event)[1])
    assert strange == {}


def test_groups_whose_partitions_the_server_assigns_go_on_after_a_restore() -> None:
    expected = events_of([MODERN])
    assert types(expected).count("assignment_changed") == 3
    for cut in range(1, 8):
        batches = [MODERN[each.position : each.end] for each in iter_batches(MODERN)]
        fold = begun()
        found = events_of(batches[:cut], fold)
        fold = PartitionWatch.restore(0, newest(fold.checkpoint()))
        assert found + events_of(batches[cut:], fold) == expected


def test_such_a_group_takes_no_room_when_it_is_deleted() -> None:
    fold = begun()
    fold.feed(MODERN)
    assert [*fold.groups] == ["g"]
    fold.feed(batch([newer_logs.gone(newer_logs.epoch("g", 1))], base=8))
    assert not fold.groups


def test_the_last_cause_is_as_sure_as_its_round() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")], base=0))
    fold.feed(batch([group("g", 2)], base=1))
    cause = fold.groups["g"].last_cause
    assert cause is not None
    assert (cause.code, cause.round, cause.confidence) == ("member_left", 2, 0.97)
    assert cause.text.startswith("Inferred, 97 %: ")


# -- losses --------------------------------------------------------------------------------------


def test_what_comes_after_deleted_records_is_not_compared_with_what_was_before() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")], base=0))
    lost = fold.lose(50, "deleted", 99)
    assert [each.event.type for each in lost.events] == [HISTORY_LOST]
    assert lost.events[0].event.fields == {"why": "deleted", "from_offset": 1, "to_offset": 50}
    assert fold.position == 50
    step = fold.feed(batch([group("g", 7, "bea")], base=50))
    assert types(step.events) == [
        *("rebalance_started", "member_rejoined", "rebalance_joined", "rebalance_completed")
    ]
    assert step.events[0].event.fields["cause"]["code"] == "unknown"


def test_a_topic_that_was_created_anew_begins_with_no_groups() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")], base=0))
    step = fold.lose(0, "created anew", 99)
    assert [*step.changed] == ["g"]
    again = fold.feed(batch([group("g", 1, "ann")], base=0))
    assert types(again.events)[0] == "group_created"


def test_a_topic_that_was_empty_and_is_created_anew_begins_with_no_groups() -> None:
    fold = begun()
    fold.lose(0, "created anew", 99)
    step = fold.feed(batch([group("g", 5, "ann")], base=0))
    assert types(step.events)[0] == "group_created"


def test_after_an_unclean_election_groups_begin_with_an_unknown_past() -> None:
    fold = begun()
    for number in range(5):
        fold.feed(batch([group("g", number + 1, "ann")], base=number))
    fold.lose(3, "truncated", 99)
    step = fold.feed(batch([group("g", 9, "ann")], base=3))
    assert "group_created" not in types(step.events)
    assert step.events[0].event.fields["cause"]["code"] == "unknown"


def test_a_loss_is_remembered_by_the_next_process() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")], base=0))
    fold.lose(50, "deleted", 99)
    again = PartitionWatch.restore(0, newest(fold.checkpoint()))
    step = again.feed(batch([group("g", 7, "bea")], base=50))
    assert step.events[0].event.fields["cause"]["code"] == "unknown"


def test_an_unreadable_batch_is_a_loss() -> None:
    fold = begun()
    broken = bytearray(batch([group("g", 2, "ann", "bea")], base=1))
    broken[-1] ^= 1
    fold.feed(batch([group("g", 1, "ann")], base=0))
    fold.feed(bytes(broken))
    again = PartitionWatch.restore(0, newest(fold.checkpoint()))
    step = again.feed(batch([group("g", 3, "ann", "bea", "cid")], base=2))
    assert step.events[0].event.fields["cause"]["code"] == "unknown"


def test_records_that_were_compacted_while_nobody_read_are_a_loss() -> None:
    first, later = (batch([group("g", 1, "ann")]), batch([group("g", 6, "bea")], base=40))
    fold = begun()
    fold.feed(first)  # generations 2 to 5 had no assignments, as compaction leaves neighbours
    assert types(fold.feed(later).events).count("rebalance_abandoned") == 4
    assert not fold.gaps
    fold = begun()
    fold.feed(first)
    fold.reached_end()
    again = PartitionWatch.restore(0, newest(fold.checkpoint()))
    step = again.feed(later)
    assert "rebalance_abandoned" not in types(step.events)
    assert step.events[0].event.fields["cause"]["code"] == "unknown"
    assert again.gaps == 1


def test_behind_the_end_records_without_a_gap_are_no_loss() -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")]))
    fold.reached_end()
    step = fold.feed(batch([group("g", 2, "ann", "bea")], base=1))
    assert step.events[0].event.fields["cause"]["code"] == "member_joined"
    assert not fold.gaps


@pytest.mark.parametrize("version", [1, STATE_VERSION + 1])
def test_state_of_another_version_is_refused(version: int) -> None:
    fold = begun()
    fold.feed(batch([group("g", 1, "ann")]))
    records = newest(fold.checkpoint())
    state = json.loads(records[b""])
    assert state["v"] == STATE_VERSION
    records[b""] = json.dumps(state | {"v": version}).encode()
    with pytest.raises(ValueError, match=f"has version {version}, .* choose an empty --data"):
        PartitionWatch.restore(0, records)
