"""What configs a topic has in effect, and where each of them comes from.

Not which values are good (configs.py). The server's settings stand in for three of Kafka's broker
configs; nothing else of a broker's has a place here, so for the rest Kafka's default holds.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from groupkeeper.protocol.messages.describe_configs import ConfigSource
from groupkeeper.settings.table import Settings
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES, TABLE, TopicConfig


class ConfigSynonym(NamedTuple):
    """A value, and the key under which it is set there."""

    key: str
    value: str
    source: ConfigSource


class EffectiveConfig(NamedTuple):
    """One config of one topic."""

    row: TopicConfig
    value: str
    source: ConfigSource
    synonyms: list[ConfigSynonym]
    """Where the value was looked for, strongest first."""


class EffectiveConfigs:
    """Knows what the server's settings say."""

    def __init__(self, settings: Settings) -> None:
        self._of_server = {
            MAX_MESSAGE_BYTES: str(settings.message_max_bytes),
            "segment.bytes": str(settings.log_segment_bytes),
        }
        # What a Kafka broker gives its own when it makes it.
        self._of_group_topic = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }

        # The same for all topics, so it is worked out once and not with every request.
        self.inherited: Final[Mapping[str, EffectiveConfig]] = {
            row.name: _first(row, list(self._inherited(row))) for row in TABLE.values()
        }
        """What a config is in a topic that has none of its own, by name in alphabetical order."""

    def of(self, topic: Topic) -> Iterator[EffectiveConfig]:
        """All configs, in alphabetical order."""
        own = self.own(topic)
        for name, inherited in self.inherited.items():
            yield self.with_topic_value(name, own[name]) if name in own else inherited

    def own(self, topic: Topic) -> Mapping[str, str]:
        """What the topic has of its own. There may be names that are no longer known."""
        return self._of_group_topic if topic.internal else topic.configs

    def with_topic_value(self, name: str, value: str) -> EffectiveConfig:
        """A known config that a topic has of its own."""
        inherited = self.inherited[name]
        synonym = ConfigSynonym(name, value, ConfigSource.TOPIC)
        return _first(inherited.row, [synonym, *inherited.synonyms])

    def _inherited(self, row: TopicConfig) -> Iterator[ConfigSynonym]:
        if row.broker_key is not None:
            value = self._of_server.get(row.name, row.default)
            if value != row.default:
                yield ConfigSynonym(row.broker_key, value, ConfigSource.STATIC_BROKER)
            yield ConfigSynonym(row.broker_key, row.default, ConfigSource.DEFAULT)


def _first(row: TopicConfig, synonyms: list[ConfigSynonym]) -> EffectiveConfig:
    first = synonyms[0] if synonyms else ConfigSynonym("", row.default, ConfigSource.DEFAULT)
    return EffectiveConfig(row, first.value, first.source, synonyms)
