"""What the page docs/conformance.md says beyond titles: the KIPs, who uses them, and versions.

The page itself is written by docs/generate_conformance.py.
"""

import shlex
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from groupkeeper.protocol.registry import APIS
from tests.parity.commands import VERBS
from tests.parity.people import AGES
from tests.parity.transcript import Transcript

KIPS: Final[Mapping[str, str]] = {
    "KIP-32": "times of records, and of their append",
    "KIP-43": "SaslHandshake",
    "KIP-62": "heartbeats from a thread of their own, and a rebalance timeout",
    "KIP-88": "OffsetFetch of all partitions",
    "KIP-98": "producers whose repeated batches are stored once",
    "KIP-101": "epochs of leaders",
    "KIP-107": "DeleteRecords",
    "KIP-133": "DescribeConfigs and AlterConfigs",
    "KIP-134": "a delay before the first rebalance of an empty group",
    "KIP-140": "access control lists",
    "KIP-152": "SaslAuthenticate",
    "KIP-195": "CreatePartitions",
    "KIP-211": "offsets expire from the moment that their group is empty",
    "KIP-226": "where a configuration comes from",
    "KIP-227": "fetch sessions (which are declined)",
    "KIP-229": "DeleteGroups",
    "KIP-320": "leader epochs in commits",
    "KIP-339": "IncrementalAlterConfigs",
    "KIP-345": "static members",
    "KIP-389": "a largest size of groups",
    "KIP-394": "a member id is handed out before a member is made",
    "KIP-429": "incremental cooperative rebalancing",
    "KIP-430": "authorised operations in descriptions",
    "KIP-447": "stable offsets",
    "KIP-467": "the records because of which a batch is refused",
    "KIP-482": "tagged fields and compact lengths",
    "KIP-496": "OffsetDelete",
    "KIP-511": "names of clients in ApiVersions",
    "KIP-516": "topics by id",
    "KIP-518": "groups listed by state",
    "KIP-559": "protocol type and name in JoinGroup and SyncGroup",
    "KIP-664": "transactions are listed (there are none)",
    "KIP-595": "the quorum of the metadata (this node alone)",
    "KIP-699": "FindCoordinator for several keys",
    "KIP-709": "OffsetFetch for several groups",
    "KIP-792": "the generation in subscriptions",
    "KIP-800": "reasons in JoinGroup and LeaveGroup",
    "KIP-814": "a static leader that returns does not plan",
    "KIP-827": "sizes of logs and of their file system",
    "KIP-848": "types of groups in lists (its consumer groups are not served)",
    "KIP-932": "share coordinators are told apart (share groups are not served)",
    "KIP-937": "records too far ahead or behind are refused",
    "KIP-951": "the leader beside an error",
    "KIP-966": "DescribeTopicPartitions, page by page",
    "KIP-1043": "DescribeGroups tells unknown groups apart",
}
"""KIP -> its part that is shown, as in the table of the page."""

FEATURES: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "KIP-62": ("everybody", r"\brange\b"),
    "KIP-88": ("everybody", "(?i)offset"),
    "KIP-107": (None, "(?i)delete.?records"),
    "KIP-133": (None, "(?i)describe.?config"),
    "KIP-134": ("everybody", None),
    "KIP-195": (None, "(?i)create.?partitions|adding.?partitions|more partitions"),
    "KIP-339": (None, "(?i)incremental|alter.?config"),
    "KIP-229": ("delete groups", "(?i)delete.*group"),
    "KIP-320": (None, "TestGroupETL"),
    "KIP-345": ("static members", "[Ss]tatic"),
    "KIP-394": ("everybody", r"\brange\b"),
    "KIP-429": (None, "(?i)cooperative"),
    "KIP-496": ("delete offsets", "(?i)delete.*offset|offset.*delet"),
    "KIP-516": (None, "(?i)platformatic"),
    "KIP-518": (None, "(?i)list.*groups"),
    "KIP-559": (None, "TestGroupETL"),
    "KIP-709": (None, "(?i)batch|several groups"),
    "KIP-800": ("remove members", "(?i)remove"),
    "KIP-814": (None, "[Ss]tatic"),
}
"""Feature of client libraries that needs the KIP ("everybody": all do), and a pattern of names of
suites' tests that show it; None if nothing does. Only for the column of clients of the page.
"""


def versions_played(transcripts: list[Transcript]) -> dict[str, set[int]]:
    """By the name of an API, the versions that transcripts send."""
    found: dict[str, set[int]] = defaultdict(set)
    for transcript in transcripts:
        for run in transcript.runs():
            ages: dict[str, int] = {}
            for command in run.commands():
                for key, version in _sent(command, ages):
                    found[APIS[key].name].add(version)
    return dict(found)


def _sent(command: str, ages: dict[str, int]) -> list[tuple[int, int]]:
    """API key and version of a command; `stable` counts for JoinGroup and SyncGroup."""
    verb, *words = shlex.split(command)
    options = dict(word.split("=", 1) for word in words if "=" in word and word[0] != "{")
    if verb == "stable":
        people = [word for word in words if "=" not in word]
        keys = [VERBS["join"][0], VERBS["sync"][0]]
    elif verb in VERBS and verb != "raw":
        people = words[:1]
        key = VERBS[verb][0]
        keys = [next(k for k, api in APIS.items() if api.name == words[1]) if key < 0 else key]
    else:
        return []
    sent = []
    for who in people:
        name, _, age = who.partition("/")[0].partition("@")
        if age:
            ages[name] = int(age)
        for key in keys:
            newest = AGES[key][ages[name]] if name in ages and key in AGES else APIS[key].served[1]
            sent.append((key, int(options.get("v", newest)) if verb != "stable" else newest))
    return sent
