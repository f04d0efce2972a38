"""The derived aiokafka Schemas, and aiokafka's interpreter as a second opinion."""

from io import BytesIO

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.cases import each
from tests.support.messages import all_cases, random_message
from tests.support.schema import PackedType, schema_of, values_of

every_case = each(list(all_cases()))
UNTAGGED = ("plain", "nulls", "empty", "long")


@every_case
def test_aiokafka_writes_the_same_bytes(cls: type, version: int) -> None:
    for style in UNTAGGED:
        message = random_message(cls, version, style)
        interpreted = schema_of(cls, version).encode(values_of(message, version))
        assert encoder(cls, version, Framing.BARE)(message) == interpreted


@every_case
def test_aiokafka_reads_the_same_values(cls: type, version: int) -> None:
    for style in UNTAGGED:
        message = random_message(cls, version, style)
        body = BytesIO(encoder(cls, version, Framing.BARE)(message))
        assert schema_of(cls, version).decode(body) == values_of(message, version)
        assert body.read() == b""


@every_case
def test_unknown_tags_are_passed_over_in_every_struct(cls: type, version: int) -> None:
    message = random_message(cls, version, "plain")
    tags = {900: b"new", 901: b"", 70_000: bytes(300)}
    body = schema_of(cls, version).encode(values_of(message, version, tags))
    assert decoder(cls, version)(body, 0, len(body)) == message


def test_a_schema_has_the_fields_of_its_version() -> None:
    assert schema_of(HeartbeatRequest, 0).names == ("group_id", "generation_id", "member_id")
    assert schema_of(HeartbeatRequest, 4).names[3:] == ("group_instance_id", "tags")


def test_a_type_that_aiokafka_lacks_is_supplied() -> None:
    unsigned = PackedType("H")
    assert unsigned.encode(65_535) == b"\xff\xff"
    assert unsigned.decode(BytesIO(b"\xff\xff")) == 65_535
