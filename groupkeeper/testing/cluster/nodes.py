"""The nodes of a test broker for tests: `Node`, and `AsyncNode` for coroutines."""

from groupkeeper.settings.options import format_address
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.on_thread import OnThread, on_thread


class NodeView:
    """The id, address and state of a node."""

    def __init__(self, bench: Bench, node_id: int) -> None:
        self._bench = bench
        self.id = bench.cluster.check(node_id)

    @property
    def address(self) -> str:
        """`HOST:PORT`; unchanged by restarts."""
        return format_address(self._bench.cluster.address(self.id))

    @property
    def is_up(self) -> bool:
        """Whether the node is running."""
        return self._bench.is_up and self.id in self._bench.cluster.up


class Node(NodeView):
    """A node of a test broker, with blocking methods; see `Broker.node`."""

    def stop(self) -> None:
        """Hand over the node's partitions and groups to the next running node, as in a controlled
        shutdown; then close its port and connections. Does nothing if the node is not running.

        Raises RequestFailed for the last running node: stop the broker instead.
        """
        self._bench.run(lambda: self._bench.cluster.stop(self.id))

    def start(self) -> None:
        """Listen on the node's port again; does nothing if the node is running. It leads and
        coordinates nothing until a move, or until other nodes stop. Raises OSError if its port is
        taken.
        """
        self._bench.run(lambda: self._bench.cluster.start(self.id))


class AsyncNode(OnThread[Node], NodeView):
    """A node of a test broker, for coroutines."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        NodeView.__init__(self, node._bench, node.id)

    stop = on_thread(Node.stop)
    start = on_thread(Node.start)
