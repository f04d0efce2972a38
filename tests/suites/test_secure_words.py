"""How what Kafka's tools print with logins is compared."""

from tests.suites.kafka_checks import CLASSES
from tests.suites.secure_words import ASKED, compared, differences


def test_what_varies_is_left_out() -> None:
    theirs = [
        "[2026-11-30 00:01:01,123] WARN to 127.0.0.1:9092",
        "",
        "ClusterAuthorizationException: Request Request(processor=3",
        "SCRAM credential configs for 'carol' are SCRAM-SHA-512=8192, SCRAM-SHA-256=4096",
        "\tat java.base/java.lang.Thread.run",
    ]
    ours = [
        "ClusterAuthorizationException: Cluster authorization failed.",
        "SCRAM credential configs for 'carol' are SCRAM-SHA-256=4096, SCRAM-SHA-512=8192",
        "[2026-11-30 00:01:02,456] WARN to 127.0.0.1:19092",
    ]
    assert compared(theirs) == compared(ours)


def test_a_difference_is_told_by_line() -> None:
    assert differences(["a", "b"], ["b", "c"]) == ["only Kafka: a", "only ours: c"]
    assert differences(["a"], ["a", "a"]) == ["the same lines, but not as often"]
    assert not differences(["a"], ["a"])


def test_each_question_has_a_name_and_a_tool_of_its_own() -> None:
    assert len({each.title for each in ASKED}) == len(ASKED)
    assert {each.tool for each in ASKED} <= CLASSES.keys()
