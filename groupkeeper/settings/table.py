"""The settings of the server: one typed table under Kafka's own names.

A setting is a field of `Settings`, or of its bases; its key is the field's name with
dots for underscores. `load` reads defaults, a properties file, the environment and `--set`; later
sources win. An error is a `SettingsError` of one line that names the key. Command-line options for
a single process (addresses, data directory) are in `options`.

docs/configuration.md is generated from this table. The import has to be cheap: every start waits
for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from groupkeeper.settings.outside import injected, parse_properties
from groupkeeper.settings.sasl_settings import SaslSettings
from groupkeeper.settings.setting import (
    COMMAND_VARIABLES,
    ENVIRONMENT_PREFIX,
    INT_MAX,
    LISTENER_PREFIX,
    LONG_MAX,
    Setting,
    boolean,
    choice,
    unlimited,
    whole,
    words,
    written,
)

ALIASES = {"broker.id": "node.id"}
"""Older names that Kafka still accepts."""


class SettingsError(Exception):
    """A setting that cannot be used. One line: the key, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Settings(SaslSettings):
    """Every setting in use. Times are in the unit that the name ends with, sizes in bytes."""

    advertised_listeners: str | None = written(
        "NAME://HOST:PORT,...",
        "Address for the clients of each of the `listeners`, if it is not the bound one.",
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Allow everything on a resource that no ACL is about; needs `authorizer.class.name`."
    )
    authorizer_class_name: str = words(
        "",
        ("org.apache.kafka.metadata.authorizer.StandardAuthorizer",),
        "Allow only what ACLs allow, by the rules of Kafka's authorizer of this name; without it, "
        "everyone may do everything.",
    )
    auto_create_topics_enable: bool = boolean(
        True, "Create a topic when a client asks for its metadata and allows it."
    )
    connections_max_idle_ms: int = unlimited(
        600_000, "How long a connection may be idle between two requests; -1 for no limit."
    )
    data_dir_must_exist: bool = boolean(
        False,
        "Refuse to start on a data directory without data, such as one whose volume is not "
        "mounted; turn it on after the first start.",
    )
    fetch_max_bytes: int = whole(
        57_671_680, "Maximum bytes of record batches in one Fetch response.", low=1024
    )
    group_classic_leader_preference: str = choice(
        "first",
        ("first", "longest", "static"),
        "Which member computes assignments: the one that Kafka would choose, the one that is there "
        "for longest, or a static one.",
    )
    group_classic_metadata_watch: bool = boolean(
        False,
        "Rebalance a group as soon as one of its topics has more or fewer partitions, and not when "
        "its leader rejoins without that.",
    )
    group_classic_rebalance_min_interval_ms: int = whole(
        0,
        "Least time between two rebalances of a group, as far as members can wait: newcomers get "
        "no partitions meanwhile, those of lost members are reserved.",
        high=1_800_000,
    )
    group_classic_rebalance_step_interval_ms: int = whole(
        1_000, "Least time between two steps of the server's assignor.", high=1_800_000
    )
    group_classic_rebalance_step_partitions: int = whole(
        0, "How many partitions the server's assignor moves at a time; 0 for all."
    )
    group_classic_remote_assignor: str = words(
        "",
        ("uniform",),
        "Let the server assign partitions in Stable groups of consumers, without rebalances.",
    )
    group_classic_reserve_on: str = words(
        "lost",
        ("lost", "left"),
        "Of which members the partitions are reserved: whose session ended, or that left.",
    )
    group_classic_scale_up_window_ms: int = whole(
        0,
        "How long newcomers of a Stable group are without partitions while more of them may come, "
        "so that all start one rebalance; 0 for not at all.",
        high=1_800_000,
    )
    group_classic_scheduled_rebalance_max_delay_ms: int = whole(
        0,
        "How long the partitions of a lost member are reserved for its return, without a "
        "rebalance; 0 for not at all, as in Apache Kafka.",
        high=1_800_000,
    )
    group_classic_seat_match: str = choice(
        "client.id,host",
        ("client.id,host", "client.id", "any"),
        "What a client must have in common with a lost member to get its partitions.",
    )
    group_classic_target_group_size: int = whole(
        0, "How many members of a group get partitions, the others stand by; 0 for all."
    )
    group_events_enabled: bool = boolean(
        True, "Store what happens to groups, and why, in the topic `__group_events`."
    )
    group_events_min_free_bytes: int = whole(
        268_435_456,
        "While less is free on the file system of the data directory, no events are stored, to "
        "leave the rest to commits; 0 for no such bound.",
        high=LONG_MAX,
    )
    group_events_personal: str = choice(
        "keep",
        ("keep", "hash", "omit"),
        "How `__group_events` and the HTTP API show addresses of clients and the reasons "
        "that they give. Client ids are kept, as member ids begin with them; log lines have all.",
    )
    group_events_retention_bytes: int = unlimited(
        268_435_456,
        "Size of each partition of `__group_events` at which its oldest segments are deleted; -1 "
        "for no limit.",
    )
    group_events_retention_ms: int = unlimited(
        604_800_000, "Age at which segments of `__group_events` are deleted; -1 for no limit."
    )
    group_events_retention_total_bytes: int = unlimited(
        1_073_741_824,
        "Size of all partitions of `__group_events` together at which the oldest segments of the "
        "largest are deleted; -1 for no limit.",
    )
    group_initial_rebalance_delay_ms: int = whole(
        3_000, "How long the first rebalance of an empty group waits for more members.", dev=0
    )
    group_max_session_timeout_ms: int = whole(
        1_800_000, "Longest session timeout that a member may request.", low=1
    )
    group_max_size: int = whole(INT_MAX, "Maximum members of one group.", low=1)
    group_min_session_timeout_ms: int = whole(
        6_000, "Shortest session timeout that a member may request.", dev=100
    )
    http_api_write: bool = boolean(
        False,
        "Let the HTTP API and the page remove members, reset and delete offsets and delete groups;"
        " anyone who reaches the port may. With `http.tokens.file`, roles decide instead.",
    )
    http_hosts: str | None = written(
        "NAME,...",
        "Host names for the HTTP port in browsers, besides those of the addresses and the host.",
    )
    listener_security_protocol_map: str | None = written(
        "NAME:PROTOCOL,...",
        "Protocol of each of the `listeners`: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Not set: "
        "a listener named like a protocol has it, others have PLAINTEXT.",
    )
    listeners: str | None = written(
        "NAME://HOST:PORT,...",
        "Addresses for Kafka clients, by name, instead of the single one of `--listen`.",
    )
    max_connections: int = whole(
        INT_MAX,
        "Maximum client connections; more are closed at once. Never more than the process "
        "may open files.",
    )
    max_connections_per_ip: int = whole(
        INT_MAX, "Maximum client connections from one address; more are closed at once."
    )
    message_max_bytes: int = whole(
        1_048_588, "Largest record batch, from a producer or written for a group."
    )
    metrics_max_series: int = whole(
        50_000,
        "Maximum series for single groups, and for single topics, in `/metrics`; further groups "
        "and topics are added up as `__other__`. 0 for none.",
    )
    node_id: int = whole(0, "Id of this node, unless the command line gives `--node-id`.")
    num_partitions: int = whole(1, "Partitions of a topic that is created without a count.", low=1)
    offset_metadata_max_bytes: int = whole(
        4_096, "Longest metadata string of one committed offset, in UTF-16 units."
    )
    offsets_raw_retention_ms: int = unlimited(
        0,
        "How long segments of `__consumer_offsets` are kept in `archive/` as they were before "
        "compaction, for analysis; 0 keeps none, -1 keeps them for good.",
    )
    offsets_retention_check_interval_ms: int = whole(
        600_000, "How often expired offsets are searched for and removed.", low=1, high=LONG_MAX
    )
    offsets_retention_minutes: int = whole(
        10_080, "How long offsets are kept after the group has become empty.", low=1
    )
    offsets_topic_num_partitions: int = whole(
        50, "Partitions of `__consumer_offsets`; fixed once data exists.", low=1, dev=1
    )
    offsets_topic_segment_bytes: int = whole(
        104_857_600,
        "Size at which a partition of `__consumer_offsets` begins a new segment.",
        low=1,
    )
    producer_id_expiration_ms: int = whole(
        86_400_000,
        "How long a partition remembers an idempotent producer that does not write to it.",
        low=1,
    )
    queued_max_request_bytes: int = unlimited(
        268_435_456,
        "Bytes of received requests that are not answered, over all connections; without room, no "
        "more of a long request is read. -1, Kafka's default, for no limit.",
    )
    socket_request_max_bytes: int = whole(
        104_857_600,
        "Largest request; a connection that announces more is closed. Requests except Produce of "
        "more than 4 MiB, or four times `message.max.bytes` if that is more, are refused.",
        low=1,
    )
    super_users: str | None = written(
        "Type:name;...",
        "Principals that may do everything, such as `User:admin`; needs `authorizer.class.name`.",
    )
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """Keys that were set, to any value. Not a setting itself."""
    overrides: tuple[tuple[str, str, str, Any], ...] = field(default=(), repr=False)
    """For single listeners: name and SASL mechanism (or "") in lower case, attribute, value."""

    def for_listener(self, name: str) -> "Settings":
        """Return the settings of one listener, with its own values in place of the general ones."""
        own = self.own_of(name)
        return replace(self, **own) if own else self

    def own_of(self, name: str, mechanism: str = "") -> dict[str, Any]:
        """Return what is given for this listener only, by attribute; for a mechanism, if given."""
        where = name.lower(), mechanism.lower()
        return {attribute: value for *of, attribute, value in self.overrides if (*of,) == where}


