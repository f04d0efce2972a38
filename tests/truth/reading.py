"""What is stored about one group on a server process, read by Fetch, and compared with what should.

Expectations are lines as in transcripts (tests/parity/happened.py), and here members are named by
their instance id or client id. Each line is about the first event of its type behind the event of
the line before. `no TYPE` says that there is none at all, `all TYPE ...` what is true of each.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from groupkeeper.protocol.group_events import TOPIC, Event, decode
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.testing.wire.telling import TextNames
from tests.parity import happened
from tests.support.requests import records_request
from tests.support.wire import Address, connect

_ANSWER_BYTES = 8 << 20
_PAUSE_S = 0.1
_MORE_S = 2.0
NO, ALL = "no", "all"


class Clients(TextNames):
    """Names members as their users know them."""

    def learn(self, value: Any) -> None:
        """Take the names from an event's fields."""
        match value:
            case {"member": str(member), "client_id": name, "instance": instance} if member:
                self.members[member] = instance or name
            case Mapping():
                for each in value.values():
                    self.learn(each)
            case list():
                for each in value:
                    self.learn(each)


class Story:
    """The events of one group, from a moment on."""

    def __init__(self, group: str, partitions: int) -> None:
        self._group = group
        self._partition = partition_of(group, partitions)
        self._offset = 0
        self._events: list[Event] = []
        self._names = Clients()

    def begin(self, address: Address) -> None:
        """Forget what has happened so far."""
        self._read(address)
        self._events = []

    def hear(self, address: Address, expected: Sequence[str], seconds: float) -> list[str]:
        """What was found for each line: the line itself where it is true. Returns when all are, and
        else when the time is up.
        """
        until = time.monotonic() + seconds
        while (found := self._found(address, expected)) != list(expected):
            if time.monotonic() > until:
                return found
            time.sleep(_PAUSE_S)
        if any(line.startswith((NO, ALL)) for line in expected):
            time.sleep(_MORE_S)
        return self._found(address, expected)

    def events(self, kind: str) -> list[Event]:
        """Those of a type, of the events that were read so far."""
        return [each for each in self._events if each.type == kind]

    def lines(self) -> list[str]:
        """All events, for whoever wonders."""
        keys = ("who", "by", "cause", "likely", "reason")
        return [
            happened.written(each.type, {name: self._told(each, name, "") for name in keys})
            for each in self._events
        ]

    def _read(self, address: Address) -> None:
        request = records_request(TOPIC, self._partition, self._offset, _ANSWER_BYTES)
        with connect(address) as client:
            answer = client.call(12, request)
        data = bytes(answer.responses[0].partitions[0].records or b"")
        for header in iter_batches(data):
            for record in decode_records(data, header):
                self._offset = record.offset + 1
                event = decode(record.key, record.value or b"")
                if event.group in (self._group, None):
                    self._events.append(event)
                    self._names.learn(event.fields)

    def _found(self, address: Address, expected: Sequence[str]) -> list[str]:
        self._read(address)
        later, found = iter(self._events), []
        for line in expected:
            word, _, rest = line.partition(" ")
            if word in (NO, ALL):
                found.append(self._against(word, rest) or line)
                continue
            kind = happened.parsed(line)[1]
            event = next((each for each in later if each.type == kind), None)
            found.append(f"{NO} {kind}" if event is None else self._line(line, event))
        return found

    def _against(self, word: str, line: str) -> str:
        """What is against a line that is about all events of its type, if anything is."""
        kind = happened.parsed(line)[1]
        lines = [self._line(line, each) for each in self._events if each.type == kind]
        return next((each for each in lines if word == NO or each != line), "")

    def _line(self, line: str, event: Event) -> str:
        _, kind, fields = happened.parsed(line)
        told = {name: self._told(event, name, text) for name, text in fields.items()}
        return happened.written(kind, told)

    def _told(self, event: Event, name: str, wanted: str) -> str:
        return happened.told(event, name, wanted, self._names)
