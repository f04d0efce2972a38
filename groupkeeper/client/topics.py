"""Topics of a cluster: described with their configs, created and deleted.

Source: Kafka's admin client (`describeTopics`, `describeConfigs`, `createTopics`, `deleteTopics`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.coordinators import chunks
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest

TOPICS_PER_REQUEST: Final = 200
"""Topics in one DescribeConfigs, whose answer has some forty configs of each."""
Configs = dict[str, tuple[str, bool]]
"""By name: the value, and whether it is the default."""
DEFAULT: Final = -1
"""Partitions or replicas as the broker's settings say."""


@dataclass(slots=True, frozen=True)
class NewTopic:
    """A topic to create. The brokers of each partition, `replicas`, replace both numbers."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    replicas: Sequence[Sequence[int]] = ()
    configs: Mapping[str, str] | None = None


async def topic_configs(client: Client, names: Sequence[str]) -> dict[str, Configs]:
    """The configs of each topic: value, and whether it is the default. Raises CallFailed."""
    found: dict[str, Configs] = {}
    for some in chunks(names, TOPICS_PER_REQUEST):
        resources = [
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=None
            )
            for name in some
        ]
        answer = await client.call(DescribeConfigsRequest(resources=resources))
        for each in answer.results:
            if each.error_code:
                code = ErrorCode(each.error_code)
                raise CallFailed("DescribeConfigs", None, code, each.error_message or "")
            found[each.resource_name] = {
                config.name: (config.value or "", _is_default(config)) for config in each.configs
            }
    return found


def _is_default(config: Any) -> bool:
    return bool(config.is_default or config.config_source == ConfigSource.DEFAULT)


async def create_topic(client: Client, topic: NewTopic) -> None:
    """Raises CallFailed with what the broker says."""
    replicas = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=[*brokers])
        for number, brokers in enumerate(topic.replicas)
    ]
    configs = [
        CreatableTopicConfig(name=name, value=value)
        for name, value in (topic.configs or {}).items()
    ]
    wanted = CreatableTopic(
        name=topic.name,
        num_partitions=DEFAULT if replicas else topic.partitions,
        replication_factor=DEFAULT if replicas else topic.replication_factor,
        assignments=replicas,
        configs=configs,
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=round(client.timeout_s * 1000))
    [result] = (await client.call(request, node=await _controller(client))).topics
    if result.error_code:
        code = ErrorCode(result.error_code)
        raise CallFailed("CreateTopics", None, code, result.error_message or "")


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, ErrorCode]:
    """The result for each topic."""
    request = DeleteTopicsRequest(topic_names=[*names], timeout_ms=round(client.timeout_s * 1000))
    answer = await client.call(request, node=await _controller(client))
    return {each.name: ErrorCode(each.error_code) for each in answer.responses}


async def _controller(client: Client) -> int | None:
    """The node for changes; any of them where brokers pass them on (KRaft)."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    controller: int = (await client.call(request)).controller_id
    return None if controller < 0 else controller
