"""Whether log lines of Apache Kafka's coordinator are read right, on lines as it writes them."""

from tests.truth.observed.broker_log import (
    CHANGED,
    EXPIRED,
    JOIN_TIMEOUT,
    JOINED,
    LEADER,
    LEFT,
    OTHER,
    RETURNED,
    SYNC_TIMEOUT,
    UNREADY,
    UPDATED,
    GroupTruth,
    Reason,
    read,
)

_CHANGES = "Group's selectedProtocol will change because static member"
_TAIL = "11111111-2222-3333-4444-555555555555"


def an_id(name: str) -> str:
    return f"{name}-{_TAIL}"


def truth_of(*texts: str) -> GroupTruth:
    """The truth of group `g` after these lines, a second apart."""
    head = "[GroupCoordinator id=0 topic=__consumer_offsets partition=1] "
    lines = [f"{1_700_000_000_000 + 1_000 * at} {head}{text}" for at, text in enumerate(texts)]
    return read(lines).get("g", GroupTruth())


def preparing(generation: int, reason: str) -> str:
    return (
        f"Preparing to rebalance group g in state PreparingRebalance with old generation "
        f"{generation} (reason: {reason})."
    )


def adding(name: str, instance: str = "null") -> str:
    return f"Adding new member {an_id(name)} with group instance id {instance}; client reason: x"


def stable(generation: int) -> str:
    return f"Stabilized group g generation {generation} with 2 members."


def first_of(reason: str) -> Reason:
    first = truth_of(preparing(6, reason)).rebalances[7].first
    assert first is not None
    return first


def test_a_rebalance_is_known_by_the_generation_that_it_made() -> None:
    truth = truth_of(
        f"Pending dynamic member with id {an_id('beta')} joins group g in Stable state. Adding to "
        "the group now.",
        preparing(1, adding("beta")),
        stable(2),
    )
    assert [*truth.rebalances] == [2]
    made = truth.rebalances[2]
    assert made.ended == "stable"
    assert made.first is not None
    assert (made.first.code, made.first.name, made.first.is_static) == (JOINED, "beta", False)
    assert [(each.code, each.name) for each in made.also] == [(JOINED, "beta")]


def test_each_reason_has_its_code_and_member() -> None:
    for text, code in (
        (f"Updating metadata for member {an_id('a-b')} during Stable; client reason: x", UPDATED),
        (f"Leader {an_id('a-b')} re-joining group during Stable; client reason: x", LEADER),
        (f"Removing member {an_id('a-b')} on LeaveGroup; client reason: x", LEFT),
        (f"explicit `LeaveGroup` request for ({an_id('a-b')}) members.", LEFT),
        (f"removing member {an_id('a-b')} on heartbeat expiration.", EXPIRED),
        (f"Removing [{an_id('a-b')}] on pending sync request expiration", SYNC_TIMEOUT),
        (f"{_CHANGES} {an_id('a-b')} with instance id a-b joined with change", CHANGED),
        (f"Updating metadata for static member {an_id('a-b')} with instance id a-b", UNREADY),
    ):
        reason = first_of(text)
        assert (reason.code, reason.name) == (code, "a-b"), text


def test_an_administrator_removes_a_member_that_the_reason_does_not_name() -> None:
    truth = truth_of(
        f"[GroupId g] Static member {an_id('a')} with instance id a has left group through "
        "explicit `LeaveGroup` request; client reason: a test",
        preparing(3, "explicit `LeaveGroup` request for () members."),
    )
    first = truth.rebalances[4].first
    assert first is not None
    assert (first.code, first.name, first.text) == (LEFT, "a", "a test")


def test_a_new_member_with_an_instance_id_is_static() -> None:
    assert first_of(adding("a", instance="a")).is_static
    assert not first_of(adding("a")).is_static


def test_a_reason_that_is_not_known_says_so() -> None:
    reason = first_of("the moon is full")
    assert (reason.code, reason.name, reason.text) == (OTHER, "", "the moon is full")


def test_who_comes_and_goes_belongs_to_the_rebalance_under_way() -> None:
    truth = truth_of(
        f"Member {an_id('a')} in group g has failed, removing it from the group.",
        preparing(3, f"removing member {an_id('a')} on heartbeat expiration."),
        f"[GroupId g] Dynamic member {an_id('b')} has left group through explicit `LeaveGroup` "
        "request; client reason: the consumer is being closed",
        f"Group g removed dynamic members who haven't joined: [{an_id('c')}, {an_id('d')}]",
        stable(4),
        f"Group g removed members who haven't sent their sync requests: [{an_id('e')}]",
        preparing(4, f"Removing [{an_id('e')}] on pending sync request expiration"),
        "Group g with generation 5 is now empty.",
    )
    four, five = truth.rebalances[4], truth.rebalances[5]
    assert [(each.code, each.name) for each in four.also] == [
        (EXPIRED, "a"),
        (LEFT, "b"),
        (JOIN_TIMEOUT, "c"),
        (JOIN_TIMEOUT, "d"),
    ]
    assert four.also[1].text == "the consumer is being closed"
    assert [(each.code, each.name) for each in five.also] == [(SYNC_TIMEOUT, "e")]
    assert five.ended == "empty"


def test_a_member_that_was_never_in_the_group_does_not_leave_it() -> None:
    truth = truth_of(
        f"[Group g] Pending member {an_id('b')} has left group through explicit `LeaveGroup` "
        "request; client reason: x",
        preparing(3, adding("a")),
    )
    assert truth.rebalances[4].also == []


def test_static_members_return_and_are_new() -> None:
    head = (
        "Static member with groupInstanceId=a and unknown member id joins group g in Stable state"
    )
    truth = truth_of(
        f"{head}. Created a new member id {an_id('a')} for this member and added to the group.",
        preparing(3, adding("a", instance="a")),
        f"{head}. Replacing previously mapped member {an_id('a')} with this groupInstanceId.",
        stable(4),
    )
    assert [(each.code, each.is_static) for each in truth.rebalances[4].also] == [
        (JOINED, True),
        (RETURNED, True),
    ]


def test_consumer_groups_have_no_rebalances() -> None:
    truth = truth_of(
        "[GroupId g] Member Pw8I_x7TSomlNpFaOC5IuA joins the consumer group using the consumer "
        "protocol.",
        "[GroupId g] Member Pw8I_x7TSomlNpFaOC5IuA fenced from the group because the member "
        "session expired.",
        "[GroupId g] Member L6RkWYvLQTiVkFOyVGmPOg left the consumer group.",
    )
    assert not truth.rebalances
    assert [(each.code, each.member[:3]) for each in truth.consumer] == [
        ("joined", "Pw8"),
        ("fenced", "Pw8"),
        ("left", "L6R"),
    ]


def test_lines_of_several_brokers_are_read_by_their_time() -> None:
    lines = [
        f"1700000000002 {stable(2)}",
        f"1700000000001 {preparing(1, adding('b'))}",
        "no time, no line",
    ]
    made = read(lines)["g"].rebalances[2]
    assert made.first is not None
    assert made.ended == "stable"
