"""All situations: importing their modules fills the table. `MAIN`: names of those that people ask
about (docs/why.md), and those that have no records of their own, each with all of its clients.
"""

from typing import Final

from tests.truth.observed import chances, comings, epochs, members, others, tuned
from tests.truth.observed.situations import SITUATIONS

MAIN: Final = frozenset(
    {
        "close",
        "cooperative: a member joins",
        "cooperative: close",
        "cooperative: kill -9",
        "cooperative: one joins while another is killed",
        "coordinator's broker and a member killed",
        "coordinator's broker killed for longer than a session",
        "coordinator's broker killed, back after 5 s",
        "kill -9",
        "kill -9 and started again at once",
        "members are added one by one",
        "partitions are added",
        "paused for longer than the session",
        "poll too late",
        "rolling restart",
        "rolling restart, static",
        "slow member in a rebalance",
        "static member back too late",
        "static member removed by an administrator",
        "static member restarted again and again",
        "subscription changes",
        "subscription of a follower changes",
        "too slow member in a rebalance",
        "two members with one instance id",
        "zombie commits",
        *(each.name for each in SITUATIONS if each.is_consumer),
    }
)

__all__ = ["MAIN", "SITUATIONS", "chances", "comings", "epochs", "members", "others", "tuned"]
