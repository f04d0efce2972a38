"""The events of one group are inferred from its records as the analysis does it."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from groupkeeper.history import records as history_records
from groupkeeper.history.rounds import Folding, Round
from groupkeeper.history.story import Story
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.records.consumer_offsets import GroupConfigsKey, encode_key
from groupkeeper.watch import records as watch_records
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.watch.records import LogReader
from groupkeeper.why.entries import entry_text
from groupkeeper.why.inferred import is_first
from tests.analytics import newer_logs
from tests.analytics.churn import churn
from tests.analytics.folded import rows_of
from tests.analytics.logs import batch, log
from tests.support.written_log import WrittenLog, commit, entries_of, member, rounds_of, told_of

A, B, C = member("a", 0), member("b", 1), member("c", 2)


def causes(found: list[Round]) -> list[str]:
    return [(each.cause or {})["code"] for each in found]


def two() -> WrittenLog:
    """Two members that commit every two seconds, until 100."""
    made = WrittenLog()
    made.group(0, 1, A, B)
    for at in range(2, 101, 2):
        made.write(at, commit("g", 0), commit("g", 1))
    return made


# -- the same as elsewhere -------------------------------------------------------------------------


@pytest.mark.parametrize("responses", [1, 40])
def test_rounds_are_those_of_the_analysis(responses: int) -> None:
    data, _ = churn()
    _, items = LogReader(0).feed(data, 0)
    rows = defaultdict[str, list[Any]](list)
    for row in rows_of(items)["rounds"]:
        rows[row["group"]].append(row)
    assert len(rows) == 8
    for group, expected in rows.items():
        found = rounds_of(told_of(data, group, responses))
        assert [
            (each.generation, each.outcome, (each.cause or {})["code"], each.confidence)
            for each in found
        ] == [
            (row["generation"], row["outcome"], row["cause"], row["confidence"]) for row in expected
        ]
        assert [(each.moved, each.ended_at_ms) for each in found] == [
            (row["moved"], row["ended"]) for row in expected
        ]


def test_causes_are_those_that_the_coordinator_stored() -> None:
    data, events = churn()
    foldings = defaultdict[str, Folding](Folding)
    truth = {
        (entry.group, entry.generation): (entry.cause or {})["code"]
        for event in events
        if event.group is not None
        for entry in foldings[event.group].add(event)
        if isinstance(entry, Round)
    }
    found = {
        (each.group, each.generation): (each.cause or {})["code"]
        for group in foldings
        for each in rounds_of(told_of(data, group))
    }
    assert found.keys() == truth.keys()
    pairs = Counter((truth[key], found[key]) for key in truth)
    right = sum(number for (told, got), number in pairs.items() if told == got)
    wrong = sum(number for (told, got), number in pairs.items() if got not in (told, "unknown"))
    assert right >= 0.95 * len(truth), pairs
    assert wrong <= 0.02 * len(truth), pairs


# -- rounds ----------------------------------------------------------------------------------------


def test_a_round_says_that_it_is_inferred_and_how_sure() -> None:
    made = two()
    made.commits(0, 102, 110)
    made.group(111, 2, A)
    first, last = rounds_of(told_of(made.data))
    assert causes([first, last]) == ["member_joined", "session_expired"]
    assert (last.source, last.confidence) == ("log", 0.95)
    whole = last.as_json()
    assert (whole["source"], whole["confidence"]) == ("log", 0.95)
    # Records show only how a round ended.
    assert [whole[f"{name}_ms"] for name in ("started_at", "duration", "standstill", "unread")] == [
        None
    ] * 4
    assert whole["session_timeout_ms"] == 10_000


def test_events_in_any_number_of_responses_are_the_same() -> None:
    made = two()
    made.group(103, 2, A)
    made.group(130, 3, A, C)
    made.group(140, 4)
    made.deleted(150)
    made.group(160, 1, B)
    whole = told_of(made.data)
    for responses in (2, 3, 10, 50):
        assert told_of(made.data, responses=responses) == whole


def test_without_the_record_before_nothing_is_claimed() -> None:
    made = WrittenLog(base=500)
    made.group(0, 7, A, B)
    made.group(10, 8, A, B, C)
    told = told_of(made.data)
    # As if the log was read from its middle: see `GroupLog`.
    reader, _ = LogReader(0, "g"), None
    _, items = reader.feed(made.data, 500)
    known = reader.known._replace(lost_until=(500,))

    told = GroupEvents("g").take(items, known)
    first, second = rounds_of(told)
    assert (causes([first]), is_first(first)) == (["unknown"], True)
    assert (causes([second]), is_first(second)) == (["member_joined"], False)
    assert "Read further back, with an earlier --since, unless" in entry_text(first)


@pytest.mark.parametrize(("gap", "rounds"), [(0, 3), (90, 1)])
def test_what_a_compaction_left_is_no_beginning(gap: int, rounds: int) -> None:
    """Records before were compacted away, and those that are left follow one another."""
    made = WrittenLog()
    made.write(0, commit("other", 0))
    made.end += gap
    made.write(1, commit("g", 0), commit("g", 1))
    made.group(2, 3, A, B)
    found = rounds_of(told_of(made.data))
    # A new group of generation 3 has two rounds that were superseded.
    assert len(found) == rounds
    assert is_first(found[0]) == (gap > 0)


def test_the_first_generation_needs_no_record_before() -> None:
    made = WrittenLog(base=500)
    made.group(0, 1, A)
    reader = LogReader(0, "g")
    _, items = reader.feed(made.data, 500)

    [only] = rounds_of(GroupEvents("g").take(items, reader.known._replace(lost_until=(500,))))
    assert causes([only]) == ["member_joined"]
    assert only.from_state == "Empty"


def test_a_deleted_group_begins_anew() -> None:
    made = two()
    made.group(103, 2)
    made.deleted(120)
    made.group(130, 1, C)
    found = entries_of(told_of(made.data))
    kinds = [each.type if isinstance(each, Event) else each.outcome for each in found]
    assert kinds == ["completed", "emptied", "group_deleted", "completed"]
    assert entry_text(found[2]).endswith("the group was deleted (inferred, 99 %)")


def test_a_group_that_was_created_was_not_emptied() -> None:
    """Kafka 4.1 writes a record of a group before its first member has joined."""
    made = WrittenLog()
    made.group(0, 0)
    made.group(1, 1, A)
    found = entries_of(told_of(made.data))
    assert [isinstance(each, Round) for each in found] == [True]


def test_no_cost_is_claimed_of_the_time_in_which_a_group_was_empty() -> None:
    made = two()
    made.group(103, 2)
    made.group(163, 3, A)
    found = rounds_of(told_of(made.data))
    assert [each.unread_ms for each in found] == [None, None, None]
    assert found[-1].from_state == "Empty"


def test_no_pause_between_commits_is_measured_across_a_gap() -> None:
    """The commits of a minute were compacted away: b is not known to commit irregularly."""

    def made(*, is_whole: bool) -> list[Round]:
        first, second = two(), WrittenLog()
        second.end = first.end + (0 if is_whole else 90)
        for at in range(160, 201, 2):
            second.write(at, commit("g", 0), commit("g", 1))
        second.commits(0, 202, 212)
        second.group(213, 2, A)
        return rounds_of(told_of(first.data + second.data, responses=1_000))

    assert causes(made(is_whole=True)) == ["member_joined", "unknown"]
    assert causes(made(is_whole=False)) == ["member_joined", "session_expired"]


def test_a_record_that_cannot_be_read_is_counted() -> None:

    made = two()
    key, _ = commit("g", 0)
    made.write(101, (b"\0\x02" + key[2:5], b"\0\x03?"))
    made.group(102, 2, A)
    made.group(120, 3, A, B)
    reader, events = LogReader(0, "g"), GroupEvents("g")
    _, items = reader.feed(made.data, 0)
    found = rounds_of(events.take(items, reader.known))
    assert events.unreadable == 1
    assert causes(found) == ["member_joined", "unknown", "member_joined"]


# -- groups whose partitions the server assigns ----------------------------------------------------


def newer(*records: tuple[bytes, bytes | None]) -> bytes:
    return log(*(batch([each]) for each in records))


def test_who_joined_a_share_group_and_is_gone_and_what_moved() -> None:
    data = newer(
        newer_logs.share_member("g", "one"),
        newer_logs.epoch("g", 1, kind=11),
        newer_logs.share_current("g", "one", 1, 0, 1),
        newer_logs.share_member("g", "two"),
        newer_logs.epoch("g", 2, kind=11),
        newer_logs.share_current("g", "one", 2, 0),
        newer_logs.share_current("g", "one", 3, 0),  # the same partitions in another epoch
        newer_logs.share_current("g", "two", 2, 1),
        newer_logs.gone(newer_logs.share_current("g", "two", 2, 1)),
        newer_logs.gone(newer_logs.share_member("g", "two")),
        newer_logs.epoch("g", 3, kind=11),
    )
    reader, events = LogReader(0, "g"), GroupEvents("g", {newer_logs.ORDERS: "orders"})
    _, items = reader.feed(data, 0)
    lines = [entry_text(each, 200) for each in entries_of(events.take(items, reader.known))]
    assert events.kind == "share"
    moved = "the server moved partitions without a rebalance"
    assert [each.partition("Z  ")[2] for each in lines] == [
        "one (client client, on 127.0.0.1) joined (inferred, 99 %)",
        f"{moved}: one now has orders 0-1 (inferred, 99 %)",
        "two (client client, on 127.0.0.1) joined (inferred, 99 %)",
        f"{moved}: one now has orders 0 (inferred, 99 %)",
        f"{moved}: two now has orders 1 (inferred, 99 %)",
        "two is gone, and the records do not show why (inferred, 99 %)",
    ]


def test_a_member_that_joined_before_what_was_read_is_gone_as_well() -> None:
    data = newer(newer_logs.gone(newer_logs.member("g", "two")))
    [only] = entries_of(told_of(data))
    assert "two is gone" in entry_text(only)


def test_the_end_of_such_a_group() -> None:
    record = newer_logs.epoch("g", 1)
    told = told_of(newer(record, newer_logs.gone(record)))
    assert [each.event.type for each in told] == ["group_deleted"]


def test_configs_of_a_group_are_no_record_of_it() -> None:
    key = encode_key(GroupConfigsKey(group="g"))
    events = GroupEvents("g")
    reader = LogReader(0, "g")
    _, items = reader.feed(newer((key, None)), 0)
    assert events.take(items, reader.known) == []
    assert (events.has_record, events.kind, events.unreadable) == (False, None, 0)


def test_a_group_that_was_converted_was_not_deleted() -> None:
    made = two()
    key, value = newer_logs.epoch("g", 2)
    made.write(103, (b"\0\x02\0\x01g", None), (key, value))
    told = told_of(made.data)
    assert "group_deleted" not in [each.event.type for each in told]


# -- a partition at users' size --------------------------------------------------------------------

GROUPS, RECORDS, RESPONSE = 1_000, 200_000, 1 << 20


def test_one_group_of_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200,000 records only those of the group are kept, and each key is decoded once."""
    made = WrittenLog()
    made.group(0, 1, A, B)
    for number in range(RECORDS // 100):
        at = 1 + number * 0.1
        some = [commit(f"group-{(number * 98 + n) % GROUPS}", n % 6) for n in range(98)]
        made.write(at, *some, commit("g", 0), commit("g", 1))
        if number % 100 == 0:
            made.group(at, number // 100 + 1, A, B, C, name=f"group-{number % GROUPS}")
    made.group(202, 2, A)
    counted: Counter[str] = Counter()

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counted[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(watch_records, "decode_key", counting("key", watch_records.decode_key))
    read = "groupkeeper.history.records.read_generation"
    monkeypatch.setattr(read, counting("generation", history_records.read_generation))
    monkeypatch.setattr(Story, "commit", counting("commit", Story.commit))
    responses = len(made.data) // RESPONSE + 1
    told = told_of(made.data, responses=responses)
    assert causes(rounds_of(told)) == ["member_joined", "member_left"]
    assert counted["generation"] == 2
    assert counted["commit"] <= 2 * responses
    keys = 6 * GROUPS + 2
    assert counted["key"] <= keys + RECORDS // 10_000 + 2
    assert all(one.offset <= other.offset for one, other in pairwise(told))
