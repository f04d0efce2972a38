"""What Kafka's tools are asked where access is controlled, and how what they print is compared.

Data and pure functions, nothing runs here. The order matters: each finds what those before it left
behind. Lines are compared in no order, as tools print sets; addresses and times are left out. So is
why an operation on the cluster is denied: Kafka tells the caller how its broker holds the request.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.suites.kafka_checks import GROUPS

ACLS, CONFIGS = "kafka-acls", "kafka-configs"
ADMIN, READER, NEWCOMER, STRANGER = "alice", "bob", "carol", "mallory"
"""A super user; one with some rights; one who is made on the way; one with a wrong password."""
PASSWORD: Final = "carol-secret"
TOPIC, GROUP = "letters", "readers"
_USERS: Final = "--entity-type users"
_NEWCOMER: Final = f"{_USERS} --entity-name {NEWCOMER}"
_DENIED: Final = "--deny-principal User:eve --deny-host 10.0.0.1 --operation Read --topic secret- "
_PREFIXED: Final = f"{_DENIED}--resource-pattern-type prefixed"
_TRACE: Final = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^SLF4J|^\s*$")
_VARIES: Final = re.compile(
    r"127\.0\.0\.1:\d+|\(id: -?\d+ rack: \w+[^)]*\)|^\[[-\d: ,]+\] |clientId=\S+|\d+ milliseconds"
    r"|(?<=ClusterAuthorizationException: ).*"
)


@dataclass(slots=True, frozen=True)
class Asked:
    """One call of a tool by somebody. `says` is in what is printed, so that it is no mere error."""

    name: str
    tool: str
    user: str
    words: str
    says: str

    @property
    def title(self) -> str:
        return f"{self.tool}: {self.name}, as Kafka"


ASKED: Final = (
    Asked("lists for nobody without a right", ACLS, READER, "--list", "ClusterAuthorization"),
    Asked(
        "adds a consumer",
        ACLS,
        ADMIN,
        f"--add --allow-principal User:{READER} --consumer --topic {TOPIC} --group {GROUP}",
        "Adding ACLs",
    ),
    Asked(
        "adds a producer",
        ACLS,
        ADMIN,
        f"--add --allow-principal User:{READER} --producer --topic {TOPIC} --idempotent",
        "Adding ACLs",
    ),
    Asked("denies prefixed names", ACLS, ADMIN, f"--add {_PREFIXED}", "permissionType=DENY"),
    Asked(
        "adds to a transactional id",
        ACLS,
        ADMIN,
        f"--add --allow-principal User:{READER} --operation Write --transactional-id t-1",
        "TRANSACTIONAL_ID",
    ),
    Asked(
        "adds for nobody without a right",
        ACLS,
        READER,
        f"--add --allow-principal User:{READER} --operation All --cluster",
        "ClusterAuthorization",
    ),
    Asked("lists all", ACLS, ADMIN, "--list", "User:eve"),
    Asked("lists of a principal", ACLS, ADMIN, f"--list --principal User:{READER}", GROUP),
    Asked("lists of a topic", ACLS, ADMIN, f"--list --topic {TOPIC}", TOPIC),
    Asked(
        "lists what is about a name",
        ACLS,
        ADMIN,
        "--list --topic secret-1 --resource-pattern-type match",
        "secret-",
    ),
    Asked("removes", ACLS, ADMIN, f"--remove --force {_PREFIXED}", "exit code 0"),
    Asked("lists what is left", ACLS, ADMIN, "--list", GROUP),
    Asked(
        "makes no user with two mechanisms at once",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --add-config SCRAM-SHA-512=[password={PASSWORD}],"
        f"SCRAM-SHA-256=[password={PASSWORD}]",
        "DuplicateResource",
    ),
    Asked(
        "makes a user",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --add-config SCRAM-SHA-512=[iterations=8192,password={PASSWORD}]",
        "Completed updating",
    ),
    Asked(
        "adds a mechanism",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --add-config SCRAM-SHA-256=[password={PASSWORD}]",
        "Completed updating",
    ),
    Asked("describes all users", CONFIGS, ADMIN, f"--describe {_USERS}", "iterations=8192"),
    Asked("describes a user", CONFIGS, ADMIN, f"--describe {_NEWCOMER}", "iterations=4096"),
    Asked(
        "removes a mechanism",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --delete-config SCRAM-SHA-256",
        "Completed updating",
    ),
    Asked("describes what is left", CONFIGS, ADMIN, f"--describe {_NEWCOMER}", "SCRAM-SHA-512"),
    Asked(
        "removes nothing of a user without it",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --delete-config SCRAM-SHA-256",
        "ResourceNotFound",
    ),
    Asked(
        "describes a user who is not there",
        CONFIGS,
        ADMIN,
        f"--describe {_USERS} --entity-name nobody",
        r"\Aexit code 0\Z",
    ),
    Asked(
        "takes too few iterations from nobody",
        CONFIGS,
        ADMIN,
        f"--alter {_NEWCOMER} --add-config SCRAM-SHA-512=[iterations=100,password={PASSWORD}]",
        "terations",
    ),
    Asked(
        "makes users for nobody without a right",
        CONFIGS,
        READER,
        f"--alter {_NEWCOMER} --add-config SCRAM-SHA-512=[password=mine]",
        "ClusterAuthorization",
    ),
    Asked("lists", GROUPS, ADMIN, "--list", GROUP),
    Asked("lists what somebody may see", GROUPS, READER, "--list", GROUP),
    Asked("lists nothing for a new user", GROUPS, NEWCOMER, "--list", r"\Aexit code 0\Z"),
    Asked("lets a wrong password not in", GROUPS, STRANGER, "--list", "SaslAuthentication"),
    Asked("describes", GROUPS, READER, f"--describe --group {GROUP}", TOPIC),
    Asked("describes the state", GROUPS, READER, f"--describe --group {GROUP} --state", "Empty"),
    Asked(
        "describes for nobody without a right",
        GROUPS,
        NEWCOMER,
        f"--describe --group {GROUP}",
        "GroupAuthorization",
    ),
    Asked(
        "resets for nobody without a right",
        GROUPS,
        NEWCOMER,
        f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-earliest --execute",
        "Authorization",
    ),
    Asked(
        "resets",
        GROUPS,
        READER,
        f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-earliest --execute",
        TOPIC,
    ),
    Asked(
        "deletes offsets for nobody without a right",
        GROUPS,
        READER,
        f"--delete-offsets --group {GROUP} --topic {TOPIC}",
        "GroupAuthorization",
    ),
    Asked(
        "deletes for nobody without a right",
        GROUPS,
        READER,
        f"--delete --group {GROUP}",
        "GroupAuthorization",
    ),
    Asked("deletes", GROUPS, ADMIN, f"--delete --group {GROUP}", "successful"),
)


def compared(printed: Iterable[str]) -> list[str]:
    """What is the same on every run, in one order; also the mechanisms of a user, which a broker
    keeps in none.
    """
    lines = (_VARIES.sub("*", line.rstrip()) for line in printed if not _TRACE.match(line))
    words = (line.split() for line in lines)
    return sorted(
        " ".join(sorted(each.rstrip(",") for each in row) if row[0] == "SCRAM" else row)
        for row in words
    )


def differences(theirs: list[str], ours: list[str]) -> list[str]:
    """Lines that only one of them has."""
    more = [f"only Kafka: {each}" for each in theirs if each not in ours]
    more += [f"only ours: {each}" for each in ours if each not in theirs]
    return more or ([] if theirs == ours else ["the same lines, but not as often"])
