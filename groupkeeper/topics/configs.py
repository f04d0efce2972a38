"""Topic configs: the names that Kafka has, the values it accepts, and the defaults.

Every config is stored and described; docs/topics.md lists those that have an effect.
Source: Kafka 4.1's `LogConfig` and `TopicConfig`, and its answers on the wire.
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypedDict, Unpack

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import ConfigKind
from groupkeeper.settings.log_settings import CLEANUP_POLICIES, CREATE_TIME, LOG_APPEND_TIME
from groupkeeper.topics.refusals import Refused

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
RETENTION_MS: Final = "retention.ms"
SEGMENT_MS: Final = "segment.ms"
_LEAST_LAG: Final = "min.compaction.lag.ms"
_MOST_LAG: Final = "max.compaction.lag.ms"
_TIERED: Final = "remote.storage.enable"

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
# Compiled at first use, not when the server starts. No stretch of digits can match in two ways:
# clients send values of any length, and matching must take linear time.
_WHOLE: Final = r"[+-]?[0-9]{1,32}"
_DECIMAL: Final = (
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|[+-]?(?:NaN|Infinity)"
)
_REPLICAS: Final = r"([0-9]+:[0-9]+)?"
_SPACE: Final = "".join(map(chr, range(33)))
"""The characters removed by Java's `String.trim`."""


def _refused(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, message)


class TopicConfig(NamedTuple):
    """One config that a topic can have."""

    name: str
    kind: ConfigKind
    default: str
    broker_key: str | None = None
    """The broker config that applies to topics that do not set this one."""
    low: int | None = None
    high: int | None = None
    besides: int | None = None
    """One value that is valid outside of the range."""
    words: tuple[str, ...] = ()

    def read(self, text: str) -> str:
        """Return the value in canonical form. Raises Refused."""
        text = text.strip(_SPACE)
        match self.kind:
            case ConfigKind.BOOLEAN:
                return self._boolean(text)
            case ConfigKind.INT | ConfigKind.LONG:
                return self._whole(text)
            case ConfigKind.DOUBLE:
                return self._decimal(text)
            case ConfigKind.LIST:
                return self._list(text)
        self._check_word(text)
        return text

    def _boolean(self, text: str) -> str:
        if text.lower() not in ("true", "false"):
            raise self._invalid(text, "Expected value to be either true or false")
        return text.lower()

    def _whole(self, text: str) -> str:
        largest = _INT_MAX if self.kind is ConfigKind.INT else _LONG_MAX
        value = int(text) if re.fullmatch(_WHOLE, text) else largest + 1
        if not -largest - 1 <= value <= largest:
            raise self._invalid(text, f"Not a number of type {self.kind.name}")
        self._check_range(value, str(value))
        return str(value)

    def _decimal(self, text: str) -> str:
        found = re.fullmatch(_DECIMAL, text)
        if found is None:
            raise self._invalid(text, "Not a number of type DOUBLE")
        value = float(found[1] or text)
        shown = java_double(value)
        self._check_range(value, shown)
        return shown

    def _check_range(self, value: float, shown: str) -> None:
        # NaN is neither below nor above anything, and passes here as it does in Kafka.
        below = self.low is not None and value < self.low
        above = self.high is not None and value > self.high
        if not (below or above) or value == self.besides:
            return
        if self.besides is not None:
            either = f"Value must be between {self.low} and {self.high} or equal to {self.besides}"
            raise self._invalid(shown, either)
        raise self._invalid(
            shown,
            f"Value must be at least {self.low}"
            if below
            else f"Value must be no more than {self.high}",
        )

    def _list(self, text: str) -> str:
        items = parts(text, empty=True)
        if self.words:
            for item in items:
                self._check_word(item)
        elif items != ["*"] and not all(re.fullmatch(_REPLICAS, item) for item in items):
            raise self._invalid(
                f"[{', '.join(items)}]",
                f"{self.name} must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
        return ",".join(items)

    def _check_word(self, text: str) -> None:
        if text not in self.words:
            raise self._invalid(text, f"String must be one of: {', '.join(self.words)}")

    def _invalid(self, value: str, why: str) -> Refused:
        return _refused(f"Invalid value {value} for configuration {self.name}: {why}")


class _More(TypedDict, total=False):
    low: int
    high: int
    besides: int
    words: tuple[str, ...]


def _row(
    name: str, kind: ConfigKind, default: object, broker: str = "", **more: Unpack[_More]
) -> TopicConfig:
    """`broker`: the broker's key, "" if there is none; "=" stands for the name."""
    key = broker.replace("=", name) or None
    return TopicConfig(name, kind, str(default), key, **more)


_BOOLEAN, _STRING, _INT = ConfigKind.BOOLEAN, ConfigKind.STRING, ConfigKind.INT
_LONG, _DOUBLE, _LIST = ConfigKind.LONG, ConfigKind.DOUBLE, ConfigKind.LIST
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMES = (CREATE_TIME, LOG_APPEND_TIME)

TABLE: Final[Mapping[str, TopicConfig]] = {
    row.name: row
    for row in (
        _row("cleanup.policy", _LIST, "delete", "log.=", words=CLEANUP_POLICIES),
        _row("compression.gzip.level", _INT, -1, "=", low=1, high=9, besides=-1),
        _row("compression.lz4.level", _INT, 9, "=", low=1, high=17),
        _row("compression.type", _STRING, "producer", "=", words=_CODECS),
        _row("compression.zstd.level", _INT, 3, "=", low=-131_072, high=22),
        _row("delete.retention.ms", _LONG, 86_400_000, "log.cleaner.delete.retention.ms", low=0),
        _row("file.delete.delay.ms", _LONG, 60_000, "log.segment.delete.delay.ms", low=0),
        _row("flush.messages", _LONG, _LONG_MAX, "log.flush.interval.messages", low=1),
        _row("flush.ms", _LONG, _LONG_MAX, low=0),
        _row("follower.replication.throttled.replicas", _LIST, ""),
        _row("index.interval.bytes", _INT, 4_096, "log.=", low=0),
        _row("leader.replication.throttled.replicas", _LIST, ""),
        _row("local.retention.bytes", _LONG, -2, "log.=", low=-2),
        _row("local.retention.ms", _LONG, -2, "log.=", low=-2),
        _row(_MOST_LAG, _LONG, _LONG_MAX, "log.cleaner.max.compaction.lag.ms", low=1),
        _row(MAX_MESSAGE_BYTES, _INT, 1_048_588, "message.max.bytes", low=0),
        _row("message.timestamp.after.max.ms", _LONG, 3_600_000, "log.=", low=0),
        _row("message.timestamp.before.max.ms", _LONG, _LONG_MAX, "log.=", low=0),
        _row("message.timestamp.type", _STRING, CREATE_TIME, "log.=", words=_TIMES),
        _row(
            "min.cleanable.dirty.ratio",
            _DOUBLE,
            0.5,
            "log.cleaner.min.cleanable.ratio",
            low=0,
            high=1,
        ),
        _row(_LEAST_LAG, _LONG, 0, "log.cleaner.min.compaction.lag.ms", low=0),
        _row("min.insync.replicas", _INT, 1, "=", low=1),
        _row("preallocate", _BOOLEAN, "false", "log.="),
        _row("remote.log.copy.disable", _BOOLEAN, "false"),
        _row("remote.log.delete.on.disable", _BOOLEAN, "false"),
        _row(_TIERED, _BOOLEAN, "false"),
        _row("retention.bytes", _LONG, -1, "log.="),
        _row(RETENTION_MS, _LONG, 604_800_000, "log.=", low=-1),
        _row("segment.bytes", _INT, 1_073_741_824, "log.=", low=1_048_576),
        _row("segment.index.bytes", _INT, 10_485_760, "log.index.size.max.bytes", low=4),
        _row("segment.jitter.ms", _LONG, 0, low=0),
        _row(SEGMENT_MS, _LONG, 604_800_000, "log.roll.ms", low=1),
        _row("unclean.leader.election.enable", _BOOLEAN, "false", "="),
    )
}
"""Every config by its name, in alphabetical order."""


def java_double(value: float) -> str:
    """Format like Java's `Double.toString`, which Kafka shows."""
    shown = repr(value)
    if math.isnan(value) or math.isinf(value):
        return shown.replace("nan", "NaN").replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shown
    # Imported late: few values are so small, and the server starts faster without it.
    from decimal import Decimal

    mantissa, exponent = f"{Decimal(shown).normalize():E}".split("E")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent)}"


