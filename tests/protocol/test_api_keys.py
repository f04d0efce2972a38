"""ApiKey against Kafka's own definitions of requests."""

import re

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from tests.support.oracle import definition, request_names


@pytest.mark.parametrize("name", request_names())
def test_a_key_has_the_name_of_kafkas_request(name: str) -> None:
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request"))
    assert ApiKey(definition(name)["apiKey"]).name == words.upper()


def test_the_keys_have_no_gap() -> None:
    assert list(ApiKey) == list(range(93))
