"""All incidents, in the order of the table."""

from tests.truth.incidents import comings, connect, silences, stalls, statics, topics
from tests.truth.incidents.truths import INCIDENTS

__all__ = ["INCIDENTS", "comings", "connect", "silences", "stalls", "statics", "topics"]
