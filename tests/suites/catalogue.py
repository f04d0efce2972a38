"""All suites, in the order in which they are run and shown."""

from tests.suites.analyze_groups import AnalyzeGroups
from tests.suites.browser import Browser, ObservedBrowser
from tests.suites.examples import Examples
from tests.suites.franz_go import FranzGo
from tests.suites.groups_cli import GroupsCli
from tests.suites.java import Java
from tests.suites.kafka_moves import KafkaMoves
from tests.suites.kafka_python import KafkaPython
from tests.suites.kafka_tools import KafkaTools
from tests.suites.kafkajs import KafkaJs, Platformatic
from tests.suites.policies import Policies
from tests.suites.prometheus import ObservedPrometheus, Prometheus
from tests.suites.ranges import Ranges
from tests.suites.report import Report
from tests.suites.s3 import S3
from tests.suites.sarama import Sarama
from tests.suites.secure import Secure
from tests.suites.spark_cluster import SparkCluster
from tests.suites.spark_kafka import SparkKafka
from tests.suites.spark_tables import SparkTables
from tests.suites.suite import Suite

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        FranzGo(),
        Sarama(),
        KafkaJs(),
        Platformatic(),
        KafkaPython(),
        Java(),
        KafkaTools(),
        GroupsCli(),
        KafkaMoves(),
        AnalyzeGroups(),
        SparkCluster(),
        SparkTables(),
        Prometheus(),
        ObservedPrometheus(),
        Browser(),
        ObservedBrowser(),
        Report(),
        Examples(),
        Ranges(),
        S3(),
        SparkKafka(),
        Policies(),
        Secure(),
    )
}
