"""Answers as JSON, in slices."""

import json
from typing import Any

import pytest

from groupkeeper.web.encoding import PIECE_BYTES, VALUES, Raw, encoded


def slices_of(value: Any) -> tuple[int, list[bytes]]:
    """How many slices it takes, and the pieces."""
    slices, number = encoded(value), 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return number, end.value
        number += 1


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": None, "b": [1, {"c": "\udc80"}]},
        list(range(3 * VALUES)),
        {str(each): each for each in range(3 * VALUES)},
        {"a": [{"b": list(range(VALUES)), "c": each} for each in range(5)], "d": ()},
        [1, list(range(2 * VALUES)), 2, {"a": "x" * 1_000_000}, 3],
    ],
)
def test_it_is_the_same_json(value: Any) -> None:
    _, pieces = slices_of(value)
    assert json.loads(b"".join(pieces)) == json.loads(json.dumps(value))


def test_what_is_encoded_already_goes_in_as_it_is() -> None:
    _, [piece] = slices_of({"events": [Raw(b'{"a":1}'), Raw(b"2")], "none": []})
    assert piece == b'{"events": [{"a":1}, 2], "none": []}\n'


@pytest.mark.parametrize(
    "value",
    [
        [{"partitions": list(range(VALUES // 2))} for _ in range(20)],
        {"rounds": [{"joined": [{"member": "m"} for _ in range(VALUES)]} for _ in range(10)]},
        ["x" * 20_000 for _ in range(100)],
    ],
)
def test_a_slice_has_a_limited_number_of_values_on_all_levels(value: Any) -> None:
    number, _ = slices_of(value)
    assert number >= 10


def test_a_long_answer_comes_in_pieces() -> None:
    _, pieces = slices_of([Raw(b"1" * 1000)] * 1000)
    assert len(pieces) > 10
    assert max(map(len, pieces)) < PIECE_BYTES + 2000
