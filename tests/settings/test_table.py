"""Settings: sources, types, and every way to be wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.settings.kafka_keys import KEYS, PREFIXES
from groupkeeper.settings.setting import LONG_MAX, Value
from groupkeeper.settings.table import TABLE, Settings, SettingsError, load


def settings(*assignments: str, **more: object) -> Settings:
    return load(assignments=assignments, **more)[0]  # type: ignore[arg-type]  # test shorthand


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("num_partitions", 1),
        ("auto_create_topics_enable", True),
        ("offsets_topic_num_partitions", 50),
        ("offsets_topic_segment_bytes", 104857600),
        ("group_initial_rebalance_delay_ms", 3000),
        ("group_min_session_timeout_ms", 6000),
        ("group_max_session_timeout_ms", 1800000),
        ("group_max_size", 2147483647),
        ("http_api_write", False),
        ("offsets_retention_minutes", 10080),
        ("offsets_retention_check_interval_ms", 600000),
        ("offset_metadata_max_bytes", 4096),
        ("message_max_bytes", 1048588),
        ("socket_request_max_bytes", 104857600),
        ("max_connections", 2147483647),
        ("log_cleaner_backoff_ms", 15000),
        ("log_cleaner_dedupe_buffer_size", 134217728),
        ("log_cleaner_delete_retention_ms", 86400000),
        ("log_cleaner_enable", True),
        ("log_cleaner_max_compaction_lag_ms", LONG_MAX),
        ("log_cleaner_min_cleanable_ratio", 0.5),
        ("log_cleaner_min_compaction_lag_ms", 0),
        ("log_cleanup_policy", "delete"),
        ("log_index_interval_bytes", 4096),
        ("log_index_size_max_bytes", 10485760),
        ("log_message_timestamp_after_max_ms", 3_600_000),
        ("log_message_timestamp_before_max_ms", LONG_MAX),
        ("log_message_timestamp_type", "CreateTime"),
        ("log_retention_bytes", -1),
        ("log_retention_check_interval_ms", 300000),
        ("log_retention_hours", 168),
        ("log_retention_minutes", None),
        ("log_retention_ms", None),
        ("log_roll_hours", 168),
        ("log_roll_ms", None),
        ("log_segment_bytes", 1073741824),
        ("fetch_max_bytes", 57671680),
        ("node_id", 0),
        ("group_events_min_free_bytes", 4 * 64 * 1024 * 1024),
        ("group_events_retention_bytes", 256 * 1024 * 1024),
        ("group_events_retention_total_bytes", 1024 * 1024 * 1024),
    ],
)
def test_defaults_are_those_of_kafka_or_our_own(attribute: str, value: Value | None) -> None:
    assert getattr(settings(), attribute) == value


def test_every_default_is_one_that_could_be_given() -> None:
    for row in TABLE.values():
        assert row.default is None or row.read(str(row.default)) == row.default
        assert row.dev is None or row.read(str(row.dev)) == row.dev


def test_the_table_is_in_alphabetical_order_and_documented() -> None:
    assert list(TABLE) == sorted(TABLE)
    assert all(row.doc.endswith(".") for row in TABLE.values())


def test_no_key_is_both_used_and_unused() -> None:
    assert KEYS.isdisjoint(TABLE)
    assert not [key for key in TABLE if key.startswith(PREFIXES)]


def test_later_sources_win(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("group.max.size=1\nnum.partitions=1\nmax.connections=1\n")
    environment = {"GROUPKEEPER_NUM_PARTITIONS": "2", "GROUPKEEPER_MAX_CONNECTIONS": "2"}
    found, _ = load(config, environment, ["max.connections=4", "max.connections=3"])
    assert (found.group_max_size, found.num_partitions, found.max_connections) == (1, 2, 3)


def test_dev_changes_defaults_only() -> None:
    dev = settings("group.min.session.timeout.ms=500", dev=True)
    assert dev.group_initial_rebalance_delay_ms == 0
    assert dev.offsets_topic_num_partitions == 1
    assert dev.group_min_session_timeout_ms == 500
    assert settings(dev=True).group_min_session_timeout_ms == 100


def test_a_servers_own_properties_file_is_accepted_and_unused_keys_are_named(
    tmp_path: Path,
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nlisteners=PLAINTEXT://:9092\nlog.dirs=/tmp/a\n"
        "log.dirs=/tmp/b\nlistener.name.internal.ssl.provider=x\nnum.partitions=3\n"
    )
    found, unused = load(config)
    assert found.num_partitions == 3
    assert unused == ("process.roles", "log.dirs", "listener.name.internal.ssl.provider")


def test_a_listener_has_settings_of_its_own() -> None:
    found = settings(
        "ssl.client.auth=required",
        "listener.name.inside.ssl.client.auth=none",
        "listener.name.a.b.ssl.key.password=secret",
    )
    assert found.for_listener("INSIDE").ssl_client_auth == "none"
    assert found.for_listener("OUTSIDE") is found
    assert found.for_listener("A.B").ssl_key_password == "secret"
    assert found.own_of("inside") == {"ssl_client_auth": "none"}
    assert found.given == {"ssl.client.auth"}


@pytest.mark.parametrize(
    "key", ["listener.name.a.num.partitions", "listener.name.ssl.key.password"]
)
def test_other_keys_of_listeners_have_no_effect(key: str) -> None:
    found, unused = load(assignments=[f"{key}=1"])
    assert unused == (key,)
    assert not found.overrides


def test_a_wrong_value_of_a_listener_names_the_whole_key() -> None:
    with pytest.raises(
        SettingsError, match=r"^listener.name.a.ssl.client.auth = 'maybe' \(--set\)"
    ):
        settings("listener.name.a.ssl.client.auth=maybe")


def test_no_secret_is_shown() -> None:
    secrets = [row for row in TABLE.values() if row.secret]
    given = [f"{row.key}=PLANTED" for row in secrets]
    found = settings(*given, *(f"listener.name.a.{each}" for each in given))
    assert len(secrets) >= 6
    assert "PLANTED" not in repr(found)


def test_the_older_name_of_the_node_id_works() -> None:
    assert settings("broker.id=7").node_id == 7


@pytest.mark.parametrize("text", ["true", "TRUE", " True "])
def test_booleans_are_read_as_kafka_reads_them(text: str) -> None:
    assert settings(f"auto.create.topics.enable={text}").auto_create_topics_enable is True


def test_values_may_have_space_and_sign() -> None:
    assert settings(" num.partitions = +12 ").num_partitions == 12
    limit = f"offsets.retention.check.interval.ms={LONG_MAX}"
    assert settings(limit).offsets_retention_check_interval_ms == LONG_MAX


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "group.max.sise=5",
            "group.max.sise (--set): no such setting; did you mean group.max.size?",
        ),
        ("listenerz=5", "listenerz (--set): no such setting; did you mean listeners?"),
        ("qqq=1", "qqq (--set): no such setting; see docs/configuration.md for the settings"),
        ("num.partitions", "--set 'num.partitions': give it as KEY=VALUE"),
        ("=1", "--set '=1': give it as KEY=VALUE"),
        *(
            (f"http.hosts=a.example,{name}", f"http.hosts: '{name}' is not a host name: give names")
            for name in ("http://b.example", "b.example:9644", "*.b.example", "b example", "b..c")
        ),
        ("num.partitions=two", "num.partitions = 'two' (--set): not a whole number (1 or more)"),
        ("num.partitions=", "num.partitions = '' (--set): not a whole number (1 or more)"),
        ("num.partitions=1.5", "num.partitions = '1.5' (--set): not a whole number (1 or more)"),
        ("num.partitions=-+5", "num.partitions = '-+5' (--set): not a whole number (1 or more)"),
        ("num.partitions=1_0", "num.partitions = '1_0' (--set): not a whole number (1 or more)"),
        ("num.partitions=0", "num.partitions = '0' (--set): out of range (1 to 2147483647)"),
        ("group.max.size=2147483648", "out of range (1 to 2147483647)"),
        ("num.partitions=" + "9" * 5000, "out of range (1 to 2147483647)"),
        ("auto.create.topics.enable=1", "'1' (--set): not true or false"),
        ("log.cleaner.min.cleanable.ratio=half", "'half' (--set): not a number (0 to 1)"),
        ("log.cleaner.min.cleanable.ratio=0_1", "'0_1' (--set): not a number (0 to 1)"),
        ("log.cleaner.min.cleanable.ratio=३", "'३' (--set): not a number (0 to 1)"),
        ("log.cleaner.min.cleanable.ratio=1.1", "'1.1' (--set): out of range (0 to 1)"),
        ("log.cleaner.min.cleanable.ratio=nan", "'nan' (--set): out of range (0 to 1)"),
        ("log.cleanup.policy=delete;compact", "is not one of: compact, delete"),
        ("log.cleanup.policy=delete,", "'' is not one of: compact, delete"),
        ("log.retention.ms=", "log.retention.ms = '' (--set): not a whole number (-1 or more)"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(assignment: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(assignment)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_session_bounds_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"group\.min\.session\.timeout\.ms = 9000 is more than"
    ):
        settings("group.min.session.timeout.ms=9000", "group.max.session.timeout.ms=8000")


def test_a_topic_that_must_be_compacted_before_it_may_be_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"log\.cleaner\.min\.compaction\.lag\.ms = 2 is more"):
        settings("log.cleaner.min.compaction.lag.ms=2", "log.cleaner.max.compaction.lag.ms=1")


@pytest.mark.parametrize("unit", ["ms", "minutes", "hours"])
def test_retention_of_no_time_is_refused_under_the_key_that_was_given(unit: str) -> None:
    with pytest.raises(SettingsError, match=rf"log\.retention\.{unit} = 0: give -1"):
        settings(f"log.retention.{unit}=0")


def test_retention_in_the_smallest_unit_comes_first() -> None:
    hour = 3_600_000
    assert settings().log_retention_time_ms == 168 * hour
    assert settings("log.retention.hours=24").log_retention_time_ms == 24 * hour
    assert settings("log.retention.hours=-1").log_retention_time_ms == -1
    assert settings("log.retention.minutes=-1").log_retention_time_ms == -1
    minutes = ("log.retention.hours=24", "log.retention.minutes=5")
    assert settings(*minutes).log_retention_time_ms == 300_000
    assert settings(*minutes, "log.retention.ms=7").log_retention_time_ms == 7
    # Kafka looks at the one that counts only.
    assert settings("log.retention.hours=0", "log.retention.ms=7").log_retention_time_ms == 7


def test_the_age_to_roll_at_in_milliseconds_comes_first() -> None:
    assert settings().log_roll_time_ms == 7 * 86_400_000
    assert settings("log.roll.hours=2").log_roll_time_ms == 7_200_000
    assert settings("log.roll.hours=2", "log.roll.ms=9").log_roll_time_ms == 9


@pytest.mark.parametrize("text", ["0.25", "+.25", " 25e-2 "])
def test_a_ratio_is_read(text: str) -> None:
    found = settings(f"log.cleaner.min.cleanable.ratio={text}")
    assert found.log_cleaner_min_cleanable_ratio == 0.25


@pytest.mark.parametrize(
    ("text", "value"), [("compact", "compact"), (" compact , delete ", "compact,delete"), ("", "")]
)
def test_a_list_of_words_is_read(text: str, value: str) -> None:
    assert settings(f"log.cleanup.policy={text}").log_cleanup_policy == value


def test_an_unknown_variable_is_refused_by_its_name() -> None:
    with pytest.raises(SettingsError, match=r"variable GROUPKEEPER_NUM_PARTITION\)"):
        load(environment={"GROUPKEEPER_NUM_PARTITION": "2"})


def test_variables_that_an_orchestrator_injects_are_left_alone() -> None:
    injected = {
        "GROUPKEEPER_SERVICE_HOST": "10.0.0.1",
        "GROUPKEEPER_PORT": "tcp://10.0.0.1:9092",
        "GROUPKEEPER_PORT_9092_TCP_ADDR": "10.0.0.1",
        "PATH": "/bin",
    }
    assert load(environment=injected) == (Settings(), ())


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--config .*: No such file or directory"):
        load(tmp_path / "absent.properties")
    (tmp_path / "bad.properties").write_text(r"a=\u00")
    with pytest.raises(SettingsError, match="four hexadecimal digits"):
        load(tmp_path / "bad.properties")


def test_the_import_is_cheap() -> None:
    """Nothing heavy may creep into the first milliseconds of the process."""
    code = (
        "import sys, groupkeeper.settings.table; print([m for m in "
        "('difflib', 'typing_extensions', 'asyncio', 'logging', 'groupkeeper.settings.kafka_keys')"
        " if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
