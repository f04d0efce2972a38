"""Configs of groups, for DescribeConfigs, AlterConfigs and ListConfigResources.

The partition of each group stores them (`coordinator/group_configs.py`), also of groups that do not
exist.
Source: Kafka's `ConfigHelper`, `ConfigurationControlManager` and `GroupConfig`.
"""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Final

from groupkeeper.apis.broker_configs import AlterConfigOp, config_result, requested_names
from groupkeeper.apis.config_ops import applied
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.group_configs import (
    MAX_CONFIGURED_GROUPS,
    TABLE,
    GroupConfigRow,
    GroupConfigsRequest,
    WholeNumber,
    WordConfig,
    problem_in,
)
from groupkeeper.coordinator.step import GroupConfigs
from groupkeeper.exchange import Awaited
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
    ResourceType,
)
from groupkeeper.protocol.messages.list_config_resources import ConfigResource
from groupkeeper.settings.table import TABLE as SETTINGS
from groupkeeper.settings.table import Settings
from groupkeeper.topics.effective_configs import EffectiveConfig, broker_synonyms, inherited_config
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.slices import each
from groupkeeper.turns import Slices

_UNAVAILABLE: Final[Mapping[int, str]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The group's partition is being loaded: try again.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The group's partition could not be written: try again.",
    ErrorCode.NOT_COORDINATOR: "The group's partition is not served: the server's log says why.",
    ErrorCode.POLICY_VIOLATION: f"{MAX_CONFIGURED_GROUPS} other groups of the group's partition "
    "have configs, and no more may: unset configs of groups that are gone.",
}
"""Messages for errors of a group's partition."""


class GroupConfigsAdmin:
    """Describes and changes the configs of groups."""

    def __init__(self, group_partitions: GroupPartitions, settings: Settings) -> None:
        self._group_partitions = group_partitions
        self._defaults = {name: _defaults(name, row, settings) for name, row in TABLE.items()}

    def ask(
        self, group_id: str, caller: Caller, configs: Mapping[str, str] | None = None
    ) -> Awaitable[object]:
        """Let the group's partition answer with `GroupConfigs`, when all before it is durable."""
        request, answer = GroupConfigsRequest(group_id, configs), Awaited()
        self._group_partitions.of(group_id).call(request, caller, answer)
        return answer.response

    async def configs_of(self, group_ids: Collection[str]) -> dict[str, GroupConfigs]:
        """Ask for the configs that are set for each group."""
        asked = {group_id: self.ask(group_id, Caller(0)) for group_id in group_ids}
        return {group_id: _answered(await answer) for group_id, answer in asked.items()}

    def resources(self) -> Slices[list[ConfigResource]]:
        """List the groups that have configs."""
        names = [name for driver in self._group_partitions for name in driver.configs]
        return (
            yield from each(
                names,
                lambda name: ConfigResource(resource_name=name, resource_type=ResourceType.GROUP),
            )
        )

    def wanted(
        self, group_id: str, ops: Sequence[AlterConfigOp], *, is_legacy: bool
    ) -> dict[str, str]:
        """Return the group's configs after the changes. Raises Refused; checks in Kafka's order.

        `is_legacy`: configs that the request does not name are unset.
        """
        before = self._group_partitions.of(group_id).configs.get(group_id, {})
        wanted = applied({} if is_legacy else before, ops, _list_default)
        if not group_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        problem = problem_in(wanted)
        if problem is not None:
            raise Refused(ErrorCode.INVALID_CONFIG, problem)
        return wanted

    def described(
        self,
        answered: GroupConfigs,
        resource: DescribeConfigsResource,
        request: DescribeConfigsRequest,
    ) -> list[DescribeConfigsResourceResult]:
        """Return all configs of a group: those that are set, and the broker's defaults."""
        return [
            config_result(self._effective(name, answered.configs.get(name)), request)
            for name in requested_names(TABLE, resource)
        ]

    def _effective(self, name: str, value: str | None) -> EffectiveConfig:
        synonyms = self._defaults[name]
        if value is not None:
            own = DescribeConfigsSynonym(name=name, value=value, source=ConfigSource.DYNAMIC_GROUP)
            synonyms = [own, *synonyms]
        return inherited_config(name, _kind_of(TABLE[name]), synonyms[0].value, synonyms)

    async def changed(self, asked: Awaitable[object]) -> Refusal | None:
        """Wait for the answer to `ask`, and return why the configs were not set, or None."""
        return refusal_of(_answered(await asked))


def refusal_of(answered: GroupConfigs) -> Refusal | None:
    """Return why a partition did not answer, or None."""
    error = answered.error_code
    return Refusal(error, _UNAVAILABLE.get(error)) if error else None


def _defaults(name: str, row: GroupConfigRow, settings: Settings) -> list[DescribeConfigsSynonym]:
    """Return where the default of a config comes from."""
    key = f"group.{name}"
    if key in SETTINGS:
        return broker_synonyms(key, settings)
    return [DescribeConfigsSynonym(name=key, value=row.default, source=ConfigSource.DEFAULT)]


def _kind_of(row: GroupConfigRow) -> ConfigKind:
    if not isinstance(row, WordConfig):
        return ConfigKind.INT if isinstance(row, WholeNumber) else ConfigKind.BOOLEAN
    return ConfigKind.LIST if row.is_list else ConfigKind.STRING


def _list_default(name: str) -> str | None:
    row = TABLE.get(name)
    return row.default if row is not None and _kind_of(row) is ConfigKind.LIST else None


def _answered(answer: object) -> GroupConfigs:
    assert isinstance(answer, GroupConfigs)
    return answer
