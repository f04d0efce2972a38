"""Writes rights.json: what Apache Kafka answers to the cases of `rights_cases.py`.

    python -m tests.apis.record_rights

Everyone is User:ANONYMOUS on a listener without login, so hosts tell clients apart: the broker and
the administrator are 127.0.0.1, who sends the cases is 127.0.0.2.
"""

import asyncio
import json
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from groupkeeper.access.acls import Acl
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.registry import APIS
from tests.apis.rights_cases import SETTINGS, Case, base_acls, cases, comparable
from tests.parity.brokers import Broker, Kafka, Profile
from tests.support.guarded import create_acls_request
from tests.support.wire import Client

RECORDED = Path(__file__).with_name("rights.json")
ADMIN, OTHER = "127.0.0.1", "127.0.0.2"
PROPAGATED_S = 0.15


def connect(port: int, source: str) -> Client:
    return Client(socket.create_connection(("127.0.0.1", port), source_address=(source, 0)))


def create(admin: Client, acls: tuple[Acl, ...] | list[Acl]) -> None:
    results = admin.call(3, create_acls_request(acls)).results
    assert not any(each.error_code for each in results), results


def remove(admin: Client) -> None:
    everything = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter="*",
        operation=1,
        permission_type=1,
    )
    admin.call(3, DeleteAclsRequest(filters=[everything]))


def answer(case: Case, port: int, ids: dict[str, bytes]) -> Any:
    with connect(port, OTHER) as client:
        try:
            return comparable(client.call(case.version, case.request(ids)), case.version)
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "nothing"


def record(port: int) -> dict[str, Any]:
    admin = connect(port, ADMIN)
    names = ("orders", "payments")
    rows = [CreatePartitionsTopic(name=each, count=6, assignments=None) for each in names]
    admin.call(1, CreatePartitionsRequest(topics=rows, timeout_ms=9000))
    create(admin, base_acls(ADMIN))
    wanted = [MetadataRequestTopic(name=each) for each in names]
    time.sleep(1)
    found = admin.call(12, MetadataRequest(topics=wanted)).topics
    ids = {each.name: each.topic_id for each in found}
    recorded = {}
    for case in cases():
        if case.acls:
            create(admin, case.acls)
        time.sleep(PROPAGATED_S)
        recorded[f"{APIS[case.key].name}: {case.name}"] = answer(case, port, ids)
        if case.acls:
            remove(admin)
    return recorded


async def answers_of(broker: Broker) -> dict[str, Any]:
    """Start the broker, ask it, and kill it."""
    try:
        await broker.start()
        return await asyncio.to_thread(record, broker.port)
    finally:
        broker.kill()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = await answers_of(Kafka(Profile(SETTINGS), Path(folder)))
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
