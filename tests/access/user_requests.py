"""Requests about credentials of users, in an order, and what comes back.

Played on Apache Kafka by `python -m tests.access.record`; its answers are in `kafka_users.json`.
Rows are sorted: Kafka's are in the order of a hash map.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

USERS_RECORDED = Path(__file__).with_name("kafka_users.json")
Request = AlterUserScramCredentialsRequest | DescribeUserScramCredentialsRequest


def setting(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt-of-a-client",
        salted_password=b"derived",
    )


def removing(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(*rows: Any) -> Request:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in rows if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in rows if isinstance(each, ScramCredentialUpsertion)],
    )


def describe(*names: str, all_users: bool = False) -> Request:
    users = None if all_users else [UserName(name=each) for each in names]
    return DescribeUserScramCredentialsRequest(users=users)


REQUESTS: dict[str, Request] = {
    "a user": alter(setting("u1")),
    "another mechanism": alter(setting("u1", 2, 16384)),
    "it is described": describe("u1"),
    "who is not there": describe("u1", "nobody"),
    "twice in one request": describe("u1", "u1", "nobody"),
    "no mechanism": alter(setting("u2", 0)),
    "unknown mechanism": alter(setting("u2", 7), removing("u3", 7)),
    "no name": alter(setting("")),
    "no name to remove": alter(removing("")),
    "too few rounds": alter(setting("u2", 1, 4095)),
    "too many rounds": alter(setting("u2", 1, 16385)),
    "negative rounds": alter(setting("u2", 1, -1)),
    "two of one user": alter(setting("u2", 1), setting("u2", 2)),
    "set and removed": alter(removing("u1", 1), setting("u1", 2)),
    "removed twice": alter(removing("u1", 1), removing("u1", 2)),
    "thrice": alter(removing("u1", 1), setting("u1", 1), setting("u1", 2)),
    "some are refused": alter(setting("u4"), setting("u5", 1, 1), removing("u6")),
    "who is not there is not removed": alter(removing("nobody")),
    "one of two is removed": alter(removing("u1", 1)),
    "the other one is left": describe("u1"),
    "again": alter(removing("u1", 1)),
    "odd names": alter(setting("a/b,c=d"), setting("é \u2028"), setting("a/SCRAM-SHA-256")),
    "they are described": describe("a/b,c=d", "é \u2028", "a/SCRAM-SHA-256", "a"),
    "nothing": alter(),
    "an update": alter(setting("u4", 1, 8192)),
    "it has other rounds": describe("u4"),
    "nobody named is everybody": describe(),
    "everybody": describe(all_users=True),
    "all are removed": alter(*(removing(each) for each in ("a/b,c=d", "é \u2028", "u4"))),
}


def played(call: Callable[[Request], Any]) -> dict[str, list[str]]:
    """Send all requests; return the rows of each answer."""
    return {name: rows(call(request)) for name, request in REQUESTS.items()}


def rows(answer: Any) -> list[str]:
    found = []
    for each in answer.results:
        words = [each.user, str(each.error_code), each.error_message or "-"]
        words += sorted(
            f"{one.mechanism}:{one.iterations}" for one in getattr(each, "credential_infos", [])
        )
        found.append(" ".join(words))
    return [f"error {getattr(answer, 'error_code', 0)}", *sorted(found)]
