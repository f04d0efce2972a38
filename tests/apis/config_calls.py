"""Requests about configs, as tests write them, and what a test looks at in their answers."""

from collections.abc import Mapping
from typing import Any

from groupkeeper.protocol.messages import alter_configs as legacy
from groupkeeper.protocol.messages import incremental_alter_configs as incremental
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.topics.scene import Scene

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Change = tuple[str, int, str | None]
"""(config, operation, value)."""
Outcome = tuple[int, str | None]
"""(error code, message)."""


async def describe(
    scene: Scene, *resources: tuple[int, str, list[str] | None], **more: Any
) -> list[Any]:
    """The results; each resource: (type, name, keys)."""
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in resources
    ]
    return list((await scene.ask(4, DescribeConfigsRequest(resources=asked, **more))).results)


Resource = tuple[int, str, list[Change]]
"""(type, name, changes)."""


def alter_request(*resources: Resource, **more: Any) -> incremental.IncrementalAlterConfigsRequest:
    asked = [
        incremental.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ],
        )
        for kind, name, changes in resources
    ]
    return incremental.IncrementalAlterConfigsRequest(resources=asked, **more)


def replace_request(
    kind: int, name: str, configs: Mapping[str, str | None]
) -> legacy.AlterConfigsRequest:
    """AlterConfigs of one resource."""
    resource = legacy.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    return legacy.AlterConfigsRequest(resources=[resource])


def outcomes(answer: Any) -> list[Outcome]:
    return [(result.error_code, result.error_message) for result in answer.responses]


async def change(
    scene: Scene, *resources: Resource, version: int = 1, **more: Any
) -> list[Outcome]:
    """IncrementalAlterConfigs."""
    answer = await scene.ask(version, alter_request(*resources, **more))
    results = answer.responses
    assert [(r.resource_type, r.resource_name) for r in results] == [r[:2] for r in resources]
    return outcomes(answer)


async def replace(scene: Scene, kind: int, name: str, **configs: str | None) -> Outcome:
    """AlterConfigs of one resource."""
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    [outcome] = outcomes(await scene.ask(2, replace_request(kind, name, dotted)))
    return outcome
