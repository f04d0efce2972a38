"""What the page shows of answers of the API: rows of the timeline, times, clients, dialogs."""

from typing import Any

import pytest

from tests.web.drawn import NEEDS_NODE, Element, drawn, found, text_of

pytestmark = NEEDS_NODE
NOON = 1_763_812_800_000
"""2025-11-22 12:00:00 UTC."""


def row(count: int) -> dict[str, Any]:
    lines = [{"at_ms": NOON + 1_000 * each, "text": f"text {each}"} for each in range(count)[::-1]]
    head = {"kind": "events", "type": "member_replaced", "epoch": 1, "seq": 7, "count": count}
    times = {"first_ms": NOON, "last_ms": lines[0]["at_ms"], "text": lines[0]["text"]}
    return head | times | {"lines": lines}


def shown(entry: dict[str, Any]) -> Element:
    return drawn("timeline.js", "rowOf(entry)", entry=entry)  # type: ignore[no-any-return]


# -- the timeline --------------------------------------------------------------------------------


def test_repeated_events_are_a_row_with_their_number_that_opens_to_the_last_ones() -> None:
    made = shown(row(3) | {"count": 52})
    [summary] = found(made, "summary")
    when = "2025-11-22 12:00:00 to 2025-11-22 12:00:02 UTC"
    assert text_of(summary) == f"{when} 52 \N{MULTIPLICATION SIGN}Last: text 2member_replaced"
    lines = [text_of(each) for each in found(made, "li") if each is not made]
    assert lines[0] == "2025-11-22 12:00:02 text 2"
    assert text_of(made).endswith("The last 3 of 52.")


def test_a_sentence_about_all_events_of_a_row_is_not_that_of_the_last_one() -> None:
    text = text_of(shown(row(3) | {"text": "restarted 3 times"}))
    assert "restarted 3 timesmember_replaced" in text
    assert "Last" not in text.partition("member_replaced")[0]


def test_an_inferred_round_is_shown_with_its_end_as_its_begin_is_unknown() -> None:
    entry = {"kind": "round", "epoch": 0, "round": 3, "generation": 7, "outcome": "completed"}
    entry |= {"started_at_ms": None, "ended_at_ms": NOON, "duration_ms": None, "moved": 2}
    entry |= {"standstill_ms": None, "partitions": 4, "joined": [], "missing": [], "text": "why"}
    entry |= {"cause": {"code": "member_left"}, "cause_text": "Inferred, 97 %: ann left."}
    assert "before the stored events" in text_of(shown(entry))
    text = text_of(shown(entry | {"source": "log", "confidence": 0.97}))
    assert text.startswith("2025-11-22 12:00:00 UTC Inferred, 97 %: ann left.")


def test_the_page_of_an_observer_says_so_and_what_it_does_not_know() -> None:
    text = drawn("server.js", 'observerText("kafka:9092")')
    assert text.startswith("Observes the cluster at kafka:9092, read-only. Causes are inferred")
    assert drawn("server.js", "observerText(null)") is None
    assert drawn("groups.js", 'lagTexts(null, "kafka:9092")') == ["none known", ""]
    assert drawn("groups.js", "lagTexts(null, null)") == ["no offsets", ""]
    assert drawn("lag.js", "noneText(null)") == "The group has committed no offsets."
    none = drawn("lag.js", "noneText('kafka:9092')")
    assert none == "No committed offset with a log end is known."
    noted = "(() => { link.saw('kafka:9092', null); return link.observes; })()"
    assert drawn("server.js", noted) == "kafka:9092"


def test_the_page_of_an_observer_says_since_when_it_cannot_read_the_cluster() -> None:
    """Not while it is short, and with one time as long as it lasts."""
    told = drawn("server.js", "unreadText({ partitions: 50, at: 7 }, (at) => `at ${at}`).join('')")
    assert told.startswith("The cluster cannot be read since at 7: groups of 50 partitions of")
    assert "1 partition of" in drawn(
        "server.js", "unreadText({ partitions: 1, at: 7 }, String).join('')"
    )
    code = """(() => {
      let changes = 0;
      link.addEventListener("change", () => (changes += 1));
      const saw = (unread) => (link.saw("kafka:9092", unread), [link.unread?.at, changes]);
      const shown = [null, 900, 6_000, 9_000, null].map(
        (for_ms) => saw(for_ms && { partitions: 2, for_ms }));
      return [shown.map(([at]) => at ?? null), shown.map(([, number]) => number)];
    })()"""
    times, changes = drawn("server.js", code)
    assert [each is None for each in times] == [True, True, False, False, True]
    assert times[2] == times[3]
    assert changes == [1, 1, 2, 2, 3]


