"""Describes and changes the configs of groups (resource type GROUP, since Kafka 4.0)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from groupkeeper.client.client import Client
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)


class GroupConfigValue(NamedTuple):
    """A config of a group in effect."""

    name: str
    value: str
    is_set: bool
    """Set for the group itself; else a default."""


class Failure(NamedTuple):
    """Why the configs of a group could not be described or changed."""

    error: ErrorCode
    message: str

    def __str__(self) -> str:
        return self.message or self.error.name


async def describe_configs(
    client: Client, group_ids: Sequence[str], names: Sequence[str] | None = None
) -> dict[str, list[GroupConfigValue] | Failure]:
    """Return the configs of each group, also of groups that do not exist: those with some names, or
    all. Raises CallFailed.
    """
    keys = None if names is None else [*names]
    asked = [
        DescribeConfigsResource(
            resource_type=ResourceType.GROUP, resource_name=each, configuration_keys=keys
        )
        for each in group_ids
    ]
    answer = await client.call(DescribeConfigsRequest(resources=asked))
    return {
        each.resource_name: Failure(ErrorCode(each.error_code), each.error_message or "")
        if each.error_code
        else [
            GroupConfigValue(
                config.name, config.value or "", config.config_source == ConfigSource.DYNAMIC_GROUP
            )
            for config in each.configs
        ]
        for each in answer.results
    }


async def alter_configs(
    client: Client, group_ids: Sequence[str], changes: Mapping[str, str | None]
) -> dict[str, Failure]:
    """Set configs of groups, or unset those whose value is None. Returns the groups that were
    refused. Raises CallFailed.
    """
    configs = [
        AlterableConfig(
            name=name,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value=value,
        )
        for name, value in changes.items()
    ]
    resources = [
        AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=each, configs=configs)
        for each in group_ids
    ]
    answer = await client.call(IncrementalAlterConfigsRequest(resources=resources))
    return {
        each.resource_name: Failure(ErrorCode(each.error_code), each.error_message or "")
        for each in answer.responses
        if each.error_code
    }
