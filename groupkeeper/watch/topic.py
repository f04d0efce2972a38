"""The topic `__consumer_offsets` in the metadata of a cluster."""

from dataclasses import dataclass
from typing import Final

from groupkeeper.client import CallFailed, Client
from groupkeeper.client.partitions import describe_topics
from groupkeeper.protocol.errors import ErrorCode

UNTOLD_ID: Final = bytes(16).hex()
"""Id of a topic in answers of brokers before Kafka 2.8, which have none."""


class TopicChanged(Exception):
    """The topic has another number of partitions now; the message is one line."""


class NoRight(Exception):
    """A right on the topic is missing; the message is one line."""

    def __init__(self, topic: str, operation: str) -> None:
        """`operation`: what is denied, READ or DESCRIBE, which READ includes."""
        super().__init__(
            f"the cluster denies this user {operation} on the topic {topic}: grant READ on the "
            f"topic {topic}, and DESCRIBE on groups for `groupkeeper why` and `groupkeeper groups`"
        )


@dataclass(slots=True, frozen=True)
class TopicSeen:
    """The topic in the metadata of the cluster."""

    topic_id: str
    """In hex; `UNTOLD_ID` if the cluster does not tell."""
    leaders: dict[int, int]
    """Node id of the leader by partition, of those that have one."""
    partitions: int


def is_other(known: str, seen: str) -> bool:
    """Return whether two ids are of different topics, as far as they are told."""
    untold = "", UNTOLD_ID
    return known != seen and known not in untold and seen not in untold


async def look(client: Client, topic: str) -> TopicSeen:
    """Look the topic up. Raises CallFailed and NoRight."""
    [row] = await describe_topics(client, [topic])
    if row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise NoRight(topic, "DESCRIBE")
    if row.error_code:
        code = ErrorCode(row.error_code)
        raise CallFailed("Metadata", None, code, f"topic {topic}")
    leaders = {each.partition_index: each.leader_id for each in row.partitions}
    known = {partition: node for partition, node in leaders.items() if node >= 0}
    return TopicSeen(bytes(row.topic_id).hex(), known, len(leaders))