def _table() -> dict[str, Setting]:
    rows: dict[str, Setting] = {}
    for item in sorted(fields(Settings), key=attrgetter("name")):
        if row := item.metadata.get("row"):
            row.key = item.name.replace("_", ".")
            rows[row.key] = row
    return rows


TABLE: Mapping[str, Setting] = _table()
"""Every setting by its key, in alphabetical order of the keys."""


HOST_NAME: Final = re.compile(r"[\w-]+(\.[\w-]+)*\.?|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?", re.ASCII)
"""A name of a machine, or an IP address."""


def load(
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    *,
    dev: bool = False,
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings, and the given keys that only Kafka uses.

    `environment` is the whole environment of the process, `assignments` are the `KEY=VALUE` of the
    command line. Raises SettingsError.
    """
    values: dict[str, Any] = {}  # Any: Setting.read() ensures the type of each
    unused: dict[str, None] = {}
    if dev:
        values.update({row.attribute: row.dev for row in TABLE.values() if row.dev is not None})
    given: set[str] = set()
    overrides: dict[tuple[str, str, str], Any] = {}
    for source, key, text in _given(config, environment or {}, assignments):
        listener, mechanism, row = _row_of(key)
        if row is None:
            _expect_known(key, source)
            unused[key] = None
            continue
        try:
            value = row.read(text)
        except ValueError as problem:
            raise SettingsError(f"{key} = {text!r} ({source}): {problem}") from None
        if listener:
            overrides[listener, mechanism, row.attribute] = value
        else:
            values[row.attribute] = value
            given.add(row.key)
    own = tuple((*where, value) for where, value in overrides.items())
    settings = replace(Settings(), **values, given=frozenset(given), overrides=own)
    _check_combinations(settings)
    return settings, tuple(unused)


def _row_of(key: str) -> tuple[str, str, Setting | None]:
    """Return listener and mechanism that a key is for, or "", and its row, or None."""
    if key.startswith(LISTENER_PREFIX):
        from groupkeeper.settings.listener_keys import of_listener

        return of_listener(key.removeprefix(LISTENER_PREFIX), TABLE)
    return "", "", TABLE.get(ALIASES.get(key, key))


def _given(
    config: Path | None, environment: Mapping[str, str], assignments: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (source in words, key, text) of every given setting, weakest source first."""
    if config is not None:
        for key, text in _read_file(config):
            yield str(config), key, text
    commands = {ENVIRONMENT_PREFIX + each for each in COMMAND_VARIABLES}
    for variable, text in sorted(environment.items()):
        if variable in commands or injected(variable, text):
            continue
        if variable.startswith(ENVIRONMENT_PREFIX):
            key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            yield f"environment variable {variable}", key, text
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign or not key.strip():
            raise SettingsError(f"--set {assignment!r}: give it as KEY=VALUE")
        yield "--set", key.strip(), text


def _read_file(config: Path) -> list[tuple[str, str]]:
    try:
        # As in java.util.Properties: bytes are Latin-1, anything else is escaped.
        return parse_properties(config.read_text(encoding="latin-1"))
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
    least, most = (
        settings.log_cleaner_min_compaction_lag_ms,
        settings.log_cleaner_max_compaction_lag_ms,
    )
    if least > most:
        raise SettingsError(
            f"log.cleaner.min.compaction.lag.ms = {least} is more than "
            f"log.cleaner.max.compaction.lag.ms = {most}: lower the one or raise the other"
        )
    if settings.group_events_retention_ms == 0:
        raise SettingsError(
            "group.events.retention.ms = 0: give -1 to keep events without limit, or 1 or more; "
            "group.events.enabled=false stores none"
        )
    if settings.log_retention_time_ms == 0:
        keys = [f"log.retention.{unit}" for unit in ("ms", "minutes", "hours")]
        key = next(key for key in keys if getattr(settings, TABLE[key].attribute) is not None)
        raise SettingsError(f"{key} = 0: give -1 to keep records without limit, or 1 or more")
    for name in (settings.http_hosts or "").split(","):
        if name.strip() and not HOST_NAME.fullmatch(name.strip()):
            raise SettingsError(
                f"http.hosts: {name.strip()!r} is not a host name: give names like board.example, "
                "without scheme, port and wildcard"
            )
