"""This broker, as its responses describe it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Node:
    """Id and address of this broker."""

    node_id: int
    address: Callable[[str], tuple[str, int]]
    """Returns the advertised host and port of a listener, by its name; known after binding."""
