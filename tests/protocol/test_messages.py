"""Every message in every version, held against Kafka's definitions and kafka-python's codec."""

import re
from typing import Any

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.message import Field, default_code, layout_of
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from tests.support.cases import each
from tests.support.messages import STYLES, all_cases, random_message
from tests.support.oracle import definition, oracle_body

CASES = list(all_cases())
CLASSES = [(cls,) for api in APIS.values() for cls in (api.request_type, api.response_type)]

TWICE = {
    "[]OffsetFetchRequestTopic": "[]OffsetFetchRequestTopics",
    "[]OffsetFetchResponseTopic": "[]OffsetFetchResponseTopics",
    "[]OffsetFetchResponsePartition": "[]OffsetFetchResponsePartitions",
}
"""Structs that Kafka defines again for later versions, with the same fields; here they are one."""

every_case = each(CASES)


@every_case
def test_a_message_comes_back_as_it_was(cls: type, version: int) -> None:
    for style in STYLES:
        message = random_message(cls, version, style)
        body = encoder(cls, version, Framing.BARE)(message)
        assert decoder(cls, version)(body, 0, len(body)) == message


@every_case
def test_the_bytes_are_those_of_kafka_python(cls: type, version: int) -> None:
    for style in STYLES:
        for seed in range(3):
            message = random_message(cls, version, style, seed)
            assert encoder(cls, version, Framing.BARE)(message) == oracle_body(message, version)


@every_case
def test_defaults_can_be_sent_in_every_version(cls: type, version: int) -> None:
    body = encoder(cls, version, Framing.BARE)(cls())
    assert body == oracle_body(cls(), version)
    assert decoder(cls, version)(body, 0, len(body)) == cls()


@each(CLASSES)
def test_a_class_has_the_fields_of_kafkas_definition(cls: type) -> None:
    layout = layout_of(cls)
    known = definition(layout.name)
    assert known["apiKey"] == layout.key
    assert known["flexibleVersions"] == (
        "none" if layout.flexible is None else f"{layout.flexible}+"
    )
    compare_fields(cls, known["fields"], layout.versions)


def compare_fields(cls: type, known: list[dict[str, Any]], versions: tuple[int, int]) -> None:
    expected = [field for field in known if overlap(field["versions"], versions)]
    assert [snake(field["name"]) for field in expected] == [f.name for f in layout_of(cls).fields]
    for entry, field in zip(expected, layout_of(cls).fields, strict=True):
        compare_field(entry, field, versions)


def compare_field(entry: dict[str, Any], field: Field, versions: tuple[int, int]) -> None:
    assert overlap(entry["versions"], versions) == overlap(f"{field.since}-{field.until}", versions)
    nullable = [v for v in range(versions[0], versions[1] + 1) if field.nullable_in(v)]
    carried = overlap(entry["versions"], versions)
    allowed = overlap(entry.get("nullableVersions", "none"), versions) or []
    if field.tag is None:
        assert [v for v in nullable if v in carried] == [v for v in allowed if v in carried]
    assert field.tag == entry.get("tag")
    assert type_name(field.type) == TWICE.get(entry["type"], entry["type"])
    assert default_code(field) == repr(expected_default(entry, field))
    kind = field.type.item if isinstance(field.type, ArrayOf) else field.type
    if isinstance(kind, StructOf):
        compare_fields(kind.cls, entry["fields"], (carried[0], carried[-1]))


def expected_default(entry: dict[str, Any], field: Field) -> object:
    given = entry.get("default")
    match field.type:
        case Fixed(name="bool"):
            return given == "true"
        case Fixed(name="uuid"):
            return bytes(16)
        case Fixed(name="float64"):
            return float(given or 0)
        case Fixed():
            return int(str(given or 0), 0)
        case Sized(name="records"):
            return None
        case Sized():
            return None if given == "null" else given or ("" if field.type.is_text else b"")
        case ArrayOf():
            return None if given == "null" else []
        case StructOf():
            return None


def type_name(kind: WireType) -> str:
    match kind:
        case ArrayOf():
            return "[]" + type_name(kind.item)
        case StructOf():
            return kind.cls.__name__
        case _:
            return kind.name


def overlap(text: str, versions: tuple[int, int]) -> list[int]:
    if text == "none":
        return []
    low, _, high = text.replace("+", "-32767").partition("-")
    return [v for v in range(versions[0], versions[1] + 1) if int(low) <= v <= int(high or low)]


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
