"""The identity of this broker in its responses."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Node:
    """Node id and addresses of this broker."""

    node_id: int
    address: Callable[[str], tuple[str, int]]
    """Returns the advertised (host, port) of a listener by name; valid after binding."""
