"""What Kafka's command line tools are asked, and what they must say: data, nothing runs here.

The order matters: a check finds what those before it left behind. What a tool says is compared as
regular expressions, each of which is found somewhere in its output; columns are a run of spaces.
"""

import re
from dataclasses import dataclass

GROUPS = "kafka-consumer-groups"
# The main classes behind the scripts of Kafka's distribution.
CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    GROUPS: "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
LETTERS, SHARED = "letters", "shared"
"""A topic with one partition and twenty records, and one with four partitions and none."""
RECORDS = 20
READERS = "readers"


@dataclass(slots=True, frozen=True)
class Check:
    """One invocation of a tool. The address of the broker is added to its words."""

    name: str
    tool: str
    words: str
    says: tuple[str, ...]

    def unsaid(self, output: str) -> list[str]:
        """The expressions that are not found in an output."""
        return [each for each in self.says if not re.search(each, output, re.MULTILINE)]


def _groups(name: str, words: str, *says: str) -> Check:
    return Check(f"{GROUPS}: {name}", GROUPS, words, says)


def _silent_about(words: str) -> str:
    """An output in which these words are not."""
    return rf"\A(?![\s\S]*{words})"


def _row(*columns: object) -> str:
    """A line of a table that begins with these columns."""
    return "^" + r"\s+".join(str(column) for column in columns) + r"\b"


TOPICS = (
    Check(
        "kafka-topics: create",
        "kafka-topics",
        f"--create --topic {LETTERS} --partitions 1",
        (f"^Created topic {LETTERS}",),
    ),
    Check(
        "kafka-topics: create with three partitions",
        "kafka-topics",
        f"--create --topic {SHARED} --partitions 3",
        (f"^Created topic {SHARED}",),
    ),
    Check(
        "kafka-topics: add a partition",
        "kafka-topics",
        f"--alter --topic {SHARED} --partitions 4",
        (_silent_about("Error"),),
    ),
    Check(
        "kafka-topics: describe",
        "kafka-topics",
        f"--describe --topic {SHARED}",
        (r"PartitionCount: 4\s+ReplicationFactor: 1", r"Partition: 3\s+Leader: 0\s+Replicas: 0"),
    ),
    Check(
        "kafka-configs: describe a topic",
        "kafka-configs",
        f"--describe --entity-type topics --entity-name {SHARED} --all",
        (r"cleanup\.policy=delete",),
    ),
    Check(
        "kafka-verifiable-producer: twenty records",
        "kafka-verifiable-producer",
        f"--topic {LETTERS} --max-messages {RECORDS}",
        (f'"sent":{RECORDS},"acked":{RECORDS},',),
    ),
    Check(
        "kafka-get-offsets: the end of a topic",
        "kafka-get-offsets",
        f"--topic {LETTERS}",
        (f"^{LETTERS}:0:{RECORDS}$",),
    ),
)


def reading(name: str, first: int) -> Check:
    """A consumer that reads on from an offset to the end, commits and leaves."""
    return Check(
        f"kafka-verifiable-consumer: {name}",
        "kafka-verifiable-consumer",
        f"--topic {LETTERS} --group-id {READERS} --max-messages {RECORDS - first}",
        (
            rf'"name":"partitions_assigned","partitions":\[{{"topic":"{LETTERS}","partition":0}}\]',
            rf'"count":\d+,"minOffset":{first},',
            rf'"maxOffset":{RECORDS - 1}}}',
            rf'"offset":{RECORDS}}}\],"success":true',
            '"name":"shutdown_complete"',
        ),
    )


