"""`groupkeeper groups` against a server with groups of every kind."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from groupkeeper.cli import main
from tests.support.populated import EMPTIED, IDLE, PAIR, STATIC, WORKERS, commit
from tests.support.process import Process

pytestmark = pytest.mark.xdist_group("populated")  # one server for all of them
Capture = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(bootstrap: str, capsys: Capture) -> Run:
    """Runs one command against the server: exit code, standard output, standard error."""

    def run_one(words: str, *more: str) -> tuple[int, str, str]:
        asked = [] if "--bootstrap-server" in words else ["--bootstrap-server", bootstrap]
        code = main(["groups", *words.split(), *more, *asked])
        out, err = capsys.readouterr()
        return code, out, err

    return run_one


def rows(out: str) -> list[list[str]]:
    """The cells of a table without its headings."""
    return [line.split() for line in out.splitlines() if line and not line.startswith("GROUP ")]


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_list_names_the_groups_of_consumers(run: Run) -> None:
    assert run("list") == (0, f"{EMPTIED}\n{IDLE}\n{PAIR}\n{STATIC}\n", "")


def test_list_with_states_types_and_protocols(run: Run) -> None:
    _, out, _ = run("list --type --state --protocol")
    assert out.split("\n")[1].split() == ["GROUP", "TYPE", "STATE", "PROTOCOL"]
    assert [WORKERS, "Classic", "Stable", "connect"] in rows(out)
    assert [EMPTIED, "Classic", "Empty", "-"] in rows(out)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--state empty", [EMPTIED]),
        ("--state", [EMPTIED, IDLE, PAIR, STATIC]),
        ("--state STABLE,dead", [IDLE, PAIR, STATIC]),
        ("--type consumer", []),
        ("--protocol connect", [WORKERS]),
    ],
)
def test_list_filters(words: str, expected: list[str], run: Run) -> None:
    _, out, _ = run(f"list {words}")
    assert [row[0] for row in rows(out)] == expected
    assert [each["group"] for each in objects(run(f"list {words} --json")[1])] == expected


def test_that_no_group_is_shown_is_a_line_on_standard_error(run: Run) -> None:
    code, out, err = run("list --type consumer")
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert "no group matches: `groupkeeper groups list --protocol` shows all" in err
    assert run("list --type consumer --json") == (0, "", "")
    with Process("--dev", "--memory", "--http", "off") as process:
        address = "{}:{}".format(*process.ready().kafka)
        for words in ("list", "describe --all-groups"):
            told = 0, "", "groupkeeper: the cluster has no groups\n"
            assert run(f"{words} --bootstrap-server {address}") == told


def test_describe_shows_offsets_and_lag_of_a_group_without_members(run: Run) -> None:
    code, out, err = run(f"describe --group {EMPTIED}")
    assert code == 0
    assert rows(out) == [
        [EMPTIED, "parcels", "0", "3", "10", "7", "-", "-", "-"],
        [EMPTIED, "parcels", "1", "10", "10", "0", "-", "-", "-"],
        [EMPTIED, "receipts", "0", "1", "10", "9", "-", "-", "-"],
    ]
    assert err == f"\nConsumer group '{EMPTIED}' has no active members.\n"


def test_describe_shows_who_owns_what(run: Run) -> None:
    _, out, _ = run(f"describe --group {PAIR} --json")
    found = {(each["topic"], each["partition"]): each for each in objects(out)}
    assert len(found) == 5
    owners = {each["client_id"] for key, each in found.items() if key[0] == "parcels"}
    assert owners == {"one", "two"}
    assert found["receipts", 0]["client_id"] is None
    assert found["parcels", 3]["lag"] == 5
    assert found["parcels", 0]["host"] == "/127.0.0.1"


def test_an_assigned_partition_without_an_offset_has_no_lag(run: Run) -> None:
    _, out, _ = run(f"describe --group {IDLE} --lag-seconds --json")
    [row] = objects(out)
    assert (row["current_offset"], row["log_end_offset"]) == (None, 10)
    assert row["lag"] is row["lag_seconds"] is None


def test_lag_in_seconds_is_the_age_of_the_next_record(run: Run) -> None:
    """Records are a second apart; the log of `receipts` begins at 4, behind the offset 1."""
    _, out, _ = run(f"describe --group {EMPTIED} --lag-seconds --json")
    at_3, at_end, before_start = (each["lag_seconds"] for each in objects(out))
    assert at_end == 0
    assert at_3 - before_start == pytest.approx(1.0)
    assert at_3 > 7


def test_groups_that_are_at_different_offsets_of_a_partition_have_different_ages(run: Run) -> None:
    _, out, _ = run(f"describe --group {EMPTIED} --group {PAIR} --lag-seconds --json")
    ages = {
        (each["group"], each["topic"]): each["lag_seconds"]
        for each in objects(out)
        if each["partition"] == 0
    }
    assert ages[PAIR, "parcels"] - ages[EMPTIED, "parcels"] == pytest.approx(1.0)
    assert ages[EMPTIED, "receipts"] - ages[PAIR, "receipts"] == pytest.approx(1.0)


def test_describe_the_lag_of_topics(run: Run) -> None:
    _, out, _ = run(f"describe --group {PAIR} --topics --lag-seconds --json")
    parcels, receipts = objects(out)
    assert (parcels["partitions"], parcels["lag"], parcels["most_lag"]) == (4, 26, 8)
    assert parcels["lag_seconds"] - receipts["lag_seconds"] == pytest.approx(3.0)


def test_describe_members(run: Run) -> None:
    _, out, _ = run(f"describe --group {STATIC} --members --verbose")
    first, second = sorted(rows(out))
    assert first[2:] == ["static-a", "/127.0.0.1", "static-a", *"1 - receipts:0 - -".split()]
    assert second[2:] == ["static-b", "/127.0.0.1", "static-b", *"0 - - - -".split()]


def test_members_without_instance_ids_or_of_another_protocol(run: Run) -> None:
    _, out, _ = run(f"describe --group {PAIR} --members")
    assert out.split("\n")[1].split() == "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS".split()
    [worker] = objects(run(f"describe --group {WORKERS} --members --json")[1])
    assert (worker["group_instance_id"], worker["partitions"]) == ("worker", None)


def test_describe_states(run: Run, bootstrap: str) -> None:
    _, out, _ = run(f"describe --group {PAIR} --state --verbose")
    assert rows(out) == [[PAIR, bootstrap, "(0)", "range", "Stable", "-", "-", "2"]]


def test_the_cause_of_the_last_rebalance(run: Run) -> None:
    [found] = objects(run(f"describe --group {PAIR} --state --why --json")[1])
    assert found["last_cause"].endswith("Z member_joined")
    code, _, err = run(f"describe --group {PAIR} --members --why")
    assert (code, err) == (2, "groupkeeper: --why requires --state\n")


def test_a_group_that_does_not_exist_leaves_the_others_shown(run: Run) -> None:
    code, out, err = run(f"describe --group nobody --group {IDLE}")
    assert code == 1
    assert "groupkeeper: consumer group 'nobody' does not exist\n" in err
    assert [row[0] for row in rows(out)] == [IDLE]


def test_groups_by_regex(run: Run) -> None:
    _, out, _ = run("describe --group-regex .*i.* --state")
    assert [row[0] for row in rows(out)] == [EMPTIED, IDLE, PAIR, STATIC]
    code, _, err = run("describe --group-regex bill.*")
    assert (code, err.count("\n")) == (1, 1)
    assert "none of 4 consumer groups matches 'bill.*'" in err


def test_delete_says_why_not(run: Run) -> None:
    code, out, err = run(f"delete --group {PAIR} --group nobody")
    assert (code, out) == (1, "")
    refused, missing = sorted(err.splitlines(), reverse=True)
    assert "group 'pair' was not deleted: it is Stable with 2 members: stop them first" in refused
    assert missing == "groupkeeper: group 'nobody' was not deleted: it does not exist"


def test_delete_a_group(run: Run, bootstrap: str) -> None:
    asyncio.run(commit(bootstrap, "made", {("parcels", 0): 6, ("parcels", 2): 6}))
    _, out, _ = run("describe --group made")
    assert [row[2:6] for row in rows(out)] == [["0", "6", "10", "4"], ["2", "6", "10", "4"]]
    code, out, _ = run("delete --group made")
    assert (code, out) == (0, "Deletion of requested consumer groups ('made') was successful.\n")
    assert run("describe --group made")[0] == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("remove-members --group nobody --all-members", "group 'nobody' does not exist"),
        (f"remove-members --group {PAIR} --client-id x", "none of the 2 members of group 'pair'"),
    ],
)
def test_refusals_are_one_line_that_says_what_to_do(words: str, told: str, run: Run) -> None:
    code, _, err = run(words)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("groupkeeper: ")
    assert told in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--instance-id static-?", ["static-a", "static-b"]),
        ("--instance-id *b", ["static-b"]),
        ("--client-id static-a --client-id static-b --host 127.*", ["static-a", "static-b"]),
        ("--client-id static-a --instance-id static-b --host *", []),
        ("--member-id static-a-*", ["static-a"]),
        ("--all-members", ["static-a", "static-b"]),
    ],
)
def test_which_members_would_be_removed(words: str, expected: list[str], run: Run) -> None:
    _, out, _ = run(f"remove-members --group {STATIC} {words} --json")
    assert sorted(each["group_instance_id"] for each in objects(out)) == expected
    assert {each["status"] for each in objects(out)} <= {"Would be removed"}


def test_a_member_is_removed(run: Run) -> None:
    """Connect's worker, which does not come back: nobody runs it."""
    words = f"remove-members --group {WORKERS} --instance-id worker --reason upgrade --execute"
    code, out, err = run(words)
    assert (code, err) == (0, "")
    [row] = rows(out)
    assert row[-1] == "Removed"
    assert objects(run("list --protocol connect --state empty --json")[1])[0]["group"] == WORKERS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("list --state great", "'great' is not one of Empty, PreparingRebalance"),
        ("list --type share", "'share' is not one of Classic, Consumer"),
        ("describe", "one of --group, --all-groups, --group-regex"),
        ("describe --group g --all-groups", "one of --group, --all-groups, --group-regex"),
        ("describe --group-regex (", "--group-regex"),
        ("describe --group g --members --lag-seconds", "--lag-seconds requires"),
        ("describe --group g --members --state", "Only one of --offsets, --topics"),
        ("remove-members --group g", "Select members with --member-id"),
        ("remove-members --group g --all-members --dry-run --execute", "are mutually exclusive"),
        ("list --timeout 0", "--timeout"),
        ("list --bootstrap-server localhost", "'localhost' is not host:port"),
        ("list --bootstrap-server a:1,b:x", "'b:x' is not host:port"),
        ("list --bootstrap-server a:65536", "'a:65536' is not host:port"),
        ("list --command-config /nowhere", "does not exist"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(words: str, told: str, run: Run) -> None:
    code, out, err = run(words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


@pytest.mark.parametrize(
    ("listening", "told"),
    [
        (lambda held: held.listen(), "(nothing within 200 ms): start one"),
        (lambda held: None, "Connect call failed"),
    ],
)
def test_what_listens_but_does_not_answer(
    listening: Callable[[socket], None], told: str, capsys: Capture
) -> None:
    with socket() as held:
        held.bind(("127.0.0.1", 0))
        listening(held)
        address = f"127.0.0.1:{held.getsockname()[1]}"
        words = f"groups list --timeout 0.2 --bootstrap-server {address}"
        assert main(words.split()) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"groupkeeper: no Kafka node answers at {address} (")
    assert told in err
    assert err.count("\n") == 1


def test_a_file_that_cannot_be_used_is_a_wrong_call(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    code, _, err = run("list --command-config", str(file))
    assert (code, err.count("\n")) == (2, 1)
    assert f"{file}: security.protocol must be one of" in err


def test_a_file_without_security_changes_only_the_client_id(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=ops\n")
    assert run("list --command-config", str(file))[0] == 0


def test_an_address_that_nobody_listens_on_is_named(capsys: Capture) -> None:
    assert main(["groups", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("groupkeeper: no Kafka node answers at 127.0.0.1:1 (")
    assert "name another with --bootstrap-server" in err


def test_a_process_of_its_own_writes_rows_only(bootstrap: str) -> None:
    command = [
        sys.executable,
        "-m",
        "groupkeeper",
        "groups",
        "list",
        "--bootstrap-server",
        bootstrap,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert EMPTIED in ran.stdout.splitlines()
    assert ran.stderr == ""


def test_a_reader_that_stops_reading_is_no_error(bootstrap: str) -> None:
    command = f"{sys.executable} -m groupkeeper groups describe --all-groups --bootstrap-server"
    ran = subprocess.run(
        ["bash", "-c", f"{command} {bootstrap} | true"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ran.stderr


# -- configs of groups -----------------------------------------------------------------------------

GRACE = "classic.scheduled.rebalance.max.delay.ms"


def configs(out: str) -> dict[str, tuple[str, str]]:
    return {each["config"]: (each["value"], each["from"]) for each in objects(out)}


def test_policy_shows_sets_and_clears_configs(run: Run) -> None:
    code, out, err = run("policy --group new --json")
    assert (code, err) == (0, "")
    assert configs(out)[GRACE] == ("0", "default")
    given = f"--set {GRACE}=60000 --set consumer.session.timeout.ms=50000"
    code, out, _ = run(f"policy --group new {given} --json")
    assert (code, configs(out)[GRACE]) == (0, ("60000", "group"))
    code, out, _ = run("policy --group new --clear --json")
    assert configs(out)[GRACE] == ("0", "default")
    assert configs(out)["consumer.session.timeout.ms"] == ("50000", "group")
    code, out, _ = run("policy --group new --unset consumer.session.timeout.ms")
    assert ["new", "consumer.session.timeout.ms", "45000", "default"] in rows(out)


def test_a_config_that_is_refused_is_told_and_nothing_is_changed(run: Run) -> None:
    code, out, err = run(f"policy --group new --set {GRACE}=soon")
    assert code == 1
    assert err == (
        f"groupkeeper: group 'new' was not changed: Invalid value soon for configuration {GRACE}: "
        "Not a number of type INT\n"
    )
    assert ["new", GRACE, "0", "default"] in rows(out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--set x", "'x' is not NAME=VALUE"),
        ("--set x=1 --unset x", "x is both set and unset"),
        (f"--set {GRACE}=1 --clear", "--clear unsets all policies"),
    ],
)
def test_changes_that_contradict_each_other_are_refused(words: str, said: str, run: Run) -> None:
    code, _, err = run(f"policy --group new {words}")
    assert code == 2
    assert said in err
