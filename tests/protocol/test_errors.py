"""Error codes, held against kafka-python's list."""

import kafka.errors

from groupkeeper.protocol.errors import ErrorCode


def test_codes_agree_with_kafka_python() -> None:
    theirs = {
        cls.errno: cls.message
        for cls in vars(kafka.errors).values()
        if isinstance(cls, type) and isinstance(getattr(cls, "errno", None), int)
    }
    ours = {int(code): code.name for code in ErrorCode}
    different = {code for code, name in theirs.items() if ours.get(code) != name}
    assert different == {-1, 0, 6, 10, 17, 39}  # where kafka-python has names of its own


def test_the_names_are_kafkas() -> None:
    assert ErrorCode.NONE == 0
    assert ErrorCode.UNKNOWN_SERVER_ERROR == -1
    assert ErrorCode.NOT_COORDINATOR == 16
    assert ErrorCode.FENCED_INSTANCE_ID == 82
    assert ErrorCode.INVALID_REPLICA_ASSIGNMENT == 39


def test_codes_have_no_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