EMPTY_GROUP = (
    _groups(
        "describe a group without members",
        f"--describe --group {READERS}",
        f"^Consumer group '{READERS}' has no active members",
        _row(READERS, LETTERS, 0, RECORDS, RECORDS, 0),
    ),
    _groups(
        "reset offsets to the earliest, as a dry run",
        f"--reset-offsets --group {READERS} --topic {LETTERS} --to-earliest --dry-run",
        _row(READERS, LETTERS, 0, 0),
    ),
    _groups(
        "reset offsets to an offset",
        f"--reset-offsets --group {READERS} --topic {LETTERS} --to-offset 5 --execute",
        _row(READERS, LETTERS, 0, 5),
    ),
    # 8 = 5 + 3: the reset was stored, and the dry run was not
    _groups(
        "reset offsets by a shift",
        f"--reset-offsets --group {READERS} --all-topics --shift-by 3 --execute",
        _row(READERS, LETTERS, 0, 8),
    ),
    reading("reads on where a reset has put it", 8),
)


def of_two_members(group: str) -> tuple[Check, ...]:
    """About a group of two dynamic members that share the four partitions by range."""
    member = (group, rf"consumer-{group}-\S+", "/127.0.0.1", rf"consumer-{group}\S+", 2, "-")
    return (
        _groups(
            "describe members and their assignments",
            f"--describe --group {group} --members --verbose",
            _row(*member, f"{SHARED}:0,1"),
            _row(*member, f"{SHARED}:2,3"),
        ),
        _groups(
            "describe the state of a group",
            f"--describe --group {group} --state",
            _row(group, r"\S+:\d+", r"\(0\)", "range", "Stable", 2),
        ),
        _groups(
            "list groups with their states",
            "--list --state",
            _row(group, "Stable"),
            _row(READERS, "Empty"),
        ),
        _groups(
            "list groups in one state",
            "--list --state stable",
            _row(group, "Stable"),
            _silent_about(READERS),
        ),
        _groups(
            "a group with members is not deleted",
            f"--delete --group {group}",
            f"Group '{group}' could not be deleted due to: .*GroupNotEmptyException",
        ),
        _groups(
            "offsets of a group with members are not reset",
            f"--reset-offsets --group {group} --topic {SHARED} --to-earliest --execute",
            f"only be reset if the group '{group}' is inactive, but the current state is Stable",
        ),
        _groups(
            "offsets of a subscribed topic are not deleted",
            f"--delete-offsets --group {group} --topic {SHARED}",
            rf"^{SHARED}\s+3\s+Error: .*GroupSubscribedToTopicException",
        ),
    )


def of_static_members(group: str) -> tuple[Check, ...]:
    """About a group of two static members, `a` and `b`."""
    return (
        _groups(
            "describe static members",
            f"--describe --group {group} --members",
            _row(group, r"a-\S+", "a", "/127.0.0.1"),
            _row(group, r"b-\S+", "b", "/127.0.0.1"),
        ),
    )


ENDS = (
    _groups(
        "delete offsets",
        f"--delete-offsets --group {READERS} --topic {LETTERS}",
        "^Request succeeded for deleting offsets",
        _row(LETTERS, 0, "Successful"),
    ),
    _groups(
        "delete a group",
        f"--delete --group {READERS}",
        rf"^Deletion of requested consumer groups \('{READERS}'\) was successful",
    ),
    _groups(
        "describe a group that is not there",
        "--describe --group nobody",
        "GroupIdNotFoundException: Group nobody not found",
    ),
    _groups(
        "delete a group that is not there",
        "--delete --group nobody",
        "Group 'nobody' could not be deleted due to: .*GroupIdNotFoundException",
    ),
)
_OF_READERS = rf'key: {{"type":"2","data":{{"group":"{READERS}"}}}} payload: '
_OFFSET = rf'key: {{"type":"1","data":{{"group":"{READERS}","topic":"{LETTERS}","partition":0}}}} '
LOG = Check(
    "kafka-dump-log: the log of a group, read with its offsets decoder",
    "kafka-dump-log",
    "--offsets-decoder",
    (
        _OFFSET + rf'payload: {{"version":"\d+","data":{{"offset":{RECORDS},',
        _OF_READERS + r'.*"protocol":"range"',
        _OF_READERS + r'.*"members":\[\]',
        _OF_READERS + "(<DELETE>|null)",
    ),
)
