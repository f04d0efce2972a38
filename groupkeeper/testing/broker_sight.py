"""What `Broker` and `AsyncBroker` tell without taking time."""

from collections.abc import Collection

from groupkeeper.observe.log_writer import readable
from groupkeeper.testing import arguments
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.faults.rules import Rule, key_of_api


class BrokerSight:
    """Where it is, its groups, rules and log, and what was said."""

    _bench: Bench

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of each node that runs, as clients take it.

        Raises BrokerDown before the first start.
        """
        return self._bench.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """As Metadata responses have it."""
        return self._bench.cluster_id

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group. Raises BrokerDown."""
        arguments.text(group, "a group's id")
        return self._bench.running.call(lambda: self._bench.cluster.coordinator(group))

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises BrokerDown, RequestFailed."""
        return self._bench.running.call(lambda: self._bench.cluster.leader_of(topic, partition))

    @property
    def faults(self) -> Collection[Rule]:
        """The rules that are there now, in order."""
        return [*self._bench.faults.rules]

    def check_faults(self) -> None:
        """Raises RuleNeverFired if a rule never fired, and that was not allowed."""
        self._bench.faults.check()

    def groups(self) -> list[str]:
        """The ids of the groups that exist now, sorted. Raises BrokerDown."""
        return self._bench.sights.group_ids()

    def groups_seen(self) -> list[str]:
        """The ids of the groups that something has happened to since the broker's start or reset,
        also of those that are gone; also while it does not run.
        """
        return self._bench.sights.seen()

    def timeline(self, group_id: str) -> str:
        """What happened to a group since the broker's start or reset, and why, and what it does
        now, as `groupkeeper why` prints it. Also when the broker has crashed or was stopped.
        """
        return self._bench.sights.timeline(arguments.text(group_id, "a group's id"))

    def transcript(
        self,
        *,
        apis: str | Collection[str] = (),
        clients: str | Collection[str] = (),
        times: bool = True,
    ) -> str:
        """What clients and the broker said since its start or reset, over restarts: requests with
        versions and fields, answers with errors by name, seconds by the broker's clock.

        `apis` and `clients` (client ids) choose; without `times` the text of the same conversation
        is the same each time, to be compared with one that was kept. Of a long conversation, the
        end is kept, and the text says so. Raises TypeError, and WrongArgument for an unknown API.
        """
        chosen = arguments.names(apis, "apis=")
        for each in chosen:
            key_of_api(each)
        ids = arguments.names(clients, "clients=")
        return self._bench.transcript.text(chosen, ids, times=times)

    @property
    def logs(self) -> list[str]:
        """The last lines of the broker's log, as `groupkeeper serve` prints them."""
        return [*map(readable, self._bench.lines.copy())]
