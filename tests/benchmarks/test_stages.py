"""How samples of stacks become stages, and stages a table."""

import pytest

from benchmarks.stages import CASES, KERNEL, OTHER, Profile, shares_of, stage_of, table

LOOP = "run (groupkeeper/server/main.py:42);BaseEventLoop._run_once (asyncio/base_events.py:1922)"
WRITER = "Thread._bootstrap (threading.py:1002);_worker (concurrent/futures/thread.py:83)"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        ("Handle._run (asyncio/events.py:80)", "asyncio"),
        ("EpollSelector.select (selectors.py:468)", "selector"),
        ("Connection._frame (groupkeeper/connections/connection.py:140)", "connections"),
        ("decode (<JoinGroupRequest v7 decode>:85)", "decode requests"),
        ("encode (<SyncGroupResponse v5 encode response>:10)", "encode answers"),
        ("encode (<GroupMetadataValue v3 encode versioned>:26)", "encode records"),
        ("event_of (groupkeeper/observe/events.py:49)", "events: made and encoded"),
        ("write_line (groupkeeper/observe/fact_lines.py:50)", "log lines"),
        ("Partition.handle (groupkeeper/coordinator/partition.py:191)", "partitions"),
        ("join (groupkeeper/coordinator/join.py:66)", "decisions"),
        # Generated or foreign code belongs to what calls it.
        ("join (groupkeeper/coordinator/join.py:66);<lambda> (<string>:1)", "decisions"),
        ("_uuid_member_id (groupkeeper/server/server.py:74)", "asyncio"),
    ],
)
def test_a_sample_belongs_to_its_innermost_function_with_a_stage(frames: str, stage: str) -> None:
    assert stage_of(f"{LOOP};{frames}") == stage


def test_what_has_no_stage_is_everything_else() -> None:
    assert stage_of("run (groupkeeper/server/main.py:42)") == OTHER


def test_threads_are_divided_each_by_itself_and_without_those_that_wait() -> None:
    lines = [
        f"{LOOP};join (groupkeeper/coordinator/join.py:66) 3",
        f"{LOOP};Handle._run (asyncio/events.py:80) 1",
        f"{WRITER};FlushWriter.commit (groupkeeper/storage/journal/flush_writer.py:61) 5",
        "Thread._bootstrap (threading.py:1002);_worker (concurrent/futures/thread.py:81) 90",
    ]
    assert shares_of(lines, main=True) == {"decisions": 0.75, "asyncio": 0.25}
    assert shares_of(lines, main=False) == {"journal and segments": 1.0}


def test_no_samples_are_no_shares() -> None:
    assert shares_of([], main=True) == {}


def test_the_table_has_a_row_for_each_stage_that_takes_time() -> None:
    found = table([Profile(CASES[0], 12.0, 6.5, {KERNEL: 4.04, "decisions": 7.96})])
    assert found.splitlines() == [
        "| Microseconds for one | heartbeat |",
        "|---|---:|",
        f"| {KERNEL} | 4.0 |",
        "| decisions | 8.0 |",
        "| **in all** | 12.0 |",
        "| a bare responder | 6.5 |",
    ]
