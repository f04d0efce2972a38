"""Topics and partitions as they are written in options: "orders", "orders:0,1"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from groupkeeper.cli.cluster import Refused

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import Partition
    from groupkeeper.protocol.errors import ErrorCode


def parse(word: str) -> tuple[str, list[int] | None]:
    """The topic and its partitions, None for all of them. Raises click.BadParameter."""
    topic, colon, numbers = word.partition(":")
    if not colon:
        return topic, None
    try:
        partitions = [int(each) for each in numbers.split(",")]
    except ValueError:
        partitions = [-1]
    if not topic or min(partitions) < 0:
        told = f"'{word}' is not a topic with partitions, as in orders:0,1"
        raise click.BadParameter(told, param_hint="--topic")
    return topic, partitions


async def partitions_of(
    client: "Client", words: Sequence[str]
) -> "tuple[list[Partition], dict[str, ErrorCode]]":
    """The partitions that are meant, in order, and topics that cannot be had, with their errors.
    Partitions that are named are not looked up.
    """
    from groupkeeper.client.partitions import describe_topics
    from groupkeeper.protocol.errors import ErrorCode

    parsed = [parse(each) for each in words]
    found = {(topic, each) for topic, some in parsed for each in some or ()}
    missing: dict[str, ErrorCode] = {}
    for topic in await describe_topics(client, [name for name, some in parsed if some is None]):
        if topic.error_code:
            missing[topic.name] = ErrorCode(topic.error_code)
        found |= {(topic.name, each.partition_index) for each in topic.partitions}
    return sorted(found), missing


async def existing_partitions(client: "Client", words: Sequence[str]) -> "list[Partition]":
    """The partitions that are meant, in order. Raises Refused if a topic cannot be had."""
    from groupkeeper.protocol.errors import ErrorCode

    found, missing = await partitions_of(client, words)
    for topic, error in missing.items():
        is_gone = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(f"topic '{topic}' {'does not exist' if is_gone else error.name}")
    return found
