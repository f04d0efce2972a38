"""`groupkeeper topics create` and `groupkeeper topics delete`.

Source: Kafka's `TopicCommand` (`createTopic`, `deleteTopic`, `parseReplicaAssignment`).
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from groupkeeper.cli.cluster import FAILED, Cluster, Refused, cluster_options
from groupkeeper.cli.topics_show import matching, topic_option

if TYPE_CHECKING:
    from groupkeeper.client import Client

MOST_REPLICAS = 2**15 - 1


def _configs(_: object, __: object, words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"'{word}' is not name=value")
        found[name.strip()] = value.strip()
    return found


def _replicas(_: object, __: object, text: str | None) -> Sequence[Sequence[int]]:
    """The brokers of each partition, from "0:1,1:2"."""
    try:
        found = (
            [[int(each) for each in some.split(":")] for some in text.split(",")] if text else []
        )
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is not broker:broker,broker:broker,...") from error
    if any(len(set(each)) != len(each) for each in found):
        raise click.BadParameter("a partition has the same broker twice")
    if len({len(each) for each in found}) > 1:
        raise click.BadParameter("the partitions have different numbers of replicas")
    return found


@click.command()
@click.option("--topic", required=True, metavar="NAME", help="The new topic.")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="The broker's default.")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, MOST_REPLICAS),
    metavar="N",
    help="Replicas of each partition; the broker's default.",
)
@click.option(
    "--replica-assignment",
    "replicas",
    metavar="A:B,C:D,...",
    callback=_replicas,
    help="The brokers of each partition, in place of the two numbers.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_configs,
    help="A config of the topic; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="No error if the topic exists.")
@cluster_options
def create(
    topic: str,
    replicas: Sequence[Sequence[int]],
    configs: dict[str, str],
    if_not_exists: bool,
    cluster: Cluster,
    **numbers: int | None,
) -> int:
    """Create a topic.

    \b
      groupkeeper topics create --topic orders --partitions 6
      groupkeeper topics create --topic prices --config cleanup.policy=compact --if-not-exists
    """
    given = {name: number for name, number in numbers.items() if number is not None}
    if replicas and given:
        raise click.UsageError(
            "--replica-assignment excludes --partitions and --replication-factor"
        )
    if "." in topic or "_" in topic:
        print(
            "groupkeeper: warning: metrics do not tell '.' and '_' in topic names apart: "
            "use one of them only",
            file=sys.stderr,
        )

    async def work(client: "Client") -> None:
        from groupkeeper.client import CallFailed
        from groupkeeper.client.topics import NewTopic, create_topic
        from groupkeeper.protocol.errors import ErrorCode

        try:
            await create_topic(client, NewTopic(topic, replicas=replicas, configs=configs, **given))
        except CallFailed as failure:
            exists = failure.error is ErrorCode.TOPIC_ALREADY_EXISTS
            if exists and if_not_exists:
                return
            if exists:
                raise Refused(f"topic '{topic}' already exists") from failure
            raise Refused(f"topic '{topic}' was not created: {failure.detail}") from failure
        print(json.dumps({"created": topic}) if cluster.as_json else f"Created topic {topic}.")

    return cluster.run(work)


@click.command()
@topic_option
@click.option("--if-exists", is_flag=True, help="No error if no topic matches.")
@cluster_options
def delete(pattern: re.Pattern[str] | None, if_exists: bool, cluster: Cluster) -> int:
    """Delete topics.

    Those whose whole name matches a regex; a topic with just this name goes alone.

    \b
      groupkeeper topics delete --topic orders
      groupkeeper topics delete --topic 'test-.*'
    """
    if pattern is None:
        raise click.UsageError("Missing option '--topic'")

    async def work(client: "Client") -> int:
        from groupkeeper.client.topics import delete_topics

        found = await matching(client, pattern, exclude_internal=False)
        if not found and not if_exists:
            raise Refused(f"topic '{pattern.pattern}' does not exist")
        results = await delete_topics(client, [each.name for each in found]) if found else {}
        for name, error in results.items():
            if error:
                print(f"groupkeeper: topic '{name}' was not deleted: {error.name}", file=sys.stderr)
            elif cluster.as_json:
                print(json.dumps({"deleted": name}))
        return FAILED if any(results.values()) else 0

    return cluster.run(work)
