"""All situations, in the order of the table."""

from tests.truth import members, rounds, servers
from tests.truth.situations import SITUATIONS

__all__ = ["SITUATIONS", "members", "rounds", "servers"]
