"""The level of the server's log lines, as the logger `root` of a BROKER_LOGGER resource (KIP-412).

It holds for all lines and until the process ends; there are no other loggers to set.
Source: Kafka's `LoggingController`, `ConfigAdminManager.validateLogLevelConfigs`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from groupkeeper.apis.alter_op import AlterConfigOp
from groupkeeper.observe import logs
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    ConfigSource,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from groupkeeper.protocol.messages.incremental_alter_configs import ConfigOperation
from groupkeeper.topics.refusals import Refusal

ROOT: Final = "root"
_LEVELS: Final[Mapping[str, str]] = {
    "FATAL": "error",
    "ERROR": "error",
    "WARN": "warning",
    "INFO": "info",
    "DEBUG": "debug",
    "TRACE": "debug",
}
"""Kafka's names -> ours; of two for one level, the last but one is told."""
_TOLD: Final = {"error": "ERROR", "warning": "WARN", "info": "INFO", "debug": "DEBUG"}

_log = logs.Logger("logs")


def describe_loggers(resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    """The level of `root`, unless other loggers are asked for."""
    keys = resource.configuration_keys
    if keys and ROOT not in keys:
        return []
    return [
        DescribeConfigsResourceResult(
            name=ROOT,
            value=_TOLD[logs.level()],
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            config_type=ConfigKind.STRING,
        )
    ]


def logger_refusal(ops: Sequence[AlterConfigOp]) -> Refusal | None:
    """Why the levels cannot be set, in Kafka's words; None if they can."""
    for op in ops:
        if op.edits_a_list:
            verb = ConfigOperation(op.operation).name
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"{verb} operation is not allowed for the BROKER_LOGGER resource",
            )
        if op.name != ROOT:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {op.name} does not exist!")
        if not op.sets:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Removing the log level of the {ROOT} logger is not allowed",
            )
        if op.value not in _LEVELS:
            return Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {ROOT} to {op.value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(_LEVELS)}",
            )
    return None


def set_levels(ops: Sequence[AlterConfigOp]) -> None:
    """Set what `logger_refusal` did not refuse. The line about it is written at the lower level of
    both, so that it is seen unless both are `error`.
    """
    for op in ops:
        before, level = logs.level(), _LEVELS[op.value or ""]
        is_lower = logs.LEVELS[level] < logs.LEVELS[before]
        if is_lower:
            logs.set_level(level)
        if level != before:
            _log.warning("log level changed", lowest=level, before=before)
        logs.set_level(level)
