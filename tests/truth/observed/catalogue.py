"""All situations: importing their modules fills the table."""

from tests.truth.observed import chances, comings, epochs, members, others, tuned
from tests.truth.observed.situations import SITUATIONS

__all__ = ["SITUATIONS", "chances", "comings", "epochs", "members", "others", "tuned"]
