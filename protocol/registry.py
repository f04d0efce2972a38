"""The APIs that are implemented, their versions, and their compiled codecs.

A server answers the APIs that its own table of handlers has.

Source: Kafka 4.1, `ApiKeys` (versions) and `ApiMessageType` (header versions).
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import (
    Decoder,
    SlicedDecoder,
    SlicedEncoder,
    decoder,
    encoder,
    sliced_decoder,
    sliced_encoder,
)
from groupkeeper.protocol.message import Message, key_of, layout_of


class Api(NamedTuple):
    """One API. Version ranges include both ends; `flexible` is the first flexible version, or None.

    Fewer versions may be served than are advertised: requests in the others are refused.
    """

    key: ApiKey
    name: str
    request_type: type
    response_type: type
    advertised: tuple[int, int]
    served: tuple[int, int]
    flexible: int | None


def api_of(request: type, advertised_from: int | None = None) -> Api:
    """The API of a request class; `advertised_from` is a version before the first served one."""
    layout = layout_of(request)
    assert layout.response is not None, layout.name
    oldest, newest = layout.versions
    return Api(
        key=key_of(request),
        name=layout.name.removesuffix("Request"),
        request_type=request,
        response_type=layout.response,
        advertised=(oldest if advertised_from is None else advertised_from, newest),
        served=layout.versions,
        flexible=layout.flexible,
    )


def _request_of(key: ApiKey) -> type:
    """The request class of an API, of the module of its name."""
    module = import_module(f"groupkeeper.protocol.messages.{key.name.lower()}")
    request: type = getattr(module, f"{key.name.title().replace('_', '')}Request")
    return request


_ADVERTISED_FROM: Final = {ApiKey.PRODUCE: 0}
"""First advertised version where it differs: old librdkafka compresses Produce requests only if it
sees version 0 (KAFKA-18659)."""

APIS: dict[int, Api] = {key: api_of(_request_of(key), _ADVERTISED_FROM.get(key)) for key in ApiKey}
"""By `ApiKey`. The keys of the type are int because a request's header can hold any int16."""


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """`decode(buffer, pos, end) -> request`, from the end of the header on; KeyError or ValueError
    if API or version are not served.
    """
    return decoder(APIS[key].request_type, version)


@cache
def response_encoder(key: int, version: int) -> Callable[[Message, int], bytes]:
    """`encode(response, correlation_id) -> bytes`: the whole frame; TypeError for a value
    that cannot be encoded.
    """
    return encoder(APIS[key].response_type, version, Framing.RESPONSE)


def sliced_request_decoder(key: int, version: int) -> SlicedDecoder:
    """As `request_decoder`, slice by slice: for long requests."""
    return sliced_decoder(APIS[key].request_type, version)


def sliced_response_encoder(key: int, version: int) -> SlicedEncoder:
    """As `response_encoder`, piece by piece and without the size: for long responses."""
    return sliced_encoder(APIS[key].response_type, version)
