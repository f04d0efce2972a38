"""Requests that lack rights, and logins, on Apache Kafka and on this server, over the wire.

They are no transcripts: who asks, and over which listener, is part of a case. What Kafka answers is
recorded beside them, and `make parity` compares both brokers with that: `rights` are those of
tests/apis/rights_cases.py, `logins` the conversations and requests about users of tests/access.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.access import record
from tests.access.conversations import RECORDED as CONVERSATIONS
from tests.access.user_requests import USERS_RECORDED
from tests.apis import record_rights
from tests.apis.rights_cases import DIFFERENT, SETTINGS
from tests.parity.brokers import Groupkeeper, Kafka, Profile

Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """Cases of a kind."""

    recorded: Callable[[], Answers]
    played: Callable[[str, Path], Answers]
    """What a kind of broker answers; it is started in this folder."""
    record: Callable[[], None]
    """Write down what Kafka answers."""
    different: frozenset[str] = frozenset()
    """Cases that this server answers otherwise, on purpose."""


def _rights(kind: str, folder: Path) -> Answers:
    made = Groupkeeper if kind == "groupkeeper" else Kafka
    return asyncio.run(record_rights.answers_of(made(Profile(SETTINGS), folder)))


def _logins(kind: str, folder: Path) -> Answers:
    made = record.SecureGroupkeeper if kind == "groupkeeper" else record.SecureKafka
    told, heard = record.played_on(made(folder))
    return _named(told, heard)


def _named(told: Answers, heard: Answers) -> Answers:
    return {f"users: {name}": each for name, each in told.items()} | dict(heard)


def _read(path: Path) -> Any:  # our own files, whose writers know their shape
    return json.loads(path.read_text(encoding="utf-8"))


SECTIONS: Mapping[str, Section] = {
    "rights": Section(
        lambda: _read(record_rights.RECORDED),
        _rights,
        lambda: asyncio.run(record_rights.main()),
        DIFFERENT,
    ),
    "logins": Section(
        lambda: _named(_read(USERS_RECORDED), _read(CONVERSATIONS)), _logins, record.main
    ),
}


def compared(name: str, kind: str) -> tuple[int, list[str]]:
    """How many cases there are, and what differs, in words. Raises UnavailableError."""
    section = SECTIONS[name]
    with tempfile.TemporaryDirectory(prefix=f"groupkeeper-parity-{kind}-") as folder:
        found = section.played(kind, Path(folder))
    ours = section.different if kind == "groupkeeper" else frozenset[str]()
    return len(found), differences(section.recorded(), found, ours)


def differences(
    recorded: Answers, found: Answers, different: frozenset[str] = frozenset()
) -> list[str]:
    """What is not as it is recorded; of `different` what is, although it should not be."""
    missing = [f"{name}: not recorded, or not played" for name in recorded.keys() ^ found.keys()]
    return sorted(missing) + [
        f"{name}:\n    recorded {recorded[name]}\n    answered {found[name]}"
        for name in recorded
        if name in found and (recorded[name] == found[name]) is (name in different)
    ]