def parts(text: str, *, empty: bool = False) -> list[str]:
    """Return the items of a list, split as in Kafka; empty ones only with `empty`."""
    if not text.strip(_SPACE):
        return []
    items = [item.strip(_SPACE) for item in text.split(",")]
    return items if empty else [item for item in items if item]


def validated(
    given: Mapping[str, str | None],
    stored: Mapping[str, str] = MappingProxyType({}),
    inherited: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Validate all configs of one topic, and return them in canonical form.

    Nulls are refused first, then unknown names, then values, then contradictory values. Raises
    Refused.

    `stored`: the topic's present configs. Values that equal these are not validated again: the
    release that stored them may have had other names and bounds. `inherited`: values of configs
    that the topic does not set, where they are not Kafka's defaults.
    """
    texts = {name: text for name, text in given.items() if text is not None}
    for name in given:
        if name not in texts:
            raise _refused(f"Null value not supported for topic configs: {name}")
    new = {name for name, text in texts.items() if stored.get(name) != text}
    for name in texts:
        if name in new and name not in TABLE:
            raise _refused(f"Unknown topic config name: {name}")
    configs = {
        name: TABLE[name].read(text) if name in new else text for name, text in texts.items()
    }
    _check_together(configs, new, inherited)
    return configs


def _check_together(
    configs: Mapping[str, str], new: set[str], inherited: Mapping[str, str]
) -> None:
    if not new.isdisjoint((_LEAST_LAG, _MOST_LAG)):
        least, most = (
            int(row.read(configs.get(row.name, inherited.get(row.name, row.default))))
            for row in (TABLE[_LEAST_LAG], TABLE[_MOST_LAG])
        )
        if least > most:
            raise _refused(
                f"conflict topic config setting {_LEAST_LAG} ({least}) > {_MOST_LAG} ({most})"
            )
    if _TIERED in new and configs[_TIERED] == "true":
        raise _refused(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
