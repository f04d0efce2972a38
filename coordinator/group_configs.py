"""Configs of groups: which there are, what they may be, and the record that they are stored in.

A group's configs are in the log of its partition. As in Kafka they exist without the group, and
outlive it. `consumer.*` are Kafka's, for groups of the protocol of KIP-848: they are kept for
tools, and change nothing in a classic group, whose members bring their own timeouts.

Source: Kafka 4.1, `GroupConfig` and `GroupConfigManager`; KIP-848.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.step import GroupConfigs, Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.records.consumer_offsets import (
    GroupConfigEntry,
    GroupConfigsKey,
    GroupConfigsValue,
    encode_key,
    encode_value,
)


@dataclass(frozen=True, slots=True)
class GroupConfigRow:
    """A config of groups: an int with the broker's default and bounds."""

    broker_key: str
    """The broker's config with the default."""
    default: int
    low: int
    high: int

    def bound(self, which: str) -> str:
        """Return the name of the broker's config for a bound, `min` or `max`."""
        return self.broker_key.replace("group.consumer.", f"group.consumer.{which}.")


SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"

TABLE: Final[Mapping[str, GroupConfigRow]] = {
    HEARTBEAT: GroupConfigRow("group.consumer.heartbeat.interval.ms", 5_000, 5_000, 15_000),
    SESSION: GroupConfigRow("group.consumer.session.timeout.ms", 45_000, 45_000, 60_000),
}
"""The configs by name, in alphabetical order."""

MAX_CONFIGURED_GROUPS: Final = 10_000
"""The most groups of a partition that may have configs; clients may name any group."""

_INT: Final = re.compile(r"\s*[+-]?[0-9]{1,10}\s*", re.ASCII)
_INT_MAX: Final = 2**31 - 1


def problem_in(configs: Mapping[str, str]) -> str | None:
    """Return what is wrong with the configs of a group, in Kafka's words, or None."""
    for name in configs:
        if name not in TABLE:
            return f"Unknown group config name: {name}"
    values: dict[str, int] = {}
    for name, row in TABLE.items():
        text = configs.get(name, str(row.default))
        value = int(text) if _INT.fullmatch(text) else _INT_MAX + 1
        if not -_INT_MAX - 1 <= value <= _INT_MAX:
            return f"Invalid value {text} for configuration {name}: Not a number of type INT"
        if value < 1:
            return f"Invalid value {value} for configuration {name}: Value must be at least 1"
        values[name] = value
    for name, row in TABLE.items():
        if values[name] < row.low:
            return f"{name} must be greater than or equal to {row.bound('min')}"
        if values[name] > row.high:
            return f"{name} must be less than or equal to {row.bound('max')}"
    if values[SESSION] <= values[HEARTBEAT]:
        return f"{SESSION} must be greater than {HEARTBEAT}"
    return None


@dataclass(slots=True)
class GroupConfigsRequest:
    """Ask for the configs that are set for a group, or set all of them."""

    group_id: str
    configs: Mapping[str, str] | None = None
    """All configs that shall be set, checked with `problem_in`; None to ask."""


def describe_or_set_configs(
    groups: Groups, request: GroupConfigsRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Answer the group's configs, after the change; POLICY_VIOLATION if too many groups have some.
    No record is written if nothing changes.
    """
    before = groups.configs.get(request.group_id, {})
    after = before if request.configs is None else dict(request.configs)
    if after != before:
        if len(groups.configs) >= MAX_CONFIGURED_GROUPS and not before:
            step.reply(reply_to, GroupConfigs(ErrorCode.POLICY_VIOLATION))
            return
        _store(groups, request.group_id, after, step)
    step.reply(reply_to, GroupConfigs(ErrorCode.NONE, after))


def _store(groups: Groups, group_id: str, configs: dict[str, str], step: Step) -> None:
    key = encode_key(GroupConfigsKey(group=group_id))
    if not configs:
        del groups.configs[group_id]
        step.append(key, None)
        return
    groups.configs[group_id] = configs
    entries = [GroupConfigEntry(name=name, value=configs[name]) for name in sorted(configs)]
    step.append(key, encode_value(GroupConfigsValue(configs=entries), 0))
