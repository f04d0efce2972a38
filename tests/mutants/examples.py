"""The bugs that the examples are about, in the service that they test: each fails for each client.

The tests of examples/ have to notice them, as those of a user would.
"""

from typing import NamedTuple

from tests.mutants.mutant import Mutant


class Bug(NamedTuple):
    """One bug, as it looks in each client library."""

    name: str
    test: str
    """That notices it: module and function."""
    edits: dict[str, tuple[str, str]]
    """By library, or for a module that all share under the name of that module: old and new."""


LIBRARIES = ("on_kafka_python", "on_aiokafka", "on_confluent")

BUGS = (
    Bug(
        "commits before it processes",
        "test_commit_after_processing.py::test_an_order_is_committed_after_it_was_charged",
        {
            "on_kafka_python": (
                "self._handle(record.value)\n                    self._commit(record)",
                "self._commit(record)\n                    self._handle(record.value)",
            ),
            "on_aiokafka": (
                (
                    "await self._handle(record.value)\n"
                    "                        await self._commit(record)"
                ),
                (
                    "await self._commit(record)\n"
                    "                        await self._handle(record.value)"
                ),
            ),
            "on_confluent": (
                "self._handle(message.value())\n                    self._commit(message)",
                "self._commit(message)\n                    self._handle(message.value())",
            ),
        },
    ),
    Bug(
        "is no static member",
        "test_rolling_restart.py::test_a_rolling_restart_moves_nothing",
        {
            "on_kafka_python": ("group_instance_id=instance_id", "client_id=instance_id"),
            "on_aiokafka": ('"group_instance_id": instance_id', '"client_id": instance_id'),
            "on_confluent": ('settings["group.instance.id"]', 'settings["client.id"]'),
        },
    ),
    Bug(
        "ends at a record that it cannot read",
        "test_poison_message.py::test_a_record_that_is_no_order_holds_up_nothing",
        dict.fromkeys(LIBRARIES, ("except UnreadableError:", "except ConnectionError:")),
    ),
    Bug(
        "takes as many records as it gets",
        "test_slow_handler.py::test_many_slow_orders_are_one_generation",
        {
            "on_kafka_python": ("max_records=1", "max_records=500"),
            "on_aiokafka": ("max_records=1", "max_records=500"),
            "on_confluent": ("consume(1, 0.05)", "consume(500, 0.05)"),
        },
    ),
    Bug(
        "charges an order as often as it comes",
        "test_duplicates.py::test_an_order_whose_commit_came_too_late_is_charged_once",
        {"orders": ("if order.id in self._charged:", "if not order.id:")},
    ),
    Bug(
        "ends when a commit is refused",
        "test_coordinator_failover.py::"
        "test_a_failover_that_is_longer_than_the_session_costs_a_rebalance_and_no_order",
        dict.fromkeys(
            LIBRARIES, ('log.warning("order is charged but not committed: %s", error)', "raise")
        ),
    ),
    Bug(
        "begins at the end without an offset",
        "test_expired_offsets.py::test_orders_that_came_while_the_offsets_expired_are_charged",
        {
            "on_kafka_python": ('auto_offset_reset="earliest"', 'auto_offset_reset="latest"'),
            "on_aiokafka": ('auto_offset_reset="earliest"', 'auto_offset_reset="latest"'),
            "on_confluent": ('"auto.offset.reset": "earliest"', '"auto.offset.reset": "latest"'),
        },
    ),
)


def _mutants(bug: Bug, library: str) -> Mutant:
    module = library if library in bug.edits else next(iter(bug.edits))
    old, new = bug.edits[module]
    test = f"examples/{bug.test}[{library}]"
    name = f"example {bug.name}, {library.removeprefix('on_')}"
    return Mutant(name, f"examples/billing/{module}.py", old, new, (test,))


EXAMPLE_MUTANTS = tuple(_mutants(bug, library) for bug in BUGS for library in LIBRARIES)
