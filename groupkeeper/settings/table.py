"""The settings of the server: one typed table under Kafka's own names.

A setting is a field of `Settings`; its key is the field's name with dots for underscores.
`load` reads defaults, a properties file, the environment and `--set`; the later source wins. An
error is a `SettingsError` of one line that names the key. What the command line sets for a single
process (addresses, data directory) is in `options`.

docs/configuration.md is generated from this table. The import has to be cheap: every start waits
for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from groupkeeper.settings.injected import injected
from groupkeeper.settings.properties import parse

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ENVIRONMENT_PREFIX = "GROUPKEEPER_"

ALIASES = {"broker.id": "node.id"}
"""Older names that Kafka still accepts."""


class SettingsError(Exception):
    """A setting that cannot be used. One line: the key, what is wrong, what to do."""


def _int(
    default: int, doc: str, *, low: int = 0, high: int = INT_MAX, dev: int | None = None
) -> Any:
    # Any: as dataclasses.field itself, this stands where a value of the field's type is expected.
    return field(default=default, metadata={"low": low, "high": high, "doc": doc, "dev": dev})


def _bool(default: bool, doc: str) -> Any:
    # Any: see _int.
    return field(default=default, metadata={"doc": doc, "dev": None})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting in use. Times in the unit that the name ends with, sizes in bytes."""

    auto_create_topics_enable: bool = _bool(
        True, "Create a topic when a client asks for its metadata and allows it."
    )
    connections_max_idle_ms: int = _int(
        600_000,
        "How long a connection may be idle between two requests; -1 for no limit.",
        low=-1,
        high=LONG_MAX,
    )
    data_dir_must_exist: bool = _bool(
        False,
        "Refuse to start on a data directory without data, such as one whose volume is not "
        "mounted; turn it on after the first start.",
    )
    fetch_max_bytes: int = _int(
        57_671_680, "Most bytes of record batches in one Fetch response.", low=1024
    )
    group_initial_rebalance_delay_ms: int = _int(
        3_000, "How long the first rebalance of an empty group waits for more members.", dev=0
    )
    group_max_session_timeout_ms: int = _int(
        1_800_000, "Longest session timeout that a member may ask for.", low=1
    )
    group_max_size: int = _int(INT_MAX, "Most members of one group.", low=1)
    group_min_session_timeout_ms: int = _int(
        6_000, "Shortest session timeout that a member may ask for.", dev=100
    )
    log_segment_bytes: int = _int(
        1_073_741_824, "Size at which a topic partition begins a new segment file.", low=14
    )
    max_connections: int = _int(
        INT_MAX,
        "Most client connections at a time; more are closed at once. Never more than the process "
        "may open files.",
    )
    max_connections_per_ip: int = _int(
        INT_MAX, "Most client connections from one address; more are closed at once."
    )
    message_max_bytes: int = _int(
        1_048_588, "Largest record batch, from a producer or written for a group."
    )
    node_id: int = _int(0, "Id of this node, unless the command line gives `--node-id`.")
    num_partitions: int = _int(1, "Partitions of a topic that is created without a count.", low=1)
    offset_metadata_max_bytes: int = _int(
        4_096, "Longest metadata string of one committed offset, in UTF-16 units."
    )
    offsets_retention_check_interval_ms: int = _int(
        600_000, "How often expired offsets are searched for and removed.", low=1, high=LONG_MAX
    )
    offsets_retention_minutes: int = _int(
        10_080, "How long offsets are kept after the group has become empty.", low=1
    )
    offsets_topic_num_partitions: int = _int(
        50, "Partitions of `__consumer_offsets`; fixed once data exists.", low=1, dev=1
    )
    offsets_topic_segment_bytes: int = _int(
        104_857_600,
        "Size at which a partition of `__consumer_offsets` begins a new segment.",
        low=1,
    )
    producer_id_expiration_ms: int = _int(
        86_400_000,
        "How long a partition remembers an idempotent producer that does not write to it.",
        low=1,
    )
    queued_max_request_bytes: int = _int(
        268_435_456,
        "Bytes of received requests that are not answered, over all connections; without room, no "
        "more of a long request is read. -1, Kafka's default, for no limit.",
        low=-1,
        high=LONG_MAX,
    )
    socket_request_max_bytes: int = _int(
        104_857_600,
        "Largest Produce request; a connection that announces more is closed. Others may have 4 "
        "MiB, or four times `message.max.bytes` if that is more.",
        low=1,
    )
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """Keys that were set, to any value. Not a setting itself."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    key: str
    kind: type
    default: int | bool
    dev: int | None
    """Default under `--dev`, where it differs."""
    low: int
    high: int
    doc: str

    @property
    def attribute(self) -> str:
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return ENVIRONMENT_PREFIX + self.attribute.upper()

    @property
    def bounds(self) -> str:
        """The allowed values, in words."""
        if self.kind is bool:
            return "true or false"
        if self.high in (INT_MAX, LONG_MAX):
            return f"{self.low} or more"
        return f"{self.low} to {self.high}"

    def read(self, text: str) -> int | bool:
        """The typed value. Raises ValueError, whose text says what is wrong."""
        text = text.strip()
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError("not true or false")
            return text.lower() == "true"
        digits = text[1:] if text.startswith(("+", "-")) else text
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"not a whole number ({self.bounds})")
        # Every long has at most twenty digits; int() of a longer text would take long.
        value = int(text) if len(digits) <= 20 else LONG_MAX + 1
        if not self.low <= value <= self.high:
            raise ValueError(f"out of range ({self.low} to {self.high})")
        return value


def _table() -> dict[str, Setting]:
    rows: dict[str, Setting] = {}
    for item in fields(Settings):
        if item.name == "given":
            continue
        assert item.default is not MISSING and isinstance(item.type, type)
        meta, key = item.metadata, item.name.replace("_", ".")
        low, high = meta.get("low", 0), meta.get("high", 1)
        rows[key] = Setting(key, item.type, item.default, meta["dev"], low, high, meta["doc"])
    return rows


TABLE: Mapping[str, Setting] = _table()
"""Every setting by its key, in alphabetical order of the keys."""


def load(
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    *,
    dev: bool = False,
) -> tuple[Settings, tuple[str, ...]]:
    """The settings, and the given keys that only Kafka uses.

    `environment` is the whole environment of the process, `assignments` are the `KEY=VALUE` of the
    command line. Raises SettingsError.
    """
    values: dict[str, Any] = {}  # Any: Setting.read() answers for the type of each
    unused: dict[str, None] = {}
    if dev:
        values.update({row.attribute: row.dev for row in TABLE.values() if row.dev is not None})
    given: set[str] = set()
    for source, key, text in _given(config, environment or {}, assignments):
        row = TABLE.get(ALIASES.get(key, key))
        if row is None:
            _expect_known(key, source)
            unused[key] = None
            continue
        try:
            values[row.attribute] = row.read(text)
        except ValueError as problem:
            raise SettingsError(f"{key} = {text!r} ({source}): {problem}") from None
        given.add(row.key)
    settings = replace(Settings(), **values, given=frozenset(given))
    _check_combinations(settings)
    return settings, tuple(unused)


def _given(
    config: Path | None, environment: Mapping[str, str], assignments: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    """(source in words, key, text) of every given setting, weakest source first."""
    if config is not None:
        for key, text in _read_file(config):
            yield str(config), key, text
    others = injected(environment, ENVIRONMENT_PREFIX)
    for variable in sorted(environment):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in others:
            key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            yield f"environment variable {variable}", key, environment[variable]
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign or not key.strip():
            raise SettingsError(f"--set {assignment!r}: give it as KEY=VALUE")
        yield "--set", key.strip(), text


def _read_file(config: Path) -> list[tuple[str, str]]:
    try:
        # As java.util.Properties: bytes are Latin-1, anything else is escaped.
        return parse(config.read_text(encoding="latin-1"))
    except OSError as problem:
        raise SettingsError(f"--config {config}: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise SettingsError(f"--config {config}: {problem}") from None


def _expect_known(key: str, source: str) -> None:
    from groupkeeper.settings.kafka_keys import KEYS, is_known_to_kafka

    if is_known_to_kafka(key):
        return
    from difflib import get_close_matches

    close = get_close_matches(key, TABLE, 1) or get_close_matches(key, KEYS, 1)
    advice = f"did you mean {close[0]}?" if close else "see docs/configuration.md for the settings"
    raise SettingsError(f"{key} ({source}): no such setting; {advice}")


def _check_combinations(settings: Settings) -> None:
    low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if low > high:
        raise SettingsError(
            f"group.min.session.timeout.ms = {low} is more than group.max.session.timeout.ms = "
            f"{high}: no session timeout could be accepted; lower the one or raise the other"
        )
