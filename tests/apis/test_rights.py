"""What is denied, and how: each case against the answer of Apache Kafka (`rights_cases.py`)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.access.authorizer import Authorizer
from groupkeeper.apis.needs import NOTHING, AllOf, AnyOf, Need
from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.table import TABLE
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.registry import APIS
from tests.apis.record_rights import RECORDED
from tests.apis.rights_cases import DIFFERENT, SETTINGS, Case, base_acls, cases, comparable
from tests.support.served import Served

NO_RIGHTS = frozenset(
    ("ApiVersions", "SaslHandshake", "SaslAuthenticate", "ConsumerGroupHeartbeat")
)
"""APIs that are answered whoever asks."""
NEVER = {("ListTransactions", Operation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID)}
"""Rights that nobody can lack: there are no transactions that might be listed."""
CASES = {f"{APIS[case.key].name}: {case.name}": case for case in cases()}


def authorizer_of(served: Served) -> Authorizer:
    rights = served.server._rights
    assert rights is not None
    return rights.authorizer


@pytest.fixture
def guarded(serve: Callable[..., Served]) -> Served:
    """A server on which everything is denied."""
    served = serve(*(f"{key}={value}" for key, value in SETTINGS.items()))
    for acl in base_acls("10.0.0.1"):
        authorizer_of(served).add(acl)
    return served


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_kafka(guarded: Served, recorded: Any, name: str) -> None:
    case = CASES[name]
    for acl in case.acls:
        authorizer_of(guarded).add(acl)
    answer = answer_of(guarded, case)
    assert (answer == recorded[name]) is (name not in DIFFERENT)


def answer_of(served: Served, case: Case) -> Any:
    ids = {name: topic.topic_id for name, topic in served.server.topics.catalog.by_name.items()}
    return comparable(served.client().call(case.version, case.request(ids)), case.version)


def test_every_answer_has_a_case(recorded: Any) -> None:
    assert recorded.keys() == CASES.keys(), "run python -m tests.apis.record_rights"


def test_every_api_has_a_case() -> None:
    with_cases = {case.key for case in CASES.values()}
    missing = {APIS[row.key].name for row in TABLE if row.key not in with_cases}
    assert missing == NO_RIGHTS, "an API needs a case in rights_cases.py, or no right at all"
    assert {APIS[row.key].name for row in TABLE if row.needs == NOTHING} == {
        *NO_RIGHTS,
        "DescribeCluster",  # which tells rights, and needs none
    }


Asked = tuple[str, Operation, ResourceKind]


def rights_of(api: str, need: Need) -> set[Asked]:
    if isinstance(need, AllOf | AnyOf):
        return set().union(*(rights_of(api, each) for each in need.parts))
    return {(api, need.operation, need.resource)}


@pytest.fixture
def lacked(monkeypatch: pytest.MonkeyPatch) -> set[Asked]:
    """What clients were found not to have."""
    found: set[Asked] = set()
    may, may_any = AskingClient.may, AskingClient.may_any
    has = AskingClient.has

    def noted(client: AskingClient, what: tuple[Operation, ResourceKind], result: bool) -> bool:
        if not result:
            found.add((client._api, *what))
        return result

    def any_noted(client: AskingClient, *what: Any) -> Any:
        return noted(client, what, (yield from may_any(client, *what)))

    monkeypatch.setattr(
        AskingClient, "may", lambda self, *what: noted(self, what[:2], may(self, *what))
    )
    monkeypatch.setattr(
        AskingClient, "has", lambda self, *what: noted(self, what[:2], has(self, *what))
    )
    monkeypatch.setattr(AskingClient, "may_any", any_noted)
    return found


def test_every_right_of_every_row_is_denied_once(guarded: Served, lacked: set[Asked]) -> None:
    """A row needs a case for each of its rights, in which a client does not have it."""
    authorizer = authorizer_of(guarded)
    for case in CASES.values():
        for acl in case.acls:
            authorizer.add(acl)
        answer_of(guarded, case)
        for acl in case.acls:
            if acl in authorizer.acls:
                authorizer.remove(acl)
    wanted = set().union(*(rights_of(APIS[row.key].name, row.needs) for row in TABLE))
    assert wanted - lacked == NEVER
