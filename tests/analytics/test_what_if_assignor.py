"""The assignors of the model."""

from groupkeeper.analytics.what_if.assignor import ranges, shared


def sizes(plan: dict[str, list[int]]) -> dict[str, int]:
    return {member: len(numbers) for member, numbers in plan.items()}


def test_ranges_are_even_and_in_order() -> None:
    assert ranges(["b", "a"], 5) == {"a": [0, 1, 2], "b": [3, 4]}


def test_members_keep_what_they_own() -> None:
    assert shared({"a": [0, 1], "b": []}, 4) == {"a": [0, 1], "b": [2, 3]}


def test_what_is_to_be_given_up_is_given_to_nobody_yet() -> None:
    assert shared({"a": [0, 1, 2, 3], "b": []}, 4) == {"a": [0, 1], "b": []}


def test_what_is_to_be_given_up_is_spread_over_all_new_owners() -> None:
    """Apache Kafka's assignor gave the members of such a group 15, 10, 10 and 10 partitions: the
    one that had given up 30 already has to give up 15 of its 30 again.
    """
    plan = shared({"a": [*range(30)], "b": [], "c": [], "d": []}, 60)
    assert sizes(plan) == {"a": 15, "b": 10, "c": 10, "d": 10}
