"""What Kafka's command line tools are asked, and what they must say: data, nothing runs here.

The order matters: a check finds what those before it left behind. What a tool says is compared as
regular expressions, each of which is found somewhere in its output; columns are a run of spaces.
"""

import re
from dataclasses import dataclass

GROUPS = "kafka-consumer-groups"
# The main classes behind the scripts of Kafka's distribution.
CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    GROUPS: "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
RECORDS = 20


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


class Checks:
    """The checks of one run, whose names of topics and groups nobody else uses."""

    def __init__(self, run: str = "") -> None:
        """`run` is added to every name."""
        self.letters = f"letters{run}"
        self.shared = f"shared{run}"
        self.readers = f"readers{run}"

    def topics(self) -> tuple[Check, ...]:
        """Make the topics, and put the records into one of them."""
        return (
            Check(
                "kafka-topics: create",
                "kafka-topics",
                f"--create --topic {self.letters} --partitions 1",
                (f"^Created topic {self.letters}",),
            ),
            Check(
                "kafka-topics: create with three partitions",
                "kafka-topics",
                f"--create --topic {self.shared} --partitions 3",
                (f"^Created topic {self.shared}",),
            ),
            Check(
                "kafka-topics: add a partition",
                "kafka-topics",
                f"--alter --topic {self.shared} --partitions 4",
                (_silent_about("Error"),),
            ),
            Check(
                "kafka-topics: describe",
                "kafka-topics",
                f"--describe --topic {self.shared}",
                (
                    r"PartitionCount: 4\s+ReplicationFactor: 1",
                    r"Partition: 3\s+Leader: 0\s+Replicas: 0",
                ),
            ),
            Check(
                "kafka-configs: describe a topic",
                "kafka-configs",
                f"--describe --entity-type topics --entity-name {self.shared} --all",
                (r"cleanup\.policy=delete",),
            ),
            Check(
                "kafka-configs: set a config of a group",
                "kafka-configs",
                f"--alter --entity-type groups --entity-name {self.readers} "
                "--add-config consumer.session.timeout.ms=50000",
                (rf"Completed updating config for group {self.readers}\.",),
            ),
            Check(
                "kafka-configs: describe a group",
                "kafka-configs",
                f"--describe --entity-type groups --entity-name {self.readers}",
                (r"consumer\.session\.timeout\.ms=50000 .*DYNAMIC_GROUP_CONFIG",),
            ),
            Check(
                "kafka-configs: a config that no group has",
                "kafka-configs",
                f"--alter --entity-type groups --entity-name {self.readers} --add-config x=1",
                (r"Unknown group config name: x",),
            ),
            Check(
                "kafka-verifiable-producer: twenty records",
                "kafka-verifiable-producer",
                f"--topic {self.letters} --max-messages {RECORDS}",
                (f'"sent":{RECORDS},"acked":{RECORDS},',),
            ),
            Check(
                "kafka-get-offsets: the end of a topic",
                "kafka-get-offsets",
                f"--topic {self.letters}",
                (f"^{self.letters}:0:{RECORDS}$",),
            ),
        )

    def reading(self, name: str, first: int) -> Check:
        """A consumer that reads on from an offset to the end, commits and leaves."""
        return Check(
            f"kafka-verifiable-consumer: {name}",
            "kafka-verifiable-consumer",
            f"--topic {self.letters} --group-id {self.readers} --max-messages {RECORDS - first}",
            (
                rf'"name":"partitions_assigned","partitions":\[{{"topic":"{self.letters}","partition":0}}\]',
                rf'"count":\d+,"minOffset":{first},',
                rf'"maxOffset":{RECORDS - 1}}}',
                rf'"offset":{RECORDS}}}\],"success":true',
                '"name":"shutdown_complete"',
            ),
        )

    def empty_group(self) -> tuple[Check, ...]:
        """Look at the group once its reader has left, and move its offsets."""
        reset = f"--reset-offsets --group {self.readers}"
        return (
            _groups(
                "describe a group without members",
                f"--describe --group {self.readers}",
                f"^Consumer group '{self.readers}' has no active members",
                _row(self.readers, self.letters, 0, RECORDS, RECORDS, 0),
            ),
            _groups(
                "reset offsets to the earliest, as a dry run",
                f"{reset} --topic {self.letters} --to-earliest --dry-run",
                _row(self.readers, self.letters, 0, 0),
            ),
            _groups(
                "reset offsets to an offset",
                f"{reset} --topic {self.letters} --to-offset 5 --execute",
                _row(self.readers, self.letters, 0, 5),
            ),
            # 8 = 5 + 3: the reset was stored, and the dry run was not
            _groups(
                "reset offsets by a shift",
                f"{reset} --all-topics --shift-by 3 --execute",
                _row(self.readers, self.letters, 0, 8),
            ),
            self.reading("reads on where a reset has put it", 8),
        )

    def of_two_members(self, group: str) -> tuple[Check, ...]:
        """About a group of two dynamic members that share the four partitions by range."""
        member = (group, rf"consumer-{group}-\S+", "/127.0.0.1", rf"consumer-{group}\S+", 2, "-")
        return (
            _groups(
                "describe members and their assignments",
                f"--describe --group {group} --members --verbose",
                _row(*member, f"{self.shared}:0,1"),
                _row(*member, f"{self.shared}:2,3"),
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
                _row(self.readers, "Empty"),
            ),
            _groups(
                "list groups in one state",
                "--list --state stable",
                _row(group, "Stable"),
                _silent_about(self.readers),
            ),
            _groups(
                "a group with members is not deleted",
                f"--delete --group {group}",
                f"Group '{group}' could not be deleted due to: .*GroupNotEmptyException",
            ),
            _groups(
                "offsets of a group with members are not reset",
                f"--reset-offsets --group {group} --topic {self.shared} --to-earliest --execute",
                f"the group '{group}' is inactive, but the current state is Stable",
            ),
            _groups(
                "offsets of a subscribed topic are not deleted",
                f"--delete-offsets --group {group} --topic {self.shared}",
                rf"^{self.shared}\s+3\s+Error: .*GroupSubscribedToTopicException",
            ),
        )

    def of_static_members(self, group: str) -> tuple[Check, ...]:
        """About a group of two static members, `a` and `b`."""
        return (
            _groups(
                "describe static members",
                f"--describe --group {group} --members",
                _row(group, r"a-\S+", "a", "/127.0.0.1"),
                _row(group, r"b-\S+", "b", "/127.0.0.1"),
            ),
        )

    def ends(self) -> tuple[Check, ...]:
        """Delete, and ask for what is not there."""
        return (
            _groups(
                "delete offsets",
                f"--delete-offsets --group {self.readers} --topic {self.letters}",
                "^Request succeeded for deleting offsets",
                _row(self.letters, 0, "Successful"),
            ),
            _groups(
                "delete a group",
                f"--delete --group {self.readers}",
                rf"^Deletion of requested consumer groups \('{self.readers}'\) was successful",
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

    def log(self) -> Check:
        """Read what the group has left in its log."""
        of_readers = rf'key: {{"type":"2","data":{{"group":"{self.readers}"}}}} payload: '
        place = f'"group":"{self.readers}","topic":"{self.letters}","partition":0'
        return Check(
            "kafka-dump-log: the log of a group, read with its offsets decoder",
            "kafka-dump-log",
            "--offsets-decoder",
            (
                rf'key: {{"type":"1","data":{{{place}}}}} payload: .*"data":{{"offset":{RECORDS},',
                of_readers + r'.*"protocol":"range"',
                of_readers + r'.*"members":\[\]',
                of_readers + "(<DELETE>|null)",
            ),
        )
