"""Configs of the broker, its loggers and client metrics.

The broker's configs are the server's settings. They are read at the start, so all of them are
read-only. The others have no configs here: they are described as empty, and every key is unknown
(docs/topics.md).
Source: Kafka's `ConfigHelper`, `ConfigAdminManager` and its answers on the wire.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    ResourceType,
)
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from groupkeeper.protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.list_config_resources import ConfigResource
from groupkeeper.settings.setting import INT_MAX, Setting
from groupkeeper.settings.table import TABLE, Settings
from groupkeeper.topics.effective_configs import (
    EffectiveConfig,
    broker_synonyms,
    inherited_config,
    value_text,
)
from groupkeeper.topics.refusals import Refusal

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest
AlterResource = AlterConfigsResource | IncrementalAlterConfigsResource

_NUMBER: Final = r"[+-]?[0-9]{1,10}"


class AlterConfigOp(NamedTuple):
    """A requested change of one config. Source: Kafka's `AlterConfigOp`."""

    name: str
    operation: int
    """A `ConfigOperation`, unless the client sent an unknown one."""
    value: str | None

    @property
    def sets(self) -> bool:
        """Whether the operation needs a value."""
        return self.operation != ConfigOperation.DELETE

    @property
    def edits_a_list(self) -> bool:
        return self.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)


def ops_of(resource: AlterResource) -> list[AlterConfigOp]:
    """Return the changes in the order of the request. AlterConfigs can only set."""
    if isinstance(resource, AlterConfigsResource):
        return [AlterConfigOp(c.name, ConfigOperation.SET, c.value) for c in resource.configs]
    return [AlterConfigOp(c.name, c.config_operation, c.value) for c in resource.configs]


def no_list(op: AlterConfigOp) -> Refusal:
    """Refuse APPEND or SUBTRACT of a config that is not a list."""
    verb = ConfigOperation(op.operation).name
    return Refusal(
        ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {op.name} because its type is not LIST."
    )


def requested_names(
    known: Mapping[str, object], resource: DescribeConfigsResource
) -> Iterable[str]:
    """Return the known configs to describe. As in Kafka, an empty list requests all, too."""
    if not resource.configuration_keys:
        return known
    # This is all that unknown names cost.
    wanted = known.keys() & resource.configuration_keys
    return [name for name in known if name in wanted] if wanted else ()


def config_result(
    config: EffectiveConfig, request: DescribeConfigsRequest, documentation: str | None = None
) -> DescribeConfigsResourceResult:
    """Make the entry of one config in a response."""
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        config_source=config.source,
        is_default=config.source is ConfigSource.DEFAULT,
        synonyms=config.synonyms if request.include_synonyms else [],
        config_type=config.kind,
        documentation=documentation,
    )


_NAMELESS: Final[Mapping[int, str]] = {
    ResourceType.BROKER_LOGGER: "Broker id must not be empty",
    ResourceType.CLIENT_METRICS: "Client metrics subscription name must not be empty",
    ResourceType.GROUP: "Group name must not be empty",
}
"""Refusals of resources without a name, by type."""


