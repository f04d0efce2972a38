"""`groupkeeper topics` against a server."""

import json
from collections.abc import Callable

import pytest

from groupkeeper.cli import main

pytestmark = pytest.mark.xdist_group("populated")  # one server for all of them
Capture = pytest.CaptureFixture[str]
Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(bootstrap: str, capsys: Capture) -> Run:
    def run_one(words: str) -> tuple[int, str, str]:
        code = main(["topics", *words.split(), "--bootstrap-server", bootstrap])
        out, err = capsys.readouterr()
        return code, out, err

    return run_one


def test_list(run: Run) -> None:
    assert run("list") == (0, "__consumer_offsets\n__group_events\nparcels\nreceipts\n", "")
    assert run("list --exclude-internal --topic .*s") == (0, "parcels\nreceipts\n", "")
    assert run("list --topic parcels,rec.*") == (0, "parcels\nreceipts\n", "")
    assert run("list --topic nothing") == (0, "", "")


def test_describe_has_kafkas_lines(run: Run) -> None:
    code, out, _ = run("describe --topic receipts")
    head, partition = out.splitlines()
    assert code == 0
    words = head.split("\t")
    assert words[0] == "Topic: receipts"
    assert len(words[1]) == len("TopicId: ") + 22
    assert words[2:] == ["PartitionCount: 1", "ReplicationFactor: 1", "Configs: "]
    assert partition == "\tTopic: receipts\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0"


def test_a_topic_is_created_described_and_deleted(run: Run) -> None:
    made = "create --topic made --partitions 3 --config retention.ms=5000"
    assert run(made) == (0, "Created topic made.\n", "")
    _, out, _ = run("describe --topics-with-overrides --exclude-internal --json")
    [topic] = [json.loads(line) for line in out.splitlines()]
    assert (topic["topic"], topic["partition_count"]) == ("made", 3)
    assert topic["configs"] == {"retention.ms": "5000"}
    assert run(made)[2] == "groupkeeper: topic 'made' already exists\n"
    assert run(f"{made} --if-not-exists") == (0, "", "")
    assert run("delete --topic mad.") == (0, "", "")
    assert run("delete --topic made")[::2] == (1, "groupkeeper: topic 'made' does not exist\n")
    assert run("delete --topic made --if-exists") == (0, "", "")


def test_a_name_that_is_also_a_regex_means_the_topic_of_that_name(run: Run) -> None:
    for name in ("x.y", "xzy"):
        run(f"create --topic {name}")
    assert run("list --topic x.y")[1] == "x.y\n"
    assert run("delete --topic x.y")[0] == 0
    assert run("list --topic x.y")[1] == "xzy\n"
    run("delete --topic xzy")


def test_replicas_are_assigned(run: Run) -> None:
    assert run("create --topic placed --replica-assignment 0,0")[0] == 0
    assert json.loads(run("describe --topic placed --json")[1])["partition_count"] == 2
    run("delete --topic placed")


@pytest.mark.parametrize(
    "condition",
    ["under-replicated-partitions", "under-min-isr-partitions", "unavailable-partitions"],
)
def test_partitions_that_are_well_are_not_shown(condition: str, run: Run) -> None:
    assert run(f"describe --{condition}") == (0, "", "")


def test_partitions_with_just_enough_replicas_are_shown_without_their_topic(run: Run) -> None:
    _, out, _ = run("describe --at-min-isr-partitions --topic parcels")
    assert len(out.splitlines()) == 4
    assert out.startswith("\tTopic: parcels\tPartition: 0")


def test_what_the_server_refuses_is_said(run: Run) -> None:
    code, out, err = run("create --topic bad --config no.such=1")
    told = "groupkeeper: topic 'bad' was not created: Unknown topic config name: no.such\n"
    assert (code, out, err) == (1, "", told)
    code, _, err = run("delete --topic __consumer_offsets")
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("create", "Missing option '--topic'"),
        ("create --topic t --partitions 0", "--partitions"),
        ("create --topic t --replication-factor 40000", "--replication-factor"),
        ("create --topic t --config x", "'x' is not name=value"),
        ("create --topic t --replica-assignment 0:0", "the same broker twice"),
        ("create --topic t --replica-assignment 0:1,2", "different numbers of replicas"),
        ("create --topic t --replica-assignment a", "'a' is not broker:broker"),
        ("create --topic t --replica-assignment 0 --partitions 1", "--replica-assignment excludes"),
        ("delete", "Missing option '--topic'"),
        ("list --topic (", "in '('"),
        ("describe --topics-with-overrides --unavailable-partitions", "shows no partitions"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(words: str, told: str, run: Run) -> None:
    code, out, err = run(words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
