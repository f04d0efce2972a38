import json

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorResponse
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from groupkeeper.protocol.registry import request_decoder, response_encoder
from tests.suites.sarama_cluster import Link, toxiproxy_answer
from tests.support.codecs import response_decoder
from tests.support.wire import frame

BROKER = ("127.0.0.1", 40123)


def broker(host: str, port: int) -> MetadataResponseBroker:
    return MetadataResponseBroker(host=host, port=port)


@pytest.mark.parametrize("version", [0, 4, 7])
@pytest.mark.parametrize(("asked", "passed_on"), [(3, 1), (1, 1), (-1, -1)])
def test_topics_are_made_with_one_replica(version: int, asked: int, passed_on: int) -> None:
    topic = CreatableTopic(name="test.4", num_partitions=4, replication_factor=asked)
    sent = frame(version, CreateTopicsRequest(topics=[topic]), 7, "sarama")
    edited = Link(BROKER).request(sent)
    header, body = read_request_header(edited, 4, len(edited))
    request = request_decoder(ApiKey.CREATE_TOPICS, version)(edited, body, len(edited))
    assert (header.correlation_id, header.client_id) == (7, "sarama")
    assert [(each.name, each.replication_factor) for each in request.topics] == [
        ("test.4", passed_on)
    ]


def test_other_requests_pass_untouched() -> None:
    sent = frame(3, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    assert Link(BROKER).request(sent) == sent


@pytest.mark.parametrize("version", [1, 12])
def test_the_broker_is_told_to_be_the_first_of_five(version: int) -> None:
    link = Link(BROKER)
    link.request(frame(version, MetadataRequest(), 5, None))
    brokers = [broker(*BROKER), broker("elsewhere", BROKER[1])]
    encode = response_encoder(ApiKey.METADATA, version)
    answer = link.response(encode(MetadataResponse(brokers=brokers), 5))
    _, told = response_decoder(ApiKey.METADATA, version)(answer, 4, len(answer))
    assert [(each.host, each.port) for each in told.brokers] == [
        ("127.0.0.1", 29091),
        ("elsewhere", 40123),
    ]


def test_bytes_like_an_address_in_other_answers_stay() -> None:
    response = FindCoordinatorResponse(host=BROKER[0], port=BROKER[1])
    answer = response_encoder(ApiKey.FIND_COORDINATOR, 1)(response, 5)
    assert Link(BROKER).response(answer) == answer


def test_toxiproxy_describes_the_proxies_it_is_asked_for() -> None:
    head, _, body = toxiproxy_answer("/proxies/kafka3", BROKER).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body) == {
        "name": "kafka3",
        "listen": "127.0.0.1:29093",
        "upstream": "127.0.0.1:40123",
        "enabled": True,
    }


def test_toxiproxy_accepts_everything_else() -> None:
    assert toxiproxy_answer("/reset", BROKER).startswith(b"HTTP/1.1 204 No Content\r\n")
