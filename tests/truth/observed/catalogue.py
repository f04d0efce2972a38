"""All situations: importing their modules fills the table."""

from tests.truth.observed import comings, members, others
from tests.truth.observed.situations import SITUATIONS

__all__ = ["SITUATIONS", "comings", "members", "others"]
