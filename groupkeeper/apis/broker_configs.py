"""DescribeConfigs and AlterConfigs for what is not a topic: the broker, its loggers, client metrics
and groups.

The broker's configs are the settings in use. They are read at the start, so all of them are
read-only. The other three kinds exist in Kafka and have no config here: they are described as
empty, and every name in them is unknown (docs/topics.md).
Source: Kafka's ``ConfigHelper``, ``ConfigAdminManager`` and its answers on the wire.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from groupkeeper.apis.config_changes import Change, no_list
from groupkeeper.apis.describe_configs import asked_names
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
from groupkeeper.protocol.messages.incremental_alter_configs import ConfigOperation
from groupkeeper.protocol.messages.list_config_resources import ConfigResource
from groupkeeper.settings.table import INT_MAX, TABLE, Setting, Settings

Refusal = tuple[ErrorCode, str]
"""An error code and what to say about it."""

_NUMBER: Final = r"[+-]?[0-9]{1,10}"


class BrokerConfigs:
    """Answers for all resources that are not topics."""

    def __init__(self, node_id: int, settings: Settings) -> None:
        self._node_id = node_id
        self._settings = settings
        self._shared: dict[tuple[bool, bool], dict[str, DescribeConfigsResourceResult]] = {}
        """The settings as they are described, by what is asked besides."""
        self._alter_refusals: dict[int, Callable[[str, Sequence[Change]], Refusal | None]] = {
            ResourceType.BROKER: self._broker_refusal,
            ResourceType.BROKER_LOGGER: self._logger_refusal,
            ResourceType.CLIENT_METRICS: _metrics_refusal,
            ResourceType.GROUP: _group_refusal,
        }

    def resources(self) -> list[ConfigResource]:
        """What there is besides topics."""
        kinds = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        return [
            ConfigResource(resource_name=str(self._node_id), resource_type=kind) for kind in kinds
        ]

    # -- describe ------------------------------------------------------------------------------

    def describe_refusal(self, kind: int, name: str) -> Refusal | None:
        """Why such a resource cannot be described, or None."""
        wrong = None
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            wrong = self._describe_complaint(kind, name)
        elif not name and kind == ResourceType.CLIENT_METRICS:
            wrong = "Client metrics subscription name must not be empty"
        elif not name and kind == ResourceType.GROUP:
            wrong = "Group name must not be empty"
        return None if wrong is None else (ErrorCode.INVALID_REQUEST, wrong)

    def _describe_complaint(self, kind: int, name: str) -> str | None:
        is_broker = kind == ResourceType.BROKER
        if not name:
            return None if is_broker else "Broker id must not be empty"
        node_id = _number(name)
        if node_id is None:
            return f"Broker id must be an integer, but it is: {name}"
        if node_id == self._node_id:
            return None
        if is_broker:
            expected = f"expected {self._node_id} or empty string, but"
        else:
            expected = f"expected {self._node_id} but"
        return f"Unexpected broker id, {expected} received {name}"

    def describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult]:
        """The configs of a resource that is not refused. Without a name it is the dynamic default
        of all brokers, which nobody can set.
        """
        if resource.resource_type != ResourceType.BROKER or not resource.resource_name:
            return []
        besides = request.include_synonyms, request.include_documentation
        if besides not in self._shared:
            self._shared[besides] = {key: self._setting(row, request) for key, row in TABLE.items()}
        return [self._shared[besides][key] for key in asked_names(TABLE, resource)]

    def _setting(
        self, row: Setting, request: DescribeConfigsRequest
    ) -> DescribeConfigsResourceResult:
        is_node_id = row.key == "node.id"
        used = self._node_id if is_node_id else getattr(self._settings, row.attribute)
        value, default = _text(used), _text(row.default)
        # Nobody remembers whether a value was given that is the default anyway.
        source = ConfigSource.DEFAULT if value == default else ConfigSource.STATIC_BROKER
        result = DescribeConfigsResourceResult(
            name=row.key,
            value=value,
            read_only=True,
            config_source=source,
            is_default=source is ConfigSource.DEFAULT,
            config_type=_kind(row),
            documentation=row.doc if request.include_documentation else None,
        )
        if request.include_synonyms:
            places = {source: value, ConfigSource.DEFAULT: default}
            result.synonyms = [
                DescribeConfigsSynonym(name=row.key, value=text, source=place)
                for place, text in places.items()
            ]
        return result

    # -- alter ---------------------------------------------------------------------------------

    def alter_refusal(self, kind: int, name: str, changes: Sequence[Change]) -> Refusal | None:
        """Why nothing changes; None if nothing was to change."""
        return self._alter_refusals[kind](name, changes)

    def _broker_refusal(self, name: str, changes: Sequence[Change]) -> Refusal | None:
        elsewhere = self._elsewhere(name, "broker id, expected") if name else None
        if elsewhere is not None:
            return elsewhere
        for change in changes:
            if change.edits_a_list:
                verb = ConfigOperation(change.operation).name.lower()
                return ErrorCode.INVALID_CONFIG, (
                    f"Config value {verb} is not allowed for config key: {change.name}"
                )
        fixed = ", ".join(change.name for change in changes if change.sets)
        if not fixed:
            return None
        return ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({fixed})"

    def _logger_refusal(self, name: str, changes: Sequence[Change]) -> Refusal | None:
        elsewhere = self._elsewhere(name, "node id. Expected")
        if elsewhere is not None:
            return elsewhere
        for change in changes:
            if change.edits_a_list:
                verb = ConfigOperation(change.operation).name
                return ErrorCode.INVALID_REQUEST, (
                    f"{verb} operation is not allowed for the BROKER_LOGGER resource"
                )
            return ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!"
        return None

    def _elsewhere(self, name: str, unexpected: str) -> Refusal | None:
        """The refusal of what belongs to another node, or None."""
        node_id = _number(name)
        if node_id == self._node_id:
            return None
        if node_id is None:
            wrong = f"Node id must be an integer, but it is: {name}"
        else:
            wrong = f"Unexpected {unexpected} {self._node_id}, but received {name}"
        return ErrorCode.INVALID_REQUEST, wrong


def _metrics_refusal(name: str, changes: Sequence[Change]) -> Refusal | None:
    nameless = "Subscription name can't be empty"
    refusal, unknown = _first_set(name, changes, nameless)
    if unknown is None:
        return refusal
    return ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {unknown}"


def _group_refusal(name: str, changes: Sequence[Change]) -> Refusal | None:
    nameless = "Default group resources are not allowed."
    refusal, unknown = _first_set(name, changes, nameless)
    if unknown is None:
        return refusal
    return ErrorCode.INVALID_CONFIG, (
        f"Unknown group config name: {unknown} (a classic group has none: its members bring their "
        "timeouts)"
    )


def _first_set(
    name: str, changes: Sequence[Change], nameless: str
) -> tuple[Refusal | None, str | None]:
    """For a kind without configs: what refuses the resource as a whole, or else the first config
    that is set, which cannot be known.
    """
    refusal = _list_refusal(changes)
    if refusal is None and not name:
        refusal = ErrorCode.INVALID_REQUEST, nameless
    if refusal is not None:
        return refusal, None
    return None, next((change.name for change in changes if change.sets), None)


def _list_refusal(changes: Sequence[Change]) -> Refusal | None:
    for change in changes:
        if change.edits_a_list:
            return ErrorCode.INVALID_CONFIG, no_list(change)
    return None


def _number(text: str) -> int | None:
    """As Java's ``Integer.parseInt``."""
    if re.fullmatch(_NUMBER, text) is None or abs(int(text)) > INT_MAX:
        return None
    return int(text)


def _kind(row: Setting) -> ConfigKind:
    if row.kind is bool:
        return ConfigKind.BOOLEAN
    return ConfigKind.INT if row.high <= INT_MAX else ConfigKind.LONG


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
