"""ApiKey against Kafka's own definitions of requests, and against the APIs that are implemented."""

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.registry import APIS
from tests.support.oracle import definition


@pytest.mark.parametrize("key", ApiKey)
def test_a_key_has_the_name_of_kafkas_request(key: ApiKey) -> None:
    name = "".join(word.capitalize() for word in key.name.split("_"))
    assert definition(f"{name}Request")["apiKey"] == key


def test_every_key_is_of_an_api_and_has_one() -> None:
    assert set(ApiKey) == set(APIS)
