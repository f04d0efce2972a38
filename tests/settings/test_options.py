"""Addresses on the command line."""

import pytest

from groupkeeper.settings.options import format_address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (" 0.0.0.0:1 ", ("0.0.0.0", 1)),
    ],
)
def test_an_address_is_read_and_written_back(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert format_address(address) == text.strip()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("9092", "not HOST:PORT"),
        (":9092", "not HOST:PORT"),
        ("", "not HOST:PORT"),
        ("http://127.0.0.1:9644", "not HOST:PORT"),
        ("::1:9092", "brackets"),
        ("host:", "port is a number"),
        ("host:-1", "port is a number"),
        ("host:65536", "port is a number"),
        ("host:٣", "port is a number"),
    ],
)
def test_anything_else_is_refused_with_advice(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_address(text)


def test_port_0_cannot_be_advertised() -> None:
    with pytest.raises(ValueError, match="clients cannot connect"):
        parse_address("host:0", any_port=False)
