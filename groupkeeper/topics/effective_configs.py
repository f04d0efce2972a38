"""The configs of a topic that are in effect, and their sources.

Values are validated in configs.py. Settings of the server stand for three of Kafka's broker
configs; for the others, Kafka's defaults apply.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    ConfigSource,
    DescribeConfigsSynonym,
)
from groupkeeper.settings.table import Settings
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES, TABLE, TopicConfig


class EffectiveConfig(NamedTuple):
    """One config, of a topic or of the broker."""

    name: str
    kind: ConfigKind
    value: str
    source: ConfigSource
    synonyms: list[DescribeConfigsSynonym]
    """All sources with a value, highest precedence first."""


def broker_config(
    name: str, kind: ConfigKind, key: str, value: str, default: str
) -> EffectiveConfig:
    """A config whose value is that of the broker's `key`."""
    source = ConfigSource.DEFAULT
    synonyms = [DescribeConfigsSynonym(name=key, value=default, source=source)]
    if value != default:
        source = ConfigSource.STATIC_BROKER
        synonyms.insert(0, DescribeConfigsSynonym(name=key, value=value, source=source))
    return EffectiveConfig(name, kind, value, source, synonyms)


class EffectiveConfigs:
    """The configs of all topics, with the server's settings."""

    def __init__(self, settings: Settings) -> None:
        self._of_server = {
            MAX_MESSAGE_BYTES: str(settings.message_max_bytes),
            "segment.bytes": str(settings.log_segment_bytes),
        }
        # What a Kafka broker sets when it creates the topic.
        self._of_group_topic = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }

        # The same for all topics, so it is made once.
        self.inherited: Final[Mapping[str, EffectiveConfig]] = {
            row.name: self._inherited(row) for row in TABLE.values()
        }
        """Each config as in a topic that does not set it, by name in alphabetical order."""

    def of(self, topic: Topic) -> Iterator[EffectiveConfig]:
        """All configs, in alphabetical order."""
        own = self.own(topic)
        for name, inherited in self.inherited.items():
            yield self.with_topic_value(name, own[name]) if name in own else inherited

    def own(self, topic: Topic) -> Mapping[str, str]:
        """What the topic sets. Names may be unknown to this release."""
        return self._of_group_topic if topic.internal else topic.configs

    def with_topic_value(self, name: str, value: str) -> EffectiveConfig:
        """A known config that a topic sets."""
        inherited, source = self.inherited[name], ConfigSource.TOPIC
        synonym = DescribeConfigsSynonym(name=name, value=value, source=source)
        synonyms = [synonym, *inherited.synonyms]
        return inherited._replace(value=value, source=source, synonyms=synonyms)

    def _inherited(self, row: TopicConfig) -> EffectiveConfig:
        if row.broker_key is None:
            return EffectiveConfig(row.name, row.kind, row.default, ConfigSource.DEFAULT, [])
        value = self._of_server.get(row.name, row.default)
        return broker_config(row.name, row.kind, row.broker_key, value, row.default)
