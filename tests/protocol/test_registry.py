"""The table of APIs, and whole frames in both directions."""

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.message import key_of, layout_of
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.registry import APIS, Api, request_decoder, response_encoder
from tests.support.advertised import ADVERTISED
from tests.support.cases import each
from tests.support.codecs import request_encoder, response_decoder
from tests.support.messages import random_message

SERVED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.served[0], api.served[1] + 1)
]
every_version = each(SERVED)


def test_the_advertised_versions_are_those_that_clients_need() -> None:
    assert {api.name: api.advertised for api in APIS.values()} == ADVERTISED


@each((api,) for api in APIS.values())
def test_an_api_has_the_name_of_its_key(api: Api) -> None:
    assert api.key.name.replace("_", "") == api.name.upper()


@each((api,) for api in APIS.values())
def test_request_and_response_are_of_one_api(api: Api) -> None:
    assert key_of(api.request_type) is key_of(api.response_type) is api.key
    assert layout_of(api.request_type).response is api.response_type
    assert layout_of(api.response_type).name == f"{api.name}Response"


def test_produce_is_advertised_from_zero_and_served_from_three() -> None:
    assert APIS[ApiKey.PRODUCE].served == (3, 13)
    with pytest.raises(ValueError, match="ProduceRequest has versions 3 to 13, not 2"):
        request_decoder(ApiKey.PRODUCE, 2)


@every_version
def test_a_request_frame_comes_back(key: int, version: int) -> None:
    request = random_message(APIS[key].request_type, version, "tagged")
    frame = request_encoder(key, version)(request, 77, "client")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = read_request_header(frame, 4, len(frame))
    assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 77)
    assert request_decoder(key, version)(frame, pos, len(frame)) == request


@every_version
def test_a_response_frame_comes_back(key: int, version: int) -> None:
    response = random_message(APIS[key].response_type, version, "tagged")
    frame = response_encoder(key, version)(response, -5)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert response_decoder(key, version)(frame, 4, len(frame)) == (-5, response)


def test_a_response_header_cut_off_is_refused() -> None:
    frame = response_encoder(ApiKey.HEARTBEAT, 4)(APIS[ApiKey.HEARTBEAT].response_type(), 1)
    for cut in range(4, len(frame)):
        with pytest.raises(DecodeError):
            response_decoder(ApiKey.HEARTBEAT, 4)(frame[:cut], 4, cut)


def test_codecs_are_compiled_once() -> None:
    assert request_decoder(ApiKey.HEARTBEAT, 4) is request_decoder(ApiKey.HEARTBEAT, 4)
    assert response_encoder(ApiKey.HEARTBEAT, 4) is response_encoder(ApiKey.HEARTBEAT, 4)
    assert request_encoder(ApiKey.HEARTBEAT, 4) is request_encoder(ApiKey.HEARTBEAT, 4)
    assert response_decoder(ApiKey.HEARTBEAT, 4) is response_decoder(ApiKey.HEARTBEAT, 4)


def test_an_unknown_api_has_no_codec() -> None:
    with pytest.raises(KeyError):
        request_decoder(99, 0)
    assert APIS[ApiKey.HEARTBEAT].request_type is HeartbeatRequest
