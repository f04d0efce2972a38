"""One node of a test broker: `Node` to call, `AsyncNode` to await."""

from groupkeeper.settings.options import format_address
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.on_thread import OnThread, on_thread


class NodeView:
    """Which node it is, where it listens, and whether it runs."""

    def __init__(self, bench: Bench, node_id: int) -> None:
        self._bench = bench
        self.id = bench.cluster.check(node_id)

    @property
    def address(self) -> str:
        """`HOST:PORT`; the same in each of its lives."""
        return format_address(self._bench.cluster.address(self.id))

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._bench.is_up and self.id in self._bench.cluster.up


class Node(NodeView):
    """One node; `Broker.node` returns it."""

    def stop(self) -> None:
        """Hand over what it leads and coordinates to the node after it, as in a controlled
        shutdown; then close its port and its connections. No error if it does not run.

        Raises RequestFailed for the last node: stop the broker instead.
        """
        self._bench.run(lambda: self._bench.cluster.stop(self.id))

    def start(self) -> None:
        """Listen on its port again. It leads and coordinates nothing until something is moved to
        it, or other nodes stop. No error if it runs; OSError if its port was taken meanwhile.
        """
        self._bench.run(lambda: self._bench.cluster.start(self.id))


class AsyncNode(OnThread[Node], NodeView):
    """The same for coroutines."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        NodeView.__init__(self, node._bench, node.id)

    stop = on_thread(Node.stop)
    start = on_thread(Node.start)