def test_one_event_is_a_row_that_does_not_open() -> None:
    made = shown(row(1))
    assert text_of(made) == "2025-11-22 12:00:00 UTC text 0member_replaced"
    assert not [*found(made, "details")]


def test_a_row_keeps_its_key_while_it_grows() -> None:
    keys = [drawn("timeline.js", "keyOf(entry)", entry=row(count)) for count in (1, 5)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("members", "lag", "text"),
    [
        ([], {"records": 3_375, "seconds": 610}, ": 3,375 records are left to read, the oldest"),
        (
            [],
            {"records": 1, "seconds": None},
            "The group has no members: 1 record is left to read.",
        ),
        ([], {"records": 0, "seconds": 0}, "The group has no members."),
        ([], None, "The group has no members."),
        ([{}], {"records": 3, "seconds": 5}, "No rebalance is in progress."),
    ],
)
def test_a_group_without_members_says_what_is_left_to_read(
    members: list[Any], lag: Any, text: str
) -> None:
    live = {"members": members, "next_timer": None}
    assert text in text_of(drawn("barrier.js", "quiet(live, lag, 0)", live=live, lag=lag))


def test_a_rebalance_of_an_observed_group_does_not_say_who_has_rejoined() -> None:
    seen = {"came": ["sam-1"], "gone": ["fred-1"]}
    members = [{"member": "fred-1", "instance": "pod-3"}]
    live = {"rebalance": {"phase": "join", "since_ms": 3_000}, "members": members, "seen": seen}
    texts = [text_of(each) for each in drawn("barrier.js", "seenPhase(live, 1000)", live=live)]
    assert texts[0].startswith(
        "Join phase: first seen 4.0 s ago, by asking the coordinator. Who has"
    )
    assert texts[1:] == ["New: sam-1.", "Gone: pod-3."]


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        (None, "on 10.0.0.7"),
        (False, "on 10.0.0.7, not heard from since the load"),
        (True, "on 10.0.0.7, heard from 3.0 s ago"),
    ],
)
def test_of_a_member_that_an_observer_cannot_hear_only_the_host_is_shown(
    heard: bool | None, text: str
) -> None:
    member = {"host": "10.0.0.7", "software": None, "heard": heard, "heard_ms_ago": 2_000}
    assert drawn("barrier.js", "detail(member, 1000)", member=member | {"joined": False}) == text


# -- times and clients ---------------------------------------------------------------------------


def test_a_time_is_utc_and_its_title_has_the_offset_of_the_browser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for zone, title in {
        "Asia/Kolkata": "2025-11-22 17:30:00 +05:30 here",
        "America/New_York": "2025-11-22 07:00:00 \N{MINUS SIGN}05:00 here",
        "UTC": "2025-11-22 12:00:00 +00:00 here",
    }.items():
        monkeypatch.setenv("TZ", zone)
        made = drawn("format.js", "time(ms)", ms=NOON)
        assert text_of(made) == "2025-11-22 12:00:00 UTC"
        assert made["attributes"]["title"] == title


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("apache-kafka-java", "4.1.0", "apache-kafka-java 4.1.0"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", "confluent-kafka-python 2.16.1"),
        ("x" * 40, "1" * 40, f"{'x' * 32}… {'1' * 12}…"),
    ],
)
def test_software_is_cut_to_what_tells_releases_apart(name: str, version: str, text: str) -> None:
    who = {"host": "/10.0.0.7", "software": {"name": name, "version": version}}
    assert drawn("format.js", "whereOf(who)", who=who) == f"on 10.0.0.7, {text}"


def test_long_versions_in_sentences_are_cut_and_whole_in_a_title() -> None:
    text = (
        "pod-1 (on 10.0.0.7, confluent-kafka-python 2.16.1-rdkafka-2.16.0) left; a-1 (c 4.1.0) too."
    )
    made = drawn("format.js", "shortVersions(text)", text=text)
    short = "pod-1 (on 10.0.0.7, confluent-kafka-python 2.16.1) left; a-1 (c 4.1.0) too."
    assert "".join(map(text_of, made)) == short
    assert made[1]["attributes"] == {"title": "2.16.1-rdkafka-2.16.0"}


# -- offsets and owners --------------------------------------------------------------------------


def offset(topic: str, **more: Any) -> dict[str, Any]:
    place = {"topic": topic, "partition": 0, "committed": 1, "end": 5, "lag": 4}
    return place | {"lag_ms": 5_000, "subscribed": True} | more


