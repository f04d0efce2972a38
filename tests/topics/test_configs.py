"""Topic configs: names, values in their usual form, and Kafka 4.1's words for what cannot be."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from groupkeeper.protocol.messages.describe_configs import ConfigKind
from groupkeeper.topics.configs import TABLE, parts, validated
from groupkeeper.topics.refusals import Refused

INT, LONG, DOUBLE = ConfigKind.INT, ConfigKind.LONG, ConfigKind.DOUBLE


@pytest.mark.parametrize(
    ("name", "text", "usual"),
    [
        ("retention.ms", " +5\t", "5"),
        ("retention.ms", "-1", "-1"),
        ("retention.bytes", "-2", "-2"),
        ("retention.ms", "9223372036854775807", "9223372036854775807"),
        ("max.message.bytes", "0", "0"),
        ("preallocate", "TRUE", "true"),
        ("compression.gzip.level", "-1", "-1"),
        ("compression.gzip.level", "9", "9"),
        ("compression.zstd.level", "-131072", "-131072"),
        ("message.timestamp.type", " LogAppendTime", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", ".5", "0.5"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "5.e-0001d", "0.5"),
        ("min.cleanable.dirty.ratio", "0" * 3_000 + ".002", "0.002"),
        ("min.cleanable.dirty.ratio", "0.00012", "1.2E-4"),
        ("min.cleanable.dirty.ratio", "1e-5", "1.0E-5"),
        ("min.cleanable.dirty.ratio", "0.123456789012345678", "0.12345678901234568"),
        ("min.cleanable.dirty.ratio", "-0", "-0.0"),
        ("min.cleanable.dirty.ratio", "-NaN", "NaN"),
        ("cleanup.policy", "delete, compact", "delete,compact"),
        ("cleanup.policy", "", ""),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:2,", "0:1,1:2,"),
        ("leader.replication.throttled.replicas", "", ""),
    ],
)
def test_a_value_takes_its_usual_form(name: str, text: str, usual: str) -> None:
    assert validated({name: text}) == {name: usual}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("retention.ms", "x", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "1.5", "Not a number of type LONG"),
        ("retention.ms", "1" * 40, "Not a number of type LONG"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("max.message.bytes", "2147483648", "Not a number of type INT"),
        ("max.message.bytes", "-1", "Value must be at least 0"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("min.cleanable.dirty.ratio", "1.1", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "1.0E10", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "1.2345678E7", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-Infinity", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
        ("cleanup.policy", "bad", "String must be one of: compact, delete"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_kafkas_words(name: str, text: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        validated({name: text})
    assert str(refused.value) == f"Invalid value {text} for configuration {name}: {why}"


NUMBERS = [name for name, row in TABLE.items() if row.kind in (INT, LONG, DOUBLE)]
LISTS = [name for name, row in TABLE.items() if row.kind is ConfigKind.LIST]
DIGITS = "1" * 30_000


@contextmanager
def soon() -> Iterator[None]:
    began = time.thread_time()
    yield
    assert time.thread_time() - began < 1.0


def test_a_long_text_that_is_no_value_is_soon_refused() -> None:
    # Read again from every digit it took seconds for each of these, and there are many.
    forms = ("{}x", "{}.{}x", ".{}x", "1.{}x", "{}e{}x", "1e{}x", "+{}x")
    numbers = [form.replace("{}", DIGITS[: 30_000 // form.count("{}")]) for form in forms]
    lists = [DIGITS, DIGITS + ":", f"{DIGITS[:15_000]}:{DIGITS[:15_000]}x"]
    for name, text in [*product(NUMBERS, numbers), *product(LISTS, lists)]:
        with soon(), pytest.raises(Refused, match=f"for configuration {name}: "):
            validated({name: text})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"nope": None}, "Null value not supported for topic configs: nope"),
        ({"retention.ms": "x", "nope": "1"}, "Unknown topic config name: nope"),
        ({"nope": "1", "retention.ms": None}, "Null value not supported for topic configs: reten"),
        (
            {"cleanup.policy": "delete,,compact"},
            "Invalid value  for configuration cleanup.policy: String must be one of: compact, del",
        ),
        (
            {"leader.replication.throttled.replicas": "x,*"},
            "Invalid value [x, *] for configuration leader.replication.throttled.replicas: leader",
        ),
        (
            {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (6) > max.compaction.lag.ms (5)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the bro"),
    ],
)
def test_what_is_refused_first(given: dict[str, str | None], message: str) -> None:
    with pytest.raises(Refused) as refused:
        validated(given)
    assert str(refused.value).startswith(message)


def test_every_default_is_a_value_in_its_usual_form() -> None:
    defaults = {name: row.default for name, row in TABLE.items()}
    assert validated(defaults) == defaults
    assert list(TABLE) == sorted(TABLE)


def test_the_parts_of_a_list() -> None:
    assert parts("a, b,,c ") == ["a", "b", "c"]
    assert parts("a,,", empty=True) == ["a", "", ""]
    assert parts(" ") == parts(" ", empty=True) == []
