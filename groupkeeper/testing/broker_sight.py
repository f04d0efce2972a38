"""The methods shared by `Broker` and `AsyncBroker`: queries that return immediately."""

from collections.abc import Collection

from groupkeeper.observe.log_writer import readable
from groupkeeper.testing import arguments, client_settings
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.client_settings import ClientSettings
from groupkeeper.testing.faults.rules import Rule, key_of_api


class BrokerSight:
    """Queries for a broker's addresses, groups, fault rules, transcript and log."""

    _bench: Bench

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of each running node, as the client setting of the same name takes them.

        Raises BrokerDown before the first start.
        """
        return self._bench.bootstrap_servers

    def for_kafka_python(self, user: str | None = None) -> ClientSettings:
        """Return the keyword arguments with which kafka-python connects: addresses, login and TLS.

            KafkaConsumer("orders", **broker.for_kafka_python("alice"))

        `user`: one of `users=`; may be left out if there is one, or none. Raises BrokerDown before
        the first start, and WrongArgument.
        """
        return client_settings.kafka_python(self._bench.endpoint(user))

    def for_aiokafka(self, user: str | None = None) -> ClientSettings:
        """Return the keyword arguments for aiokafka; see `for_kafka_python`."""
        return client_settings.aiokafka(self._bench.endpoint(user))

    def for_confluent(self, user: str | None = None) -> ClientSettings:
        """Return the configuration for confluent-kafka, or another client with librdkafka; see
        `for_kafka_python`.
        """
        return client_settings.confluent(self._bench.endpoint(user))

    def for_java(self, user: str | None = None) -> ClientSettings:
        """Return the properties for Kafka's Java clients and tools; see `for_kafka_python`."""
        return client_settings.java(self._bench.endpoint(user))

    @property
    def cluster_id(self) -> str:
        """The cluster id, as in Metadata responses."""
        return self._bench.cluster_id

    def coordinator(self, group: str) -> int:
        """Return the id of the node that coordinates a group. Raises BrokerDown."""
        arguments.text(group, "a group's id")
        return self._bench.running.call(lambda: self._bench.cluster.coordinator(group))

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads a partition. Raises BrokerDown, RequestFailed."""
        return self._bench.running.call(lambda: self._bench.cluster.leader_of(topic, partition))

    @property
    def faults(self) -> Collection[Rule]:
        """The current fault rules, oldest first."""
        return [*self._bench.faults.rules]

    def check_faults(self) -> None:
        """Raise RuleNeverFired if a rule without `may_miss=True` never fired."""
        self._bench.faults.check()

    def groups(self) -> list[str]:
        """Return the ids of the existing groups, sorted. Raises BrokerDown."""
        return self._bench.sights.group_ids()

    def groups_seen(self) -> list[str]:
        """Return the ids of all groups with activity since the broker's start or reset, including
        deleted groups. Also available while the broker is not running.
        """
        return self._bench.sights.seen()

    def timeline(self, group_id: str) -> str:
        """Return a group's history since the broker's start or reset, with causes, and its present
        state unless the broker is down, as `groupkeeper why` prints them.
        """
        return self._bench.sights.timeline(arguments.text(group_id, "a group's id"))

    def transcript(
        self,
        *,
        apis: str | Collection[str] = (),
        clients: str | Collection[str] = (),
        times: bool = True,
    ) -> str:
        """Return all requests and responses since the broker's start or reset, across restarts:
        versions, fields, error names, and times in seconds by the broker's clock.

        `apis` and `clients` (client ids) filter. With `times=False` equal conversations give equal
        texts, for comparison with a stored one. At most the last 5,000 exchanges are kept; a first
        line counts dropped ones. Raises TypeError, and WrongArgument for an unknown API.
        """
        chosen = arguments.names(apis, "apis=")
        for each in chosen:
            key_of_api(each)
        ids = arguments.names(clients, "clients=")
        return self._bench.transcript.text(chosen, ids, times=times)

    @property
    def logs(self) -> list[str]:
        """The last 2,000 lines of the broker's log, as `groupkeeper serve` prints them."""
        return [*map(readable, self._bench.lines.copy())]
