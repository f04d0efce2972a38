"""The table of docs/testing-faults.md: its rows stand at the tests that see them."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


class Row(NamedTuple):
    """What a client did; of Kafka's words only the API's name is code."""

    effect: str
    where: str
    client: str
    did: str

    def line(self) -> str:
        """As a line of the page."""
        client = f"{self.client} {version(self.client)}"
        return f"| `{self.effect}` | {self.where} | {client} | {self.did} |"


ROWS: Final[list[Row]] = []


def saw(effect: str, where: str, client: str, did: str) -> Callable[[Test], Test]:
    """What the test below asserts, in words for the table."""

    def note(test: Test) -> Test:
        ROWS.append(Row(effect, where, client, did))
        return test

    return note


def table() -> str:
    """All rows, in the order of the tests."""
    head = "| effect | of | client | what the client did |\n|---|---|---|---|\n"
    return head + "\n".join(row.line() for row in ROWS) + "\n"
