"""Error codes, held against kafka-python's list."""

from typing import Any

import kafka.errors
import pytest

from groupkeeper.protocol.errors import ErrorCode


def test_codes_agree_with_kafka_python() -> None:
    classes: list[Any] = [cls for cls in vars(kafka.errors).values() if isinstance(cls, type)]
    theirs = {
        cls.errno: cls.message for cls in classes if isinstance(getattr(cls, "errno", None), int)
    }
    ours = {int(code): code.name for code in ErrorCode}
    different = {code for code, name in theirs.items() if ours.get(code) != name}
    assert different == {-1, 0, 6, 10, 17, 39}  # where kafka-python has names of its own


def test_the_names_are_kafkas() -> None:
    assert ErrorCode(0) is ErrorCode.NONE
    assert ErrorCode(-1) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode(16) is ErrorCode.NOT_COORDINATOR
    assert ErrorCode(82) is ErrorCode.FENCED_INSTANCE_ID
    assert ErrorCode(39) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_codes_have_no_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_a_code_of_a_later_version_is_an_unknown_error() -> None:
    assert ErrorCode(134) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode(-2) is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="not an error code"):
        ErrorCode("NONE")  # type: ignore[arg-type]
