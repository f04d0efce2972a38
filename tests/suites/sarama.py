"""sarama's functional tests of groups, from the module as published, and one of our own."""

import sys
from pathlib import Path
from typing import ClassVar

from tests.suites import go, versions
from tests.suites.process import Lines
from tests.suites.suite import Results, Suite, SuiteError, Target

_MODULE = "github.com/IBM/sarama"
_TESTS = go.Package(_MODULE, versions.SARAMA, tags="functional")
_OURS = go.Ours("sarama_test.go", _TESTS)
_GROUPS = """
    TestFuncAdminAlterConsumerGroupOffsets TestFuncAdminDeleteGroup TestFuncAdminDescribeGroups
    TestFuncAdminListConsumerGroupOffsetsBatch TestFuncAdminListConsumerGroups
    TestFuncClientCoordinator TestFuncConsumerGroupCooperative TestFuncConsumerGroupExcessConsumers
    TestFuncConsumerGroupFuzzy TestFuncConsumerGroupOffsetDeletion TestFuncConsumerGroupPartitioning
    TestFuncConsumerGroupPartitioningStateful
    TestFuncConsumerGroupRebalanceAfterAddingPartitions TestFuncConsumerGroupStaticMembership_.*
    TestFuncJoinGroupVersionSelection TestFuncOffsetManager
"""
# Topics, records and configs, as far as they need no second node, no slow network and no docker.
_TOPICS = """
    TestFuncAdminAlterConfig TestFuncAdminDeleteRecords TestFuncAdminDeleteTopic
    TestFuncAdminListOffsets TestFuncConsumerOffsetOutOfRange TestFuncMultiPartitionProduce
    TestFuncProducingToInvalidTopic
"""
_CHECKOUT = Path(__file__).parents[2]


class Sarama(Suite):
    """Its tests are written for five brokers behind a toxiproxy: `sarama_cluster.py` plays those.

    Left out is TestFuncAdminListConsumerGroupOffsets, which stops a broker's container.
    """

    name = "sarama"
    about = "sarama: functional tests of groups, offsets and their administration; 40 MB produced"
    needs = ("go",)
    versions: ClassVar = {_MODULE: versions.SARAMA}
    limit_s = 420.0 + go.OURS_SECONDS

    def prepare(self, folder: Path) -> None:
        _OURS.prepare(folder)

    def run(self, target: Target, folder: Path) -> Results:
        command = [sys.executable, "-m", "tests.suites.sarama_cluster", target.bootstrap]
        log = str(folder / "cluster.log")
        with Lines(command, _CHECKOUT, limit_s=self.limit_s + 30, log=log) as cluster:
            said = next(iter(cluster), "it said nothing")
            if not said.startswith("ready "):
                raise SuiteError(said)
            env = {
                "TOXIPROXY_ADDR": f"http://{said.removeprefix('ready ')}",
                "KAFKA_VERSION": versions.KAFKA,
            }
            names = "|".join([*_GROUPS.split(), *_TOPICS.split()])
            yield from _TESTS.run(folder, f"^({names})$", env, self.limit_s - go.OURS_SECONDS)
        yield from _OURS.run(folder, go.ALL, {"BOOTSTRAP": target.bootstrap}, go.OURS_SECONDS)
