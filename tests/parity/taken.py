"""Makes a transcript for this folder of what a test broker has written down (`Broker.transcript`).

    python -m tests.parity.taken conversation.txt "A title" >> tests/parity/transcripts/FILE.txt

Requests about groups become commands, in their order; others are counted in a comment. Answers are
not taken: `make parity ARGS="--record FILE"` writes those of Apache Kafka. Time that passed is not
either: put `> wait` where it matters.
"""

import ast
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.parity.people import SHARED_TOPICS

_TIME = re.compile(r" *\d+\.\d{3}  |^ {10}(?= )")
_HEAD = re.compile(r"(\S+) (->|<-) (\w+)(?: v(\d+))?(?::(?: (.*))?)?")
_FIELD = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|\[[^\]]*\]|<[^>]*>|\S+)")
_TIMES = re.compile(r" \(\d+ times[^)]*\)$")


@dataclass(slots=True)
class Said:
    """A request, or an answer."""

    who: str
    is_request: bool
    api: str
    version: int
    fields: dict[str, str]
    elements: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    """Depth, name and fields of the elements of arrays."""

    def of(self, name: str) -> list[dict[str, str]]:
        return [fields for _, each, fields in self.elements if each == name]

    def places(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The fields of each partition, with the name of its topic."""
        topic = ""
        for _, name, fields in self.elements:
            if name == "topics":
                topic = fields.get("name", "")
            elif name == "partitions":
                yield topic, fields


@dataclass(slots=True)
class _Known:
    """What a client knows: what a command sends unless it says otherwise."""

    member_id: str = ""
    generation: str = "-1"


def read(text: str) -> Iterator[Said]:
    """What was said, in its order."""
    said: Said | None = None
    for written in text.splitlines():
        line = _TIMES.sub("", _TIME.sub("", written, count=1))
        head = _HEAD.fullmatch(line)
        if head is not None:
            if said is not None:
                yield said
            who, arrow, api, version, rest = head.groups()
            said = Said(who, arrow == "->", api, int(version or 0), _fields(rest or ""))
        elif said is not None and line.startswith("  "):
            name, _, rest = line.strip().partition(": ")
            depth = (len(line) - len(line.lstrip())) // 2
            said.elements.append((depth, name, _fields(rest)))
    if said is not None:
        yield said


def _fields(text: str) -> dict[str, str]:
    return {name: _plain(value) for name, value in _FIELD.findall(text)}


def _plain(value: str) -> str:
    return str(ast.literal_eval(value)) if value.startswith("'") else value


def taken(text: str, title: str) -> str:
    """A transcript of parity, without answers."""
    known: dict[str, _Known] = {}
    commands: list[str] = []
    others: Counter[str] = Counter()
    topics: dict[str, int] = {}
    for said in read(text):
        person = said.who.partition("/")[0]
        knows = known.setdefault(person, _Known())
        if not said.is_request:
            _learn(knows, said)
        elif said.api in _COMMANDS:
            verb, make = _COMMANDS[said.api]
            for topic, fields in said.places():
                count = int(fields.get("partition_index", 0)) + 1
                topics[topic] = max(topics.get(topic, 0), count)
            options = {"v": str(said.version), "client": person, **make(said, knows)}
            words = [f"{name}={shlex.quote(value)}" for name, value in options.items() if value]
            commands.append(" ".join([f"> {verb}", said.who.lower(), *words]))
        else:
            others[said.api] += 1
    others_told = ", ".join(f"{count} {api}" for api, count in others.items())
    head = [f"== {title}", *([f"# Not taken: {others_told}."] if others else [])]
    mine = [(name, count) for name, count in topics.items() if name not in SHARED_TOPICS]
    return "\n".join(head) + "\n" + "\n\n".join([*(_create(*each) for each in mine), *commands])


def _create(name: str, partitions: int) -> str:
    topic = f'{{"name": "@{name}", "num_partitions": {partitions}, "replication_factor": 1}}'
    return f'> send op CreateTopics \'{{"topics": [{topic}], "timeout_ms": 9000}}\''


def _learn(knows: _Known, answer: Said) -> None:
    if answer.api == "JoinGroup" and "member_id" in answer.fields:
        knows.member_id = answer.fields["member_id"]
        knows.generation = answer.fields.get("generation_id", "-1")


# -- the options of a command ----------------------------------------------------------------------

Options = dict[str, str]


def _own_ids(said: Said, knows: _Known, generation: str = "generation_id") -> Options:
    """What the client says of itself, where it is not what it would say."""
    fields, options = said.fields, {"group": said.fields.get("group_id", "''")}
    if fields.get("member_id", "") != knows.member_id:
        options["member"] = fields.get("member_id", "''")
    if generation in fields and fields[generation] != knows.generation:
        options["generation"] = fields[generation]
    return options | {"instance": fields.get("group_instance_id", "null")}


def _join(said: Said, knows: _Known) -> Options:
    fields = said.fields
    protocols = [
        f"{each['name']}:{_topics(each.get('metadata', ''))}" for each in said.of("protocols")
    ]
    return {
        **_own_ids(said, knows),
        "session": f"{fields['session_timeout_ms']}ms",
        "rebalance": f"{fields.get('rebalance_timeout_ms', fields['session_timeout_ms'])}ms",
        "type": fields.get("protocol_type", "''"),
        "protocols": ",".join(protocols),
        "reason": fields.get("reason", ""),
    }


def _topics(metadata: str) -> str:
    return metadata.strip("<>") if metadata.startswith("<") else metadata


def _sync(said: Said, knows: _Known) -> Options:
    fields = said.fields
    name = fields.get("protocol_name", "")
    plan = "" if said.of("assignments") else "none"
    return {**_own_ids(said, knows), "name": name, "plan": plan}


def _leave(said: Said, knows: _Known) -> Options:
    if said.version < 3:
        return {k: v for k, v in _own_ids(said, knows).items() if k != "instance"}
    members = said.of("members")
    entries = [_entry(each) for each in members]
    reason = next((each["reason"] for each in members if "reason" in each), "")
    group = said.fields.get("group_id", "''")
    return {"group": group, "entries": ",".join(entries), "reason": reason}


def _entry(fields: dict[str, str]) -> str:
    instance = fields.get("group_instance_id", "null")
    return fields.get("member_id", "") + ("" if instance == "null" else f":{instance}")


def _commit(said: Said, knows: _Known) -> Options:
    offsets = {
        f"{topic}-{fields.get('partition_index', 0)}": fields.get("committed_offset", "0")
        for topic, fields in said.places()
    }
    return {**_own_ids(said, knows, "generation_id_or_member_epoch"), **offsets}


def _fetch(said: Said, knows: _Known) -> Options:
    groups = [said.fields.get("group_id", "")] if said.version < 8 else []
    groups += [each.get("group_id", "") for each in said.of("groups")]
    places = [
        f"{fields['name']}-{number}"
        for fields in said.of("topics")
        for number in ast.literal_eval(fields.get("partition_indexes", "[]"))
    ]
    stable = "yes" if said.fields.get("require_stable") == "True" else ""
    return {"groups": ",".join(groups), "topics": ",".join(places) or "all", "stable": stable}


def _heartbeat(said: Said, knows: _Known) -> Options:
    return _own_ids(said, knows)


_COMMANDS: dict[str, tuple[str, Callable[[Said, _Known], Options]]] = {
    "JoinGroup": ("join", _join),
    "SyncGroup": ("sync", _sync),
    "Heartbeat": ("heartbeat", _heartbeat),
    "LeaveGroup": ("leave", _leave),
    "OffsetCommit": ("commit", _commit),
    "OffsetFetch": ("fetch", _fetch),
}


if __name__ == "__main__":
    print(taken(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2]))
