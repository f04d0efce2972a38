"""franz-go's tests of its consumers, from the module as published, and one of our own."""

from pathlib import Path
from typing import ClassVar

from tests.suites import go, versions
from tests.suites.suite import Results, Suite, Target

_PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
_TESTS = go.Package(_PACKAGE, versions.FRANZ_GO)
_OURS = go.Ours("franz_go_test.go", _TESTS)
_GROUPS = "TestGroupETL TestGroupSimple TestIssue523 Test848RegexBrokerResolves"
# Those of the package that consume without a group; its other tests talk to no broker, produce
# only, or are about transactions and share groups.
_CONSUMERS = """
    TestAddRemovePartitions TestConsumeMaxDecompressBatchBytes TestConsumeRegex
    TestDirectPartitionPurge TestHookPollStart TestIssue325 TestIssue337 TestIssue434 TestIssue810
    TestIssue865 TestIssueFetchLargerThanBrokerMaxReadBytes TestPauseIssue489 TestPauseIssueOct2023
    TestPooling
"""
# The module's own 500,000 records exercise a disk, not a coordinator.
_RECORDS = 5_000


class FranzGo(Suite):
    """TestGroupETL is the heart of it: a chain of three groups whose members come and go, through
    which every record passes exactly once, with eager, cooperative and static members.
    """

    name = "franz-go"
    about = "franz-go: the tests of pkg/kgo that consume, TestGroupETL for groups; 40 MB produced"
    needs = ("go",)
    versions: ClassVar = {_PACKAGE: versions.FRANZ_GO}
    limit_s = 300.0 + go.OURS_SECONDS
    known: ClassVar = {
        "Test848RegexBrokerResolves": "it is skipped only where ConsumerGroupHeartbeat is not "
        "advertised; here it is refused, and the client goes on with the classic protocol"
    }

    def prepare(self, folder: Path) -> None:
        _OURS.prepare(folder)

    def run(self, target: Target, folder: Path) -> Results:
        env = {
            "KGO_SEEDS": target.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(_RECORDS),
            "KGO_LOG_LEVEL": "none",
        }
        names = "|".join([*_GROUPS.split(), *_CONSUMERS.split()])
        yield from _TESTS.run(folder, f"^({names})$", env, self.limit_s - go.OURS_SECONDS)
        yield from _OURS.run(folder, go.ALL, {"BOOTSTRAP": target.bootstrap}, go.OURS_SECONDS)
