"""Which client of those that are gone came back: its instance id, or its client id and host if
only one such member is gone and only one came.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from groupkeeper.analytics.history.generations import Member
from groupkeeper.why.returns import RETURN_MS


@dataclass(slots=True)
class Returns:
    """`lost`: identity -> members that are gone: their ids, when that was noticed, and their last
    commit.
    """

    lost: dict[str, list[tuple[str, int, int | None]]] = field(default_factory=dict)

    def lose(self, member: Member, at_ms: int, last_ms: int | None) -> None:
        """A member is gone."""
        self.lost.setdefault(member.identity, []).append((member.member, at_ms, last_ms))

    def find(self, joined: Sequence[Member], at_ms: int) -> None:
        """Set `away_ms` of members that came back: since the last commit."""
        if not joined:
            return
        self.lost = {
            key: recent
            for key, each in self.lost.items()
            if (recent := [gone for gone in each if at_ms - gone[1] <= RETURN_MS])
        }
        came = Counter(each.identity for each in joined)
        for each in joined:
            lost = self.lost.get(each.identity, ())
            if came[each.identity] == len(lost) == 1:
                each.away_ms = away_ms(lost[0][2], at_ms)
                del self.lost[each.identity]


def away_ms(last_ms: int | None, at_ms: int) -> int | None:
    """How long a client was gone that last committed then."""
    return None if last_ms is None else max(0, at_ms - last_ms)
