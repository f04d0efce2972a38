r"""Java's properties syntax.

The expected pairs are what java.util.Properties makes of the same text.
"""

import pytest

from groupkeeper.settings.outside import parse_properties as parse


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", []),
        ("a=1", [("a", "1")]),
        ("a = 1 \n", [("a", "1 ")]),
        ("a:1", [("a", "1")]),
        ("a 1", [("a", "1")]),
        ("a\t=\t1", [("a", "1")]),
        ("a==1", [("a", "=1")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=1", [("", "1")]),
        ("# note\n  ! note\n\n \t\na=1", [("a", "1")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("a=1 # no comment", [("a", "1 # no comment")]),
    ],
)
def test_pairs(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse(text) == pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=one,\\\n    two", [("a", "one,two")]),
        ("a=one\\\\\nb=2", [("a", "one\\"), ("b", "2")]),
        ("a=one\\\n# two", [("a", "one# two")]),
        ("a=one\\", [("a", "one")]),
        ("long.\\\n  key=1", [("long.key", "1")]),
    ],
)
def test_a_backslash_at_the_end_continues_the_line(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse(text) == pairs


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        (r"a\=b=1", ("a=b", "1")),
        (r"a\:b\ c 1", ("a:b c", "1")),
        (r"a=\u0041\t\q", ("a", "A\tq")),
        (r"a=c:\\dir", ("a", "c:\\dir")),
    ],
)
def test_escapes(text: str, pair: tuple[str, str]) -> None:
    assert parse(text) == [pair]


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"a=\u"])
def test_a_bad_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse(text)
