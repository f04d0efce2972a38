"""The configs of a topic that are in effect, and their sources.

Values are validated in configs.py. Settings of the server stand for three of Kafka's broker
configs; for the others, Kafka's defaults apply.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from groupkeeper.protocol.messages.describe_configs import ConfigSource
from groupkeeper.settings.table import Settings
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES, TABLE, TopicConfig


class ConfigSynonym(NamedTuple):
    """A source of a value, with its key there. Source: Kafka's `ConfigSynonym`."""

    key: str
    value: str
    source: ConfigSource


class EffectiveConfig(NamedTuple):
    """One config of one topic."""

    row: TopicConfig
    value: str
    source: ConfigSource
    synonyms: list[ConfigSynonym]
    """All sources with a value, highest precedence first."""


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
            row.name: _first(row, list(self._inherited(row))) for row in TABLE.values()
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
