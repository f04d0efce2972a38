"""Configs of groups: which there are, what they may be, and the record that they are stored in.

A group's configs are in the log of its partition. As in Kafka they exist without the group, and
outlive it. `consumer.*` are Kafka's, for groups of the protocol of KIP-848: they are kept for
tools, and change nothing in a classic group, whose members bring their own timeouts. `classic.*`
are Groupkeeper's (docs/policies.md, `coordinator.policy`).

Source: Kafka 4.1, `GroupConfig` and `GroupConfigManager`; KIP-848.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import ConfigsChanged
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.policy import (
    ASSIGNORS,
    EXPECTED_IDS,
    EXPECTED_WAIT,
    GRACE,
    LEADER,
    LEADERS,
    LEFT,
    LOST,
    MATCHES,
    MAX_GRACE_MS,
    MIN_INTERVAL,
    OFF,
    REMOTE_ASSIGNOR,
    RESERVE_ON,
    SEAT_MATCH,
    STEP_INTERVAL,
    STEP_PARTITIONS,
    TARGET_SIZE,
    UNEXPECTED,
    UNEXPECTEDS,
    WATCH,
    WINDOW,
    words_of,
)
from groupkeeper.coordinator.scaling import follow_policy
from groupkeeper.coordinator.seats import policy_changed
from groupkeeper.coordinator.step import GroupConfigs, Step
from groupkeeper.coordinator.steps import stepping_policy
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.records.consumer_offsets import (
    GroupConfigEntry,
    GroupConfigsKey,
    GroupConfigsValue,
    encode_key,
    encode_value,
)

_INT: Final = re.compile(r"\s*[+-]?[0-9]{1,10}\s*", re.ASCII)
_INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A config that is an int."""

    default: str
    """Kafka's default, or that of the broker's config."""
    low: int
    high: int
    broker_bounds: bool = False
    """The bounds are configs of the broker, as Kafka has them."""

    def problem(self, name: str, text: str) -> str | None:
        """Return what is wrong with a value, in Kafka's words, or None."""
        value = int(text) if _INT.fullmatch(text) else _INT_MAX + 1
        if not -_INT_MAX - 1 <= value <= _INT_MAX:
            return f"Invalid value {text} for configuration {name}: Not a number of type INT"
        low = 1 if self.broker_bounds else self.low
        if value < low:
            return f"Invalid value {value} for configuration {name}: Value must be at least {low}"
        if not self.broker_bounds and value > self.high:
            least = f"Value must be no more than {self.high}"
            return f"Invalid value {value} for configuration {name}: {least}"
        return None


@dataclass(frozen=True, slots=True)
class WordConfig:
    """A config that is a list of words, or one of them; without `words`, a list of any."""

    default: str
    words: tuple[str, ...]
    is_list: bool = False

    def problem(self, name: str, text: str) -> str | None:
        """As `WholeNumber.problem`."""
        if not self.words or text in self.words:  # without words a list of any
            return None
        given = words_of(text)
        if self.is_list:
            strange = sorted(given - set(self.words))
        else:
            strange = [] if given in [words_of(each) for each in self.words] else [text]
        if not strange and given:
            return None
        words = self.words if self.is_list else map(repr, self.words)
        allowed = f"must be one of: {', '.join(words)}"
        return f"Invalid value {', '.join(strange)} for configuration {name}: String {allowed}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A config that is true or false."""

    default: str

    def problem(self, name: str, text: str) -> str | None:
        """As `WholeNumber.problem`."""
        if text.strip().lower() in ("true", "false"):
            return None
        expected = "Expected value to be either true or false"
        return f"Invalid value {text} for configuration {name}: {expected}"


GroupConfigRow = WholeNumber | WordConfig | Flag

SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_DEFAULTS: Final = OFF.as_configs()

TABLE: Final[Mapping[str, GroupConfigRow]] = {
    EXPECTED_IDS: WordConfig(_DEFAULTS[EXPECTED_IDS], (), is_list=True),
    EXPECTED_WAIT: WholeNumber(_DEFAULTS[EXPECTED_WAIT], 0, MAX_GRACE_MS),
    LEADER: WordConfig(_DEFAULTS[LEADER], LEADERS),
    WATCH: Flag(_DEFAULTS[WATCH]),
    MIN_INTERVAL: WholeNumber(_DEFAULTS[MIN_INTERVAL], 0, MAX_GRACE_MS),
    STEP_INTERVAL: WholeNumber(_DEFAULTS[STEP_INTERVAL], 0, MAX_GRACE_MS),
    STEP_PARTITIONS: WholeNumber(_DEFAULTS[STEP_PARTITIONS], 0, _INT_MAX),
    REMOTE_ASSIGNOR: WordConfig(_DEFAULTS[REMOTE_ASSIGNOR], ASSIGNORS),
    RESERVE_ON: WordConfig(_DEFAULTS[RESERVE_ON], (LEFT, LOST), is_list=True),
    WINDOW: WholeNumber(_DEFAULTS[WINDOW], 0, MAX_GRACE_MS),
    GRACE: WholeNumber(_DEFAULTS[GRACE], 0, MAX_GRACE_MS),
    SEAT_MATCH: WordConfig(_DEFAULTS[SEAT_MATCH], MATCHES),
    TARGET_SIZE: WholeNumber(_DEFAULTS[TARGET_SIZE], 0, _INT_MAX),
    UNEXPECTED: WordConfig(_DEFAULTS[UNEXPECTED], UNEXPECTEDS),
    HEARTBEAT: WholeNumber("5000", 5_000, 15_000, broker_bounds=True),
    SESSION: WholeNumber("45000", 45_000, 60_000, broker_bounds=True),
}
"""The configs by name, in alphabetical order. The broker's default of each is `group.` and the
name."""

MAX_CONFIGURED_GROUPS: Final = 10_000
"""The most groups of a partition that may have configs; clients may name any group."""


def problem_in(configs: Mapping[str, str]) -> str | None:
    """Return what is wrong with the configs of a group, in Kafka's words, or None."""
    for name in configs:
        if name not in TABLE:
            return f"Unknown group config name: {name}"
    values = {name: configs.get(name, row.default) for name, row in TABLE.items()}
    for name, row in TABLE.items():
        problem = row.problem(name, values[name])
        if problem is not None:
            return problem
    for name, row in TABLE.items():
        if isinstance(row, WholeNumber) and row.broker_bounds:
            kind, _, rest = name.partition(".")
            if int(values[name]) < row.low:
                return f"{name} must be greater than or equal to group.{kind}.min.{rest}"
            if int(values[name]) > row.high:
                return f"{name} must be less than or equal to group.{kind}.max.{rest}"
    if int(values[SESSION]) <= int(values[HEARTBEAT]):
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
        group = groups.get(request.group_id)
        if group is not None:
            was_served = stepping_policy(group) is not None
            groups.set_policy(group)
            policy_changed(group, step)
            follow_policy(group, step, was_served)
        if group is not None and group.was_used:
            who = Who.calling(caller, "")
            step.note(ConfigsChanged(*group.fact_head, who=who, before=before, after=after))
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
