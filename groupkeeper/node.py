"""This broker, as its answers describe it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Node:
    """This broker as clients see it."""

    node_id: int
    address: Callable[[], tuple[str, int]]
    """Advertised host and port; asked for each response, as the port is known after binding
    only."""
