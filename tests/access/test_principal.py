"""Principals, as Kafka writes them."""

import pytest

from groupkeeper.access.principal import Principal, parse_principal
from groupkeeper.coordinator.caller import known_as


def test_a_principal_is_type_and_name() -> None:
    assert parse_principal("User:alice") == Principal("User", "alice")
    assert str(Principal("User", "CN=a,O=b")) == "User:CN=a,O=b"
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert known_as("") == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice", ":"])
def test_what_is_no_principal_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not Type:name, such as User:alice"):
        parse_principal(text)
