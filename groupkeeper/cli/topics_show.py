"""`groupkeeper topics list` and `groupkeeper topics describe`.

Source: Kafka's `TopicCommand` (`TopicDescription`, `PartitionDescription`, `IncludeList`).
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from groupkeeper.cli.cluster import Cluster, Refused, cluster_options, with_options

if TYPE_CHECKING:
    from groupkeeper.client import Client

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__group_events")
"""As Kafka's tools know them, whatever the broker says (`Topic.INTERNAL_TOPICS`), and ours."""
NO_TOPIC = (3, 17)
"""UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
MIN_ISR = "min.insync.replicas"
ONLY = {
    "under_replicated_partitions": "Only partitions with replicas that are not in sync.",
    "under_min_isr_partitions": "Only partitions with fewer replicas in sync than configured.",
    "at_min_isr_partitions": "Only partitions with just as many replicas in sync as configured.",
    "unavailable_partitions": "Only partitions without a leader.",
}
Configs = Mapping[str, tuple[str, bool]]


def _compiled(_: object, __: object, value: str | None) -> re.Pattern[str] | None:
    """A regex, in which commas separate alternatives, as in Kafka."""
    try:
        return None if value is None else re.compile(value.replace(",", "|").strip("\"' "))
    except re.error as error:
        raise click.BadParameter(f"{error} in '{value}'") from error


topic_option = click.option(
    "--topic",
    "pattern",
    metavar="REGEX",
    callback=_compiled,
    help="Topics whose whole name matches.",
)
internal_option = click.option("--exclude-internal", is_flag=True, help="Without internal topics.")


async def matching(
    client: "Client", pattern: re.Pattern[str] | None, *, exclude_internal: bool
) -> Sequence[Any]:
    """The topics, as Metadata describes them, that match; a topic with just this name is the only
    one.
    """
    from groupkeeper.client.partitions import describe_topics

    is_name = pattern is not None and re.fullmatch(r"[\w-]+", pattern.pattern)
    names = [pattern.pattern] if is_name and pattern else None
    found = [
        each
        for each in await describe_topics(client, names)
        if not (each.error_code in NO_TOPIC or (exclude_internal and each.name in INTERNAL))
    ]
    if pattern is None:
        return found
    same = [each for each in found if each.name == pattern.pattern]
    return same or [each for each in found if pattern.fullmatch(each.name)]


@click.command(name="list")
@topic_option
@internal_option
@cluster_options
def list(  # noqa: A001 the command is called so
    pattern: re.Pattern[str] | None, exclude_internal: bool, cluster: Cluster
) -> int:
    """List topics by name.

    \b
      groupkeeper topics list
      groupkeeper topics list --topic 'order.*' --exclude-internal
    """

    async def work(client: "Client") -> None:
        for each in await matching(client, pattern, exclude_internal=exclude_internal):
            print(json.dumps({"topic": each.name}) if cluster.as_json else each.name)

    return cluster.run(work)


def _only_options(function: Any) -> Any:
    options = (
        click.option(f"--{name.replace('_', '-')}", name, is_flag=True, help=text)
        for name, text in ONLY.items()
    )
    return with_options(function, *options)


@click.command()
@topic_option
@internal_option
@_only_options
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with configs, only these.")
@click.option("--if-exists", is_flag=True, help="No error if no topic matches.")
@cluster_options
def describe(
    pattern: re.Pattern[str] | None,
    exclude_internal: bool,
    topics_with_overrides: bool,
    if_exists: bool,
    cluster: Cluster,
    **given: bool,
) -> int:
    """Show configs, leaders and replicas.

    \b
      groupkeeper topics describe --topic orders
      groupkeeper topics describe --unavailable-partitions
    """
    only = [name for name, is_given in given.items() if is_given]
    if only and topics_with_overrides:
        raise click.UsageError("--topics-with-overrides shows no partitions")

    async def work(client: "Client") -> None:
        from groupkeeper.client.topics import topic_configs

        topics = await matching(client, pattern, exclude_internal=exclude_internal)
        if pattern is not None and not (topics or if_exists):
            raise Refused(f"topic '{pattern.pattern}' does not exist")
        configs = await topic_configs(client, [each.name for each in topics])
        for topic in topics:
            own = configs[topic.name]
            overrides = {name: value for name, (value, is_default) in own.items() if not is_default}
            if topics_with_overrides and not overrides:
                continue
            partitions = [each for each in _by_number(topic) if _is_wanted(each, own, only)]
            shown = [] if topics_with_overrides else partitions
            if cluster.as_json:
                _show_json(topic, overrides, shown, has_head=not only)
            else:
                _show(topic, overrides, shown, has_head=not only)

    return cluster.run(work)


def _by_number(topic: Any) -> Sequence[Any]:
    return sorted(topic.partitions, key=lambda each: each.partition_index)


def _is_wanted(partition: Any, configs: Configs, only: Sequence[str]) -> bool:
    """Whether one of the conditions holds, or there are none."""
    in_sync = len(partition.isr_nodes)
    least = int(configs.get(MIN_ISR, ("1", True))[0])
    holds = {
        "under_replicated_partitions": in_sync < len(partition.replica_nodes),
        "under_min_isr_partitions": partition.leader_id < 0 or in_sync < least,
        "at_min_isr_partitions": in_sync == least,
        "unavailable_partitions": partition.leader_id < 0,
    }
    return not only or any(holds[each] for each in only)


def _show(
    topic: Any, overrides: Mapping[str, str], partitions: Sequence[Any], *, has_head: bool
) -> None:
    if has_head:
        words = {
            "Topic": topic.name,
            "TopicId": _id(topic),
            "PartitionCount": len(topic.partitions),
            "ReplicationFactor": _replication_factor(topic),
            "Configs": ",".join(f"{name}={value}" for name, value in overrides.items()),
        }
        print("\t".join(f"{name}: {value}" for name, value in words.items()))
    for each in partitions:
        words = {
            "Topic": topic.name,
            "Partition": each.partition_index,
            "Leader": "none" if each.leader_id < 0 else each.leader_id,
            "Replicas": ",".join(map(str, each.replica_nodes)),
            "Isr": ",".join(map(str, each.isr_nodes)),
        }
        print("".join(f"\t{name}: {value}" for name, value in words.items()))


def _show_json(
    topic: Any, overrides: Mapping[str, str], partitions: Sequence[Any], *, has_head: bool
) -> None:
    """One object for a topic; none if no partition of it is wanted."""
    if not (has_head or partitions):
        return
    found = {
        "topic": topic.name,
        "topic_id": _id(topic),
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": overrides,
        "partitions": [
            {
                "partition": each.partition_index,
                "leader": None if each.leader_id < 0 else each.leader_id,
                "replicas": each.replica_nodes,
                "isr": each.isr_nodes,
            }
            for each in partitions
        ],
    }
    print(json.dumps(found, ensure_ascii=False))


def _replication_factor(topic: Any) -> int:
    return len(topic.partitions[0].replica_nodes) if topic.partitions else 0


def _id(topic: Any) -> str:
    """As Kafka writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(bytes(topic.topic_id)).decode().rstrip("=")
