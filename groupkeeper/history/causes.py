"""Codes of the causes that are inferred from records, and how sure each is.

Each code has a stated confidence; docs/analytics.md describes how it was measured.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.protocol.group_events import CauseCode

UNKNOWN: Final = "unknown"
LEFT: Final = CauseCode.MEMBER_LEFT.value
REMOVED: Final = CauseCode.MEMBER_REMOVED_BY_ADMIN.value
EXPIRED: Final = CauseCode.SESSION_EXPIRED.value
JOINED: Final = CauseCode.MEMBER_JOINED.value
STATIC_JOINED: Final = CauseCode.STATIC_MEMBER_JOINED.value
RETURNED_CHANGED: Final = CauseCode.STATIC_MEMBER_RETURNED_CHANGED.value
RETURNED_UNREADY: Final = CauseCode.STATIC_MEMBER_RETURNED_UNREADY.value
SUBSCRIPTION: Final = CauseCode.SUBSCRIPTION_CHANGED.value
LEADER: Final = CauseCode.LEADER_REJOINED.value
REJOINED: Final = CauseCode.MEMBER_REJOINED.value
MAX_POLL: Final = "max_poll_exceeded"
"""Codes of causes, and of likely reasons behind them."""

CONFIDENCE: Final[Mapping[str, float]] = {
    UNKNOWN: 0.99,
    JOINED: 0.99,
    STATIC_JOINED: 0.99,
    LEFT: 0.97,
    EXPIRED: 0.95,
    REMOVED: 0.8,
    RETURNED_CHANGED: 0.9,
    RETURNED_UNREADY: 0.9,
    SUBSCRIPTION: 0.97,
    LEADER: 0.9,
    REJOINED: 0.9,
}
"""Confidence of rows by cause, see docs/analytics.md. With an unknown cause a row only claims that
the rebalance happened."""