class BrokerConfigs:
    """Describes all resources that are neither topics nor groups, and refuses to alter them."""

    def __init__(self, node_id: int, settings: Settings) -> None:
        self._node_id = node_id
        self._settings = replace(settings, node_id=node_id)
        self._shared: dict[tuple[bool, bool], dict[str, DescribeConfigsResourceResult]] = {}
        """Settings, by whether synonyms and documentation are included."""

    def resources(self) -> list[ConfigResource]:
        """List all resources but topics and groups."""
        kinds = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        return [
            ConfigResource(resource_name=str(self._node_id), resource_type=kind) for kind in kinds
        ]

    # -- describe ------------------------------------------------------------------------------

    def describe_refusal(self, kind: int, name: str) -> Refusal | None:
        """Return the refusal to describe such a resource, or None."""
        message = None
        is_broker = kind == ResourceType.BROKER
        if not name:
            message = _NAMELESS.get(kind)
        elif is_broker or kind == ResourceType.BROKER_LOGGER:
            node_id = _number(name)
            expected = f"{self._node_id} or empty string," if is_broker else self._node_id
            if node_id is None:
                message = f"Broker id must be an integer, but it is: {name}"
            elif node_id != self._node_id:
                message = f"Unexpected broker id, expected {expected} but received {name}"
        return None if message is None else Refusal(ErrorCode.INVALID_REQUEST, message)

    def describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult]:
        """Return the configs of a resource that is not refused. A broker without a name stands for
        the dynamic defaults of all brokers, which cannot be set.
        """
        if resource.resource_type != ResourceType.BROKER or not resource.resource_name:
            return []
        included = request.include_synonyms, request.include_documentation
        if included not in self._shared:
            self._shared[included] = {
                key: self._setting(row, request) for key, row in TABLE.items()
            }
        return [self._shared[included][key] for key in requested_names(TABLE, resource)]

    def _setting(
        self, row: Setting, request: DescribeConfigsRequest
    ) -> DescribeConfigsResourceResult:
        value = value_text(getattr(self._settings, row.attribute))
        synonyms = broker_synonyms(row.key, self._settings)
        config = inherited_config(row.key, _kind(row), value, synonyms)
        text = row.doc if request.include_documentation else None
        result = config_result(config, request, text)
        result.read_only = True
        if row.secret:
            result.is_sensitive, result.value = True, None
            for synonym in result.synonyms:
                synonym.value = None
        return result

    # -- alter ---------------------------------------------------------------------------------

    def alter_refusal(self, kind: int, name: str, ops: Sequence[AlterConfigOp]) -> Refusal | None:
        """Return the refusal to alter the resource; None if there is nothing to alter."""
        if kind == ResourceType.BROKER:
            return self._broker_refusal(name, ops)
        if kind == ResourceType.BROKER_LOGGER:
            return self._logger_refusal(name, ops)
        return _metrics_refusal(name, ops)

    def _broker_refusal(self, name: str, ops: Sequence[AlterConfigOp]) -> Refusal | None:
        elsewhere = self._elsewhere(name, "broker id, expected") if name else None
        if elsewhere is not None:
            return elsewhere
        for op in ops:
            if op.edits_a_list:
                verb = ConfigOperation(op.operation).name.lower()
                return Refusal(
                    ErrorCode.INVALID_CONFIG,
                    f"Config value {verb} is not allowed for config key: {op.name}",
                )
        fixed = ", ".join(op.name for op in ops if op.sets)
        if not fixed:
            return None
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({fixed})"
        )

    def _logger_refusal(self, name: str, ops: Sequence[AlterConfigOp]) -> Refusal | None:
        elsewhere = self._elsewhere(name, "node id. Expected")
        if elsewhere is not None or not ops:
            return elsewhere
        first = ops[0]
        if first.edits_a_list:
            verb = ConfigOperation(first.operation).name
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"{verb} operation is not allowed for the BROKER_LOGGER resource",
            )
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {first.name} does not exist!")

    def _elsewhere(self, name: str, unexpected: str) -> Refusal | None:
        """Refuse the resource of another node."""
        node_id = _number(name)
        if node_id == self._node_id:
            return None
        if node_id is None:
            message = f"Node id must be an integer, but it is: {name}"
        else:
            message = f"Unexpected {unexpected} {self._node_id}, but received {name}"
        return Refusal(ErrorCode.INVALID_REQUEST, message)


def _metrics_refusal(name: str, ops: Sequence[AlterConfigOp]) -> Refusal | None:
    """Refuse changes of client metrics, which have no configs: every key is unknown."""
    edit = next((op for op in ops if op.edits_a_list), None)
    if edit is not None:
        return no_list(edit)
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    unknown = next((op.name for op in ops if op.sets), None)
    if unknown is None:
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {unknown}")


def _number(text: str) -> int | None:
    """Parse a number as Java's `Integer.parseInt`."""
    if re.fullmatch(_NUMBER, text) is None or abs(int(text)) > INT_MAX:
        return None
    return int(text)


_KINDS: Final[Mapping[type, ConfigKind]] = {
    bool: ConfigKind.BOOLEAN,
    float: ConfigKind.DOUBLE,
    str: ConfigKind.LIST,
}


def _kind(row: Setting) -> ConfigKind:
    if row.secret:
        return ConfigKind.PASSWORD
    whole = ConfigKind.INT if row.high <= INT_MAX else ConfigKind.LONG
    return _KINDS.get(row.kind, whole)
