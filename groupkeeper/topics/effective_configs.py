"""The configs of a topic that are in effect, and their sources.

Values are validated in configs.py. Where the server has no setting of a broker config, Kafka's
default applies.
Source: Kafka's `ConfigHelper`, `DynamicBrokerConfig.brokerConfigSynonyms` and
`ServerTopicConfigSynonyms`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import dropwhile
from types import MappingProxyType
from typing import Final, NamedTuple

from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    ConfigSource,
    DescribeConfigsSynonym,
)
from groupkeeper.settings.table import TABLE as SETTINGS
from groupkeeper.settings.table import Settings
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.configs import (
    RETENTION_MS,
    SEGMENT_MS,
    TABLE,
    TopicConfig,
    java_double,
    validated,
)
from groupkeeper.topics.log_policy import KnownPolicy, LogPolicy, read_policy
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC

EVENT_SEGMENTS: Final = 7
"""A log of events begins a new segment after this fraction of its retention. Whole segments are
deleted, so events may become that much older, and a log that much larger, than the retention."""
EVENT_SEGMENT_LEAST: Final = 1024 * 1024
"""The smallest segment of a log of events, in bytes, however small the retention is."""


class EffectiveConfig(NamedTuple):
    """One config, of a topic or of the broker."""

    name: str
    kind: ConfigKind
    value: str | None
    """None if not set, which is possible for a broker only."""
    source: ConfigSource
    synonyms: list[DescribeConfigsSynonym]
    """All sources with a value, highest precedence first."""


def inherited_config(
    name: str, kind: ConfigKind, value: str | None, synonyms: list[DescribeConfigsSynonym]
) -> EffectiveConfig:
    """Return a config with the value of the first of its synonyms, or Kafka's default."""
    source = ConfigSource(synonyms[0].source) if synonyms else ConfigSource.DEFAULT
    return EffectiveConfig(name, kind, value, source, synonyms)


_SYNONYMS: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
)
"""Broker configs for the same setting in different units; the first one that is set counts."""


def value_text(value: object) -> str | None:
    """Format the value of a setting like Kafka; None if it is not set."""
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def broker_synonyms(key: str, settings: Settings) -> list[DescribeConfigsSynonym]:
    """Return the settings that determine a broker config, highest precedence first.

    Begins with the config itself, as in Kafka: empty if only another unit has a value.
    """
    rows = [SETTINGS[each] for each in next((keys for keys in _SYNONYMS if key in keys), (key,))]
    given = [(row, getattr(settings, row.attribute), ConfigSource.STATIC_BROKER) for row in rows]
    found = [
        # Settings do not record whether a value equal to the default was given.
        *((row.key, value, source) for row, value, source in given if value != row.default),
        *((row.key, row.default, ConfigSource.DEFAULT) for row in rows if row.default is not None),
    ]
    return [
        DescribeConfigsSynonym(name=name, value=value_text(value), source=source)
        for name, value, source in dropwhile(lambda each: each[0] != key, found)
    ]


def _event_segment_bytes(settings: Settings) -> int:
    """Return the segment size: the active segments may take half of the joint limit."""
    segment_bytes = settings.offsets_topic_segment_bytes
    each, total = settings.group_events_retention_bytes, settings.group_events_retention_total_bytes
    if each >= 0:
        segment_bytes = min(segment_bytes, max(each // EVENT_SEGMENTS, EVENT_SEGMENT_LEAST))
    if total >= 0:
        share = total // (2 * settings.offsets_topic_num_partitions)
        segment_bytes = min(segment_bytes, max(share, EVENT_SEGMENT_LEAST))
    return segment_bytes


class EffectiveConfigs:
    """The configs of all topics, with the server's settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # As set by a Kafka broker when it creates the topic.
        self._of_group_topic = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }
        retention_ms = settings.group_events_retention_ms
        roll_ms = settings.log_roll_time_ms
        if retention_ms > 0:
            roll_ms = min(roll_ms, max(retention_ms // EVENT_SEGMENTS, 1))
        self._of_internal: Final[Mapping[str, Mapping[str, str]]] = {
            GROUP_TOPIC: self._of_group_topic,
            EVENT_TOPIC: {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "retention.bytes": str(settings.group_events_retention_bytes),
                "retention.ms": str(retention_ms),
                "segment.bytes": str(_event_segment_bytes(settings)),
                "segment.ms": str(roll_ms),
            },
        }

        # The same for all topics, so it is computed once.
        self.inherited: Final[Mapping[str, EffectiveConfig]] = {
            row.name: self._inherited(row) for row in TABLE.values()
        }
        """Each config of a topic that does not set it, by name in alphabetical order."""
        self._inherited_values = {
            name: config.value
            for name, config in self.inherited.items()
            if config.value is not None
        }
        self._default_policy = self._read_policy({})

    def of(self, topic: Topic) -> Iterator[EffectiveConfig]:
        """Yield all configs, in alphabetical order."""
        own = self.own(topic)
        for name, inherited in self.inherited.items():
            yield self.with_topic_value(name, own[name]) if name in own else inherited

    def own(self, topic: Topic) -> Mapping[str, str]:
        """Return the configs set by the topic. This release may not have all of the names."""
        return self._of_internal[topic.name] if topic.internal else topic.configs

    def policy(self, topic: Topic) -> LogPolicy:
        """Return how the topic's logs are kept, by its present configs. Thread-safe."""
        configs, known = topic.configs, topic.policy
        if known is not None and known.configs is configs:
            return known.policy
        policy = self._default_policy
        if topic.internal or configs:
            policy = self._read_policy(self.own(topic))
        if topic.name == EVENT_TOPIC:
            policy = replace(policy, limits=replace(policy.limits, server_times=True))
        topic.policy = KnownPolicy(configs, policy)
        return policy

    @property
    def group_topic_policy(self) -> LogPolicy:
        return self._read_policy(self._of_group_topic)

    def _read_policy(self, configs: Mapping[str, str]) -> LogPolicy:
        return read_policy(configs, self._inherited_values)

    def validated(
        self, given: Mapping[str, str | None], stored: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """Do `configs.validated`, with the server's settings for configs the topic does not set."""
        return validated(given, stored, self._inherited_values)

    def with_topic_value(self, name: str, value: str) -> EffectiveConfig:
        """Return a known config that a topic sets."""
        inherited, source = self.inherited[name], ConfigSource.TOPIC
        synonym = DescribeConfigsSynonym(name=name, value=value, source=source)
        synonyms = [synonym, *inherited.synonyms]
        return inherited._replace(value=value, source=source, synonyms=synonyms)

    def _inherited(self, row: TopicConfig) -> EffectiveConfig:
        key, source = row.broker_key, ConfigSource.DEFAULT
        synonyms: list[DescribeConfigsSynonym] = []
        if key is not None and key in SETTINGS:
            synonyms = broker_synonyms(key, self._settings)
        elif key is not None:
            synonyms = [DescribeConfigsSynonym(name=key, value=row.default, source=source)]
        return inherited_config(row.name, row.kind, self._value(row), synonyms)

    def _value(self, row: TopicConfig) -> str:
        settings = self._settings
        if row.name == RETENTION_MS:
            return str(settings.log_retention_time_ms)
        if row.name == SEGMENT_MS:
            return str(settings.log_roll_time_ms)
        setting = SETTINGS.get(row.broker_key or "")
        value = None if setting is None else value_text(getattr(settings, setting.attribute))
        return row.default if value is None else value
