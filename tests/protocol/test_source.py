"""Putting a function together from lines."""

import pytest

from groupkeeper.protocol.source import Source


def test_blocks_are_indented_and_names_stand_for_objects() -> None:
    source = Source("<test>")
    source.refer("answer", 42)
    with source.block("def f(x):"):
        with source.block("if x:"):
            source.line("return answer")
        source.line("return None")
    function = source.compile("f")
    assert (function(1), function(0)) == (42, None)


def test_fresh_names_are_never_given_twice() -> None:
    source = Source("<test>")
    assert [source.fresh("a"), source.fresh("b"), source.fresh("a")] == ["a1", "b1", "a2"]


def test_one_name_cannot_stand_for_two_objects() -> None:
    source = Source("<test>")
    source.refer("name", object())
    with pytest.raises(AssertionError):
        source.refer("name", object())


def test_structs_are_big_endian_and_shared() -> None:
    source = Source("<test>")
    assert source.packed("pack", "h?") == source.packed("pack", "h?")
    with source.block("def f():"):
        source.line(f"return {source.packed('pack', 'h?')}(1, True)")
    assert source.compile("f")() == b"\0\1\1"