def test_a_topic_that_no_member_subscribes_is_marked() -> None:
    partitions = [offset("orders"), offset("retired", lag_ms=None, subscribed=False)]
    made = drawn("lag.js", "offsetsTable(partitions)", partitions=partitions)
    rows = [text_of(each) for each in found(made[0], "tr")]
    assert rows[1:] == ["orders01545.0 s", "retired0154not subscribed"]
    assert "do not count in the lag" in text_of(made[2])


def test_heads_of_columns_are_as_many_as_have_room_and_the_last_one() -> None:
    assignment = [{"member": "a", "instance": None, "partitions": {"a-topic": [3]}}]
    one = {"epoch": 1, "ended_at_ms": NOON, "outcome": "completed", "partitions": 1}
    rounds = [
        one | {"round": number, "generation": 123_450 + number, "assignment": assignment}
        for number in range(12)
    ]
    made = drawn("ownership.js", "ownershipPicture(rounds)", rounds=rounds)
    axis, row = made[1]["children"]
    heads = [text_of(each) for each in found(axis, "text")]
    assert [each for each in heads if each] == ["123453", "123457", "123461"]
    name = next(each for each in found(row, "span") if each["attributes"].get("title"))
    assert (name["attributes"]["title"], [text_of(each) for each in name["children"]]) == (
        "a-topic-3",
        ["a-topic", "-3"],
    )


# -- dialogs -------------------------------------------------------------------------------------


def told(change: str, answer: dict[str, Any], **given: Any) -> dict[str, Any]:
    whole = {"members": [], "partitions": []} | given
    expression = f"{change}(members, partitions).told(answer)"
    return drawn("changes.js", expression, answer=answer, **whole)  # type: ignore[no-any-return]


def member(number: int) -> dict[str, Any]:
    head = {"member_id": f"m{number}", "instance_id": None, "client_id": "c", "host": None}
    return head | {"software": None, "last_heard_ms": None, "connection": None}


def removed(number: int, error: str | None = None) -> dict[str, Any]:
    return {"member_id": f"m{number}", "instance_id": None, "error": error}


def test_a_removal_says_how_many_rebalance_and_which_stay() -> None:
    members = [member(each) for each in range(3)]
    answer = {"members": [removed(0), removed(7, "UNKNOWN_MEMBER_ID")]}
    found = told("removal", answer, members=members)
    assert found["text"] == (
        "1 of 3 members will be removed, and the other 2 will rebalance once. A client that still"
        " runs joins again. Stays: m7, as there is no such member any more."
    )
    assert found["isAny"] is True
    whole = told("removal", {"members": [removed(each) for each in range(3)]}, members=members)
    assert "3 of 3 members will be removed, and the group will be Empty." in whole["text"]
    none = told("removal", {"members": [removed(7, "NEW_ERROR")]}, members=members)
    assert (none["text"], none["isAny"]) == (
        "No member will be removed. Stays: m7, as NEW_ERROR.",
        False,
    )


def test_a_reset_says_what_is_read_again_and_what_is_skipped() -> None:
    offsets = [
        {"topic": "t", "partition": 0, "offset": 2, "before": 12, "end": 20},
        {"topic": "t", "partition": 1, "offset": 25, "before": 20, "end": 20},
        {"topic": "t", "partition": 2, "offset": 9, "before": None, "end": None},
    ]
    found_ = told("reset", {"offsets": offsets})
    assert found_["text"] == (
        "3 offsets will be set: 10 records will be read again, 5 will be skipped. 1 of them is"
        " beyond the end of the log."
    )
    rows = [text_of(each) for each in found(found_["rows"], "tr")]
    assert rows[1:] == ["t012220", "t1202520", "t2none9none"]


def test_a_deletion_names_what_stays() -> None:
    place = {"topic": "t", "before": 3, "error": None}
    refused = place | {"error": "GROUP_SUBSCRIBED_TO_TOPIC"}
    offsets = [place | {"partition": 0}, *(refused | {"partition": each} for each in range(1, 6))]
    text = told("deletion", {"offsets": offsets})["text"]
    assert text.startswith("1 offset will be deleted;")
    assert text.endswith(" Stay: t-1, t-2, t-3 and 2 more, as a member subscribes the topic.")
    assert told("deletion", {"offsets": offsets[1:]})["isAny"] is False
    end = told("end", {"offsets": 2})
    assert end["text"] == "The group and its 2 committed offsets will be deleted."
