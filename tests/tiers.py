"""The two tiers of tests: `make test` runs the short one, `make test-all` both."""

from collections.abc import Mapping
from typing import Final

LONG: Final[Mapping[str, tuple[str, ...]]] = {
    "examples/test_slow_handler.py": ("on_aiokafka",),
    "tests/access/test_planted.py": ("however",),
    "tests/analytics/test_answering.py::test_more_groups": ("keeps0",),
    "tests/analytics/test_failures.py::test_a_broken_table_is_named[": ("cut_off",),
    "tests/analytics/test_lag.py::test_runs_on_a_growing": (),
    "tests/analytics/test_odd_values.py::test_a_refusal": ("[-5]", "1180591620717411303424-"),
    "tests/analytics/test_odd_values.py::test_odd_numbers": ("1180591620717411303424",),
    "tests/analytics/test_power_cut.py": ("[True]",),
    "tests/analytics/test_store.py::test_a_run_that_is_killed": (),
    "tests/analytics/test_tables.py::test_groups_without": (),
    "tests/analytics/test_what_if_truth.py": (
        *("rolling_restart", "static_members[30", "are_kept[60000", "spare"),
    ),
    "tests/benchmarks/": ("test_floor.py", "test_guard.py", "test_report.py"),
    "tests/cli/test_analyze_cluster.py::test_a_folder_of_tables": (),
    "tests/cli/test_demo.py::test_readme_begins": (),
    "tests/cli/test_demo.py::test_what_is_kept": (),
    "tests/client/test_sessions.py::test_a_login_is_made": ("OAUTHBEARER",),
    "tests/clients/": (
        *("share_six_partitions_and_consume_everything_once[aiokafka", "moves[confluent-kafka"),
        "share_six_partitions_and_consume_everything_once[kafka-python-3",
    ),
    "tests/connections/test_pause.py::test_members_that_beat": (),
    "tests/coordinator/test_exhaustive.py::test_a_reply_or_a_parked_token": (),
    "tests/fuzz/": ("nothing[4]", "with_sense", "_noted", "_well", "left_out", "seed_alone"),
    "tests/groups/test_damaged_partition.py::test_crashes_at_any": ("[tear]",),
    "tests/groups/test_kill.py": (),
    "tests/history/test_histories.py::test_commits_that": (),
    "tests/history/test_slices.py::test_events_and_records": (),
    "tests/kills/test_kills.py": ("two_kills_lose", "what_was", "a_group", "told", "half"),
    "tests/packaging/": ("test_the_wheel",),
    "tests/policies/test_policies.py::test_a_member_that_is": (),
    "tests/repair/test_crash.py": ("-0]",),
    "tests/seats/test_lives.py": ("[0]",),
    "tests/simulation/": ("test_virtual_loop.py", "test_a_look"),
    "tests/storage/test_cleaning_crash.py": (),
    "tests/storage/test_crash.py::test_a_crash_during_recovery": ("kill]", "lose]"),
    "tests/storage/test_crash.py::test_nothing_acknowledged": ("kill]", "lose]"),
    "tests/storage/test_swap.py": ("[kill]",),
    "tests/topics/test_catalog.py::test_no_crash_during": ("[kill]",),
    "tests/topics/test_limits.py": (),
    "tests/truth/test_incidents.py::test_what_is_told": (),
    "tests/truth/test_truth.py": ("[closed]", "words"),
    "tests/watch/test_store.py::test_a_killed": ("7]",),
    "tests/weeks/": (
        "same_bytes",
        "outages_are",
        "leaders_assign",
        "who_",
        "rate_that",
        "limit_may",
    ),
}
"""Beginning of a test id -> parts of the ids of those that stay in the short tier. These tests take
half of the time, and seldom fail for a single change: older client libraries, more seeds, other
Pythons, every way in which a disk can fail.
"""
SPARK: Final = ("test_records_of_sparks_kafka_source",)
"""The same of tests with a session of Spark."""


def is_long(test_id: str, *, on_spark: bool = False) -> bool:
    """Whether a test is in the long tier only."""
    for beginning, short in LONG.items():
        if test_id.startswith(beginning):
            return not any(part in test_id for part in short)
    return on_spark and not any(part in test_id for part in SPARK)
